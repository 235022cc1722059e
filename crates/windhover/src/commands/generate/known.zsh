
_windhover() {
    local -a known
    known=("${(@f)$("$words[1]" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$known" ]]; then
        compadd -U -a known
    else
        _windhover_static "$@"
    fi
}

