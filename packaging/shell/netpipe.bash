_netpipe_completion() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} word next last part prefix kind value i
    local -a words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        next=${line#"${line%%[![:space:]]*}"}
        if ((i == 0)) || [[ $next != "$line" ]]; then
            words+=("$word")
        else
            words[${#words[@]}-1]+=$word
        fi
        line=${next#"$word"}
    done
    last=$((${#words[@]} - 1))
    part=${COMP_WORDS[COMP_CWORD]}
    prefix=${words[last]}
    # A separator alone is not replaced, it is completed after.
    if [[ -n ${part//[$COMP_WORDBREAKS]/} ]]; then
        prefix=${prefix%"$part"}
    fi
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain)
                [[ $value == *= ]] && compopt -o nospace 2>/dev/null
                COMPREPLY+=("${value#"$prefix"}")
                ;;
        esac
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$last _NETPIPE_COMPLETE=bash_complete "${words[0]}" 2>/dev/null)
}
complete -o nosort -F _netpipe_completion netpipe
