# SPDX-License-Identifier: Apache-2.0
"""netpipe completion: the script with which a shell completes commands, options, variants, patterns and settings."""

from __future__ import annotations

import click

WHERE = {
    "bash": "echo 'eval \"$(netpipe completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(netpipe completion zsh)\"' >> ~/.zshrc",
    "fish": "netpipe completion fish > ~/.config/fish/completions/netpipe.fish",
}

# Bash splits words at the characters of COMP_WORDBREAKS, so tcp:wait=po is five words, and a reply replaces only the
# last. The words are joined again where no blank is between them, and the replies lose what comes before the last one.
BASH = r"""
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
"""


@click.command(epilog="For example: " + WHERE["bash"])
@click.argument("shell", type=click.Choice(list(WHERE)))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options, variants, patterns and their settings, and what a run file has.
    """
    from click.shell_completion import get_completion_class

    from netpipe.cli import group

    if shell == "bash":
        click.echo(BASH)
    else:
        kind = get_completion_class(shell)
        assert kind is not None
        script = kind(group, {}, "netpipe", "_NETPIPE_COMPLETE")
        click.echo(script.source_template % script.source_vars())
    click.echo(f"# to keep it: {WHERE[shell]}")
