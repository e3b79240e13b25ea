# SPDX-License-Identifier: Apache-2.0
"""netpipe completion: the script that lets a shell complete commands, options, modules and patterns."""

from __future__ import annotations

import click

WHERE = {
    "bash": "echo 'eval \"$(netpipe completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(netpipe completion zsh)\"' >> ~/.zshrc",
    "fish": "netpipe completion fish > ~/.config/fish/completions/netpipe.fish",
}


@click.command(epilog="For example: " + WHERE["bash"])
@click.argument("shell", type=click.Choice(list(WHERE)))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from netpipe.cli import group

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(group, {}, "netpipe", "_NETPIPE_COMPLETE")
    # Not .source(): that starts a bash to ask for its version, and the script may be for another machine.
    click.echo(script.source_template % script.source_vars())
    click.echo(f"# to keep it: {WHERE[shell]}")
