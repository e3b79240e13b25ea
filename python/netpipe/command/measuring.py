# SPDX-License-Identifier: Apache-2.0
"""What every command that measures has in common. Such a command is one file:

    @measuring_command(output="mine.jsonl", plan_options=("timeout",), defaults={"launches": 3})
    def command(**given: Any) -> int:
        '''Measure something.'''
        session = Session(request(given))
        result = measure(session, given, display(given, session))
        return result.exit_code

It declares its own options with click.option below the decorator, as any command. The options that are settings of a
plan come from the worker, with their help and defaults.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from netpipe.command.choices import complete_launchers, complete_measured_now
from netpipe.command.config import config_option
from netpipe.command.options import module_option
from netpipe.command.worker_options import WorkerCommand
from netpipe.failure import INTERRUPTED

if TYPE_CHECKING:
    from netpipe.records import Run
    from netpipe.render.terminal.live import Display
    from netpipe.session import Request, Result, Session

LAUNCHER_OPTIONS = (
    ("hosts", "A,B", "Hosts of the processes; A:2,B:2 for two on each  [default: this host]"),
    (
        "launcher",
        "NAME",
        "Start processes with srun or ssh, not with the library's launcher  [default: own layers: ssh; in Slurm: srun]",
    ),
    ("launcher-args", "WORDS", "More arguments for mpirun, mpiexec or srun."),
    ("remote-shell", "COMMAND", "How to reach other hosts, such as 'ssh -p 2222'."),
)


def launcher_options(function: Any) -> Any:
    """A decorator: the options of launching on hosts."""
    for name, what, text in reversed(LAUNCHER_OPTIONS):
        complete = complete_launchers if name == "launcher" else None
        function = click.option(f"--{name}", metavar=what, shell_complete=complete, help=text)(function)
    return function


class MeasuringCommand(WorkerCommand):
    """A command with the options of a plan."""

    def __init__(
        self, *arguments: Any, plan_options: Collection[str] | None, texts: Mapping[str, str], **keywords: Any
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._wanted = plan_options  # None: all
        self._texts = texts  # defaults of this command, in place of the worker's

    def worker_options(self) -> list[click.Option]:
        from netpipe import native

        return [
            _option(key, self._texts.get(key["option"], key["default"]))
            for key in native.keys()["plan_keys"]
            if key["option"] and not key["repeatable"] and self._wants(key["option"])
        ]

    def _wants(self, option: str) -> bool:
        return self._wanted is None or option in self._wanted


def _option(key: Mapping[str, Any], default: str | None) -> click.Option:
    """One key of a plan as an option. Its text goes to the worker as it is."""
    text = key["help"].rstrip(".")
    shown = f"{text}  [default: {default}]" if default and key["type"] != "yes_no" else f"{text}."
    if key["type"] == "yes_no":
        return click.Option([f"--{key['option']}"], is_flag=True, help=shown)
    metavar = key["metavar"] or key["option"].upper()
    choices = list(key["choices"])
    return click.Option(
        [f"--{key['option']}"],
        metavar=metavar,
        help=shown,
        shell_complete=lambda _ctx, _param, begun: [word for word in choices if word.startswith(begun)],
    )


def measuring_command(
    *,
    output: str,
    plan_options: Collection[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    more: tuple[Callable[[Any], Any], ...] = (),
) -> Callable[[Callable[..., int]], click.Command]:
    """Makes a command of a function: VARIANTs, the options of the plan (all, or those named in `plan_options`), of
    launching and of output, and then `more`, the command's own. `defaults`: texts of plan options, and `launches`.
    """
    texts = {key: str(value) for key, value in (defaults or {}).items()}
    launches = texts.pop("launches", "1")

    def decorate(function: Callable[..., int]) -> click.Command:
        own = [
            click.argument(
                "variants", nargs=-1, metavar="[VARIANT]...", shell_complete=complete_measured_now
            ),
            *more,
            launcher_options,
            click.option(
                "--launches",
                type=click.IntRange(1, 10_000),
                metavar="N",
                help=f"Start everything this many times  [default: {launches}]",
            ),
            module_option,
            click.option(
                "-o",
                "--output",
                default=output,
                metavar="FILE",
                help="The run file; an older run there is renamed. - for standard output, without a file  "
                f"[default: {output}]",
            ),
            click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
            click.option(
                "--json", "as_json", is_flag=True, help="Print the records to standard output as they come."
            ),
            config_option,
        ]
        for decorator in reversed(own):
            function = decorator(function)
        return click.command(cls=MeasuringCommand, plan_options=plan_options, texts=texts)(function)

    return decorate


def request(given: Mapping[str, Any], settings: Mapping[str, str] | None = None, **fields: Any) -> Request:
    """The request of a command line. `settings` are defaults, `fields` are fields of the request in place of what the
    options say.
    """
    from netpipe.session import Request

    said = {key.replace("_", "-"): value for key, value in given.items() if value not in (None, False, ())}
    keys = _plan_keys()
    plan_settings = {**(settings or {})}
    for option, value in said.items():
        if option in keys:
            plan_settings[keys[option]] = "yes" if value is True else str(value)
    fields.setdefault("variants", given["variants"])
    fields.setdefault("launches", said.get("launches", 1))
    return Request(
        settings=plan_settings,
        modules=given["files"],
        **{name: given[name] for name in ("hosts", "launcher", "launcher_args", "remote_shell")},
        **fields,
    )


def _plan_keys() -> dict[str, str]:
    """The key of a plan for each option."""
    from netpipe import native

    return {key["option"]: key["name"] for key in native.keys()["plan_keys"] if not key["repeatable"]}


def to_standard_output(given: Mapping[str, Any]) -> bool:
    return bool(given["as_json"] or given["output"] == "-")


def display(given: Mapping[str, Any], session: Session) -> Display:
    """How progress is shown: not at all, as a table on a terminal, else in lines."""
    from netpipe.render.terminal import live
    from netpipe.streams import say

    if given["quiet"]:
        return live.Silent(say)
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from netpipe.render.terminal.rows import console

        return live.LiveTable(console(sys.stderr), session.plan)
    return live.Lines(say)


def measure(
    session: Session,
    given: Mapping[str, Any],
    shown: Display,
    strict: bool = False,
    check: Callable[[Run, int], None] | None = None,
) -> Result:
    """Measures with the output options of a command line, and says what became of the files. `check` as that of
    `Session.measure`.
    """
    from netpipe.session import Progress, has_results
    from netpipe.streams import say, while_read

    output = None if given["output"] == "-" else Path(given["output"])

    def watch(progress: Progress) -> None:
        if to_standard_output(given):
            lines = (line for line, _ in progress.lines)
            # Without a file nobody would ever see the rest; a run file is written to its end.
            sys.stdout.buffer.writelines(while_read(lines) if output is None else lines)
            sys.stdout.flush()
        shown.show(progress)

    try:
        for note in session.notes:
            say(note)
        argv = click.get_current_context().obj
        onto = bool(given.get("onto"))
        keep = _output_was_named()
        result = session.measure(
            output, watch, strict=strict, argv=argv, onto=onto, check=check, keep_reasons=keep
        )
        if result.kept is not None:
            shown.say(f"the run that was in {output} is now in {result.kept}")
    finally:
        shown.close()
    if result.exit_code == INTERRUPTED:
        say(f"interrupted; {where(result, given)}")
    elif output is not None and not has_results(result.run) and (output.is_file() or not output.exists()):
        say(where(result, given))
    return result


def _output_was_named() -> bool:
    """Whether the user chose the run file. Who did looks for it afterwards, so it is there, with the reason, even if
    nothing was measured. A file with the usual name would only be in the way of the next run.
    """
    context = click.get_current_context()
    usual = context.get_parameter_source("output") in (None, ParameterSource.DEFAULT)
    return not (isinstance(context.command, MeasuringCommand) and usual)


def where(result: Result, given: Mapping[str, Any]) -> str:
    """Where the records are now."""
    from netpipe.session import has_results

    if has_results(result.run) and result.path is not None:
        return f"what was measured until then is in {result.path}"
    if result.path is not None:
        return f"nothing was measured, and {result.path} says why"
    if given["output"] != "-" and Path(given["output"]).is_file():
        return f"nothing was measured, and {given['output']} is still {_earlier(Path(given['output']))}"
    if has_results(result.run):
        return "what was measured until then has been printed"
    return "nothing was measured, and no run file was written"


def _earlier(path: Path) -> str:
    from netpipe.records import NotARun, Run
    from netpipe.session import has_results

    try:
        return "the earlier run" if has_results(Run.read(path)) else "an earlier run without any result"
    except (NotARun, OSError):
        return "as it was"


def print_result(result: Result, given: Mapping[str, Any], last: str, more: str | None = None) -> None:
    """The summary and last sentences; on standard error when standard output has the records."""
    from netpipe.render.terminal.summary import console, print_summary
    from netpipe.session import has_results

    out = console(sys.stderr if to_standard_output(given) else sys.stdout)
    print_summary(out, result.reading)
    if result.path is not None and has_results(result.run):
        out.print()
        report = shlex.join(["netpipe", "report", str(result.path)])
        out.print(f"{last}; {report} writes the report.", soft_wrap=True)
        if more:
            out.print(more, soft_wrap=True)
