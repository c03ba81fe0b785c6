# completion of tilec's command line for bash; the options, passes and targets are asked of tilec
_tilec() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]}
    case $before in
    -arch | -mtune)
        mapfile -t COMPREPLY < <(compgen -W "$("$program" --list-targets 2>/dev/null | awk '{print $1}')" -- "$word")
        return ;;
    explain)
        mapfile -t COMPREPLY < <(compgen -W "$("$program" explain 2>/dev/null | awk '{print $1}')" -- "$word")
        return ;;
    esac
    case $word in
    -fno-*)
        mapfile -t COMPREPLY < <(compgen -P -fno- -W "$("$program" --list-passes 2>/dev/null |
            awk '{print $1}')" -- "${word#-fno-}") ;;
    -*)
        mapfile -t COMPREPLY < <(compgen -W "$("$program" --help 2>/dev/null |
            awk '$1 ~ /^-/ {sub(/[=[].*/, "", $1); print $1}')" -- "$word") ;;
    *)
        mapfile -t COMPREPLY < <([ "$COMP_CWORD" = 1 ] && compgen -W "search run watch fmt lsp explain" -- "$word"
            compgen -f -X '!*.@(tile|tir|ptx)' -- "$word"; compgen -d -- "$word") ;;
    esac
}
complete -o filenames -F _tilec tilec
