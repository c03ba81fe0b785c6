# completion of tilec's command line for fish; the options, passes, targets and warnings are asked of tilec

function __tilec_targets
    tilec --list-targets 2>/dev/null | awk '{print $1}'
end

function __tilec_passes
    tilec --list-passes 2>/dev/null | awk '{print $1}'
end

function __tilec_warnings
    tilec --help 2>/dev/null | awk '/^Warnings/ {on = 1} /^Options/ {on = 0} on && /^  / {print $1}'
end

# Words that begin with an option: those with values are whole words, which are matched as they are written.
function __tilec_words
    set -l word (commandline -ct)
    switch $word
        case '-mtune=*'
            printf '%s\n' -mtune=(__tilec_targets)
        case '--emit=*'
            printf '%s\n' --emit={ptx,cubin,header,json,ast,tir,lir,html}
        case '--nan=*'
            printf '%s\n' --nan={note,error,ignore}
        case '--warps=*'
            printf '%s\n' --warps={1,2,4,8,16}
        case '--stages=*'
            printf '%s\n' --stages={1,2,3,4,5,6,7,8}
        case '--variants=*'
            printf '%s\n' --variants=auto
        case '--header-cubin=*' '--dump-ir=*' '--run-pass=*'
            set -l before (string replace -r '[^=,]*$' '' -- $word)
            set -l values (string match -q -- '--header-cubin=*' $word; and __tilec_targets; or __tilec_passes)
            printf '%s\n' $before$values
        case '--plan=*'
            set -l before (string replace -r '[^=,]*$' '' -- $word)
            printf '%s\n' $before{none,consumers=,stages=,q_stages=,persistent=,dynamic=,clc=,pipelined=,pingpong=,cooperative=,cluster=,blocks=,correction=}
        case '-Werror=*' '-Wno-error=*'
            printf '%s\n' (string replace -r '=.*' '=' -- $word)(__tilec_warnings)
        case '-W*'
            printf '%s\n' -W(__tilec_warnings)
            printf '%s\n' -Wno-(__tilec_warnings)
        case '-f*'
            printf '%s\n' -f(__tilec_passes)
            printf '%s\n' -fno-(__tilec_passes)
        case '-*'
            tilec --help 2>/dev/null | awk '$1 ~ /^-/ {
                name = $1; about = $0; sub(/^ *[^ ]+ ?[^ ]* +/, "", about)
                sub(/\[.*/, "", name); sub(/=.*/, "=", name); print name "\t" about }'
    end
end

function __tilec_before
    test (commandline -opc)[-1] = $argv[1]
end

complete -c tilec -f -a '(__tilec_words)' -n 'string match -q -- "-*" (commandline -ct)'
complete -c tilec -f -a '(__tilec_targets)' -n '__tilec_before -arch'
complete -c tilec -f -a 'time traffic' -n '__tilec_before --sort'
complete -c tilec -f -a 'fwd bwd' -n '__tilec_before --mode'
complete -c tilec -f -a '(tilec explain 2>/dev/null | awk "{print \$1}")' -n '__tilec_before explain'
complete -c tilec -f -a 'search run watch fmt lsp explain' -n 'test (count (commandline -opc)) = 1'
complete -c tilec -f -a '(__fish_complete_suffix .tile; __fish_complete_suffix .tir; __fish_complete_suffix .ptx)' \
    -n 'not string match -q -- "-*" (commandline -ct); and not __tilec_before -arch; and not __tilec_before explain'
