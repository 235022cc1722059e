
function __fish_windhover_known
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words[2..-1] 2>/dev/null | string replace -r -- '^--[a-z-]*=' ''
end
