# completion of tilerun's command line for bash; the options are asked of tilerun
_tilerun() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]}
    case $before in
    --device)
        mapfile -t COMPREPLY < <(compgen -W "gpu sim" -- "$word")
        return ;;
    --entry)
        mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^\.visible \.entry \([A-Za-z0-9_$]*\).*/\1/p' \
            "${COMP_WORDS[@]:1:COMP_CWORD-2}" 2>/dev/null)" -- "$word")
        return ;;
    =) # --in NAME=FILE.npy: a word of its own
        mapfile -t COMPREPLY < <(compgen -f -X '!*.npy' -- "$word"; compgen -d -- "$word")
        return ;;
    esac
    case $word in
    -*)
        mapfile -t COMPREPLY < <(compgen -W "$("$program" --help 2>/dev/null |
            grep -o -- '--[a-z][a-z-]*' | sort -u)" -- "$word") ;;
    *)
        mapfile -t COMPREPLY < <(compgen -f -X '!*.ptx' -- "$word"; compgen -d -- "$word") ;;
    esac
}
complete -o filenames -F _tilerun tilerun
