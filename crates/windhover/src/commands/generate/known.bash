
_windhover() {
    local line=${COMP_LINE:0:COMP_POINT} words cut
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    mapfile -t COMPREPLY < <("$1" complete -- "${words[@]:1}" 2>/dev/null)
    if (( ${#COMPREPLY[@]} == 0 )); then
        _windhover_static "$@"
        return
    fi
    cut=${words[${#words[@]}-1]}
    cut=${cut%"${cut##*[=:]}"}
    COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    [[ ${#COMPREPLY[@]} -ne 1 ]] || COMPREPLY=("$(printf %q "${COMPREPLY[0]}")")
}

