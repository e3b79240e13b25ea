# SPDX-License-Identifier: Apache-2.0
"""The command line. A command is one file in this folder: NAME.py, or NAME_.py when NAME is a Python keyword, with a
click command named `command`. It is found without being registered, and loaded when it is needed. Nothing else is in
this folder: what several commands have in common is in netpipe.command.

A command returns its exit code (None is 0) or raises Failure. Sentences for people go to standard error, as
`netpipe: sentence`; standard output is data.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import importlib.util
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import click

from netpipe.command.config import config_option
from netpipe.escapes import printable
from netpipe.failure import DONE, FAILED, INTERRUPTED, USAGE, Failure
from netpipe.streams import drop_output, open_closed, outlive_readers, say


class Commands(click.Group):
    """The files of this folder as commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(module.name.removesuffix("_") for module in pkgutil.iter_modules(__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        for name in (cmd_name, cmd_name + "_"):
            if importlib.util.find_spec(f"{__name__}.{name}"):
                command = cast("click.Command", importlib.import_module(f"{__name__}.{name}").command)
                _name_variables(command, cmd_name)
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise click.UsageError(f"there is no command '{args[0]}'; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def main(self, *arguments: Any, **keywords: Any) -> Any:
        streams = sys.stdout, sys.stderr
        try:
            return super().main(*arguments, **keywords)
        except SystemExit:  # what click does with a closed pipe; 1 means a failed check here
            sys.stdout, sys.stderr = streams
            raise BrokenPipeError from None


def _name_variables(command: click.Command, name: str) -> None:
    """Names the environment variable of each option after the option, not after its Python parameter."""
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            spelled = max(option.opts, key=len).lstrip("-").replace("-", "_")
            option.envvar = f"NETPIPE_{name}_{spelled}".upper()
        elif isinstance(option, click.Argument) and option.name == "variants":
            option.envvar = f"NETPIPE_{name}_VARIANTS".upper()


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from netpipe import version

        click.echo(f"netpipe {version()}")
        ctx.exit()


@click.command(
    cls=Commands,
    context_settings={
        "auto_envvar_prefix": "NETPIPE",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog="Start with: netpipe run. Options also come from the environment (NETPIPE_RUN_TARGET=1%) and from a TOML "
    "file (netpipe.toml in this folder, or --config): docs/reference/cli.md.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@config_option
@click.pass_context
def group(context: click.Context) -> None:
    """Measure how much of what the hardware can move reaches the application, and which layer loses the rest."""
    if context.invoked_subcommand != "tune":  # which refuses to begin where they cannot be put back
        _restore_settings()


def _restore_settings() -> None:
    """Puts back what a `netpipe tune --apply` that was killed has left changed of this machine, before anything is
    measured on it. Why that cannot be done is said, and the command goes on.
    """
    from netpipe.tuning.system.applied import restore_left

    try:
        restore_left(say)
    except Failure as failure:
        say(failure.sentence)


def call(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    open_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without 'µ' shows '?'
    code = _call(arguments)
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
    return code


def _call(arguments: Sequence[str] | None) -> int:
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        recorded = [printable(word) for word in given]  # a run file is UTF-8, an argument need not be
        returned: Any = group.main(given, prog_name="netpipe", standalone_mode=False, obj=recorded)
        sys.stdout.flush()
        return returned if isinstance(returned, int) else 0
    except Failure as failure:
        say(failure.sentence)
        return failure.exit_code
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # since click 8.2 `netpipe` alone shows its help
            click.echo(error.format_message(), err=True)
            return USAGE
        say(_sentence(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return DONE
    except OSError as error:
        where = f" {error.filename}:" if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        say(f"{where.strip()} {error.strerror or error}".strip() + ("; free some space" if full else ""))
        return FAILED if full or not error.filename else USAGE
    except Exception as error:
        from netpipe.profiles import NotAProfile
        from netpipe.records import NotARun

        if isinstance(error, (NotARun, NotAProfile)):
            say(str(error))
            return USAGE
        if sys.flags.dev_mode:
            raise
        say(_internal(error))
        return FAILED


def _internal(error: Exception) -> str:
    """A sentence about a fault of netpipe itself."""
    *_, last = traceback.extract_tb(error.__traceback__)
    what = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"[:500]
    return f"internal error, please report it: {what}; 'python -X dev -m netpipe' shows more"


def _sentence(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split())  # click lists choices in lines
    text = text[:1].lower() + text[1:]
    context = getattr(error, "ctx", None)
    if isinstance(error, click.UsageError) and context is not None:
        see = f"'{context.command_path} --help'"
        text = f"{text} See {see}." if text.endswith("?") else f"{text.removesuffix('.')}; see {see}"
    return text


def main() -> NoReturn:
    """The entry point `netpipe`."""
    # The points of a large run stay until the end, and few of our objects are in cycles: looking for these among
    # 200,000 points took a tenth of the time.
    gc.set_threshold(10_000_000, 50, 1000)
    open_closed()
    outlive_readers()
    code = call()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)  # else every one of those points is freed first, which takes half a second
