# SPDX-License-Identifier: Apache-2.0
"""netpipe tune: finds settings that are faster, proves each gain, and writes them in the library's own format."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from netpipe.command import measuring
from netpipe.command.choices import complete_patterns, complete_variants
from netpipe.command.config import config_option
from netpipe.command.options import module_option
from netpipe.failure import DONE, INTERRUPTED, USAGE, Failure

if TYPE_CHECKING:
    from netpipe.tuning.job import Job

# Of the plan; the others are the goal's business.
PLAN_OPTIONS = ("ranks", "pin", "buffers", "timeout", "host", "port", "token-file", "bind")
TIMEOUT_S = "5"  # a candidate that hangs costs as much


class TuneCommand(measuring.MeasuringCommand):
    """A command that takes `--goal profile FILE` as `--goal profile=FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_goals_joined(args))


def with_goals_joined(arguments: list[str]) -> list[str]:
    """The goals that have a name joined with it: `--goal profile FILE` and `--goal collective NAME`."""
    from netpipe.tuning.search.goals import COLLECTIVE, PROFILE

    left = list(arguments)
    found: list[str] = []
    while left:
        word = left.pop(0)
        if word == "--":
            return [*found, word, *left]
        if word == "--goal" and left:
            word = f"--goal={left.pop(0)}"
        if word in (f"--goal={COLLECTIVE}", f"--goal={PROFILE}") and left and not left[0].startswith("-"):
            word = f"{word}={left.pop(0)}"
        found.append(word)
    return found


def complete_goals(context: click.Context, of: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The goals; after collective= the operations, and after profile= files."""
    from netpipe.tuning.search.goals import COLLECTIVE, NAMES, PROFILE

    kind, equals, begun = incomplete.partition("=")
    if equals and kind == PROFILE:
        return [CompletionItem(begun, type="file")]
    if equals and kind == COLLECTIVE:
        start = f"{COLLECTIVE}:what="
        before, comma, last = begun.rpartition(",")
        found = complete_patterns(context, of, f"{start}{last}")
        return [
            CompletionItem(f"{COLLECTIVE}={before}{comma}{one.value.removeprefix(start)}") for one in found
        ]
    goals = [name for name in NAMES if "=" not in name] + [f"{COLLECTIVE}=", f"{PROFILE}="]
    return [CompletionItem(goal) for goal in goals if goal.startswith(incomplete)]


def _options(function: Callable[..., int]) -> Callable[..., int]:
    own: list[Callable[[Any], Any]] = [
        click.argument("variants", nargs=-1, metavar="VARIANT...", shell_complete=complete_variants),
        click.option(
            "--goal",
            default="curve",
            metavar="GOAL",
            shell_complete=complete_goals,
            help="What is to be faster: latency (1 to 64 B), throughput (64 KiB to 4 MiB), curve (all sizes), "
            "collective=NAME,... (algorithms of these operations), or profile=FILE (what an application sends)  "
            "[default: curve]",
        ),
        click.option(
            "--time",
            "seconds",
            type=click.FloatRange(min=0, min_open=True),
            default=60.0,
            metavar="SECONDS",
            help="How long it may take, all VARIANTs together  [default: 60]",
        ),
        click.option(
            "--only",
            metavar="OPTION,...",
            help="Search these settings alone; also those that are left out otherwise, such as wait.",
        ),
        click.option(
            "-o",
            "--output",
            default="tune",
            metavar="FOLDER",
            help="Where the results go; what an earlier call left there is renamed  [default: tune]",
        ),
        click.option(
            "--apply",
            is_flag=True,
            help="Also try settings of the kernel and of network interfaces, which the whole machine has; put back "
            "afterwards.",
        ),
        click.option("--keep", is_flag=True, help="With --apply: leave those that gain as they are then."),
        measuring.launcher_options,
        module_option,
        click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object to standard output."),
        config_option,
    ]
    for decorator in reversed(own):
        function = decorator(function)
    return function


@click.command(cls=TuneCommand, plan_options=PLAN_OPTIONS, texts={"timeout": TIMEOUT_S})
@_options
def command(**given: Any) -> int:
    """Find faster settings, prove the gain, write them down.

    The settings that VARIANT names are the start; what else its module, or its library, can be told is tried against
    it. A gain counts only when a fresh measurement confirms it and the start beside itself does not show as much.
    "Nothing to gain" is an answer, and the exit code is 0. It is 3 where the layer has nothing to tune, and 4 where
    nothing was compared.

    The folder has the settings in the format of the library, a command line, and tuned.toml for netpipe run --config.
    """
    from netpipe.streams import say
    from netpipe.tuning.job import Job
    from netpipe.tuning.search.goals import goal

    if not given["variants"]:
        raise Failure(
            USAGE, "name the VARIANT to tune, such as tcp or mpi@NAME; netpipe list shows what there is"
        )
    if given["keep"] and not given["apply"]:
        raise Failure(USAGE, "--keep is for --apply; give both, or neither")
    quiet = given["quiet"]
    job = Job(
        measuring.request(given, {"timeout": TIMEOUT_S}),
        goal(given["goal"]),
        given["seconds"],
        Path(given["output"]),
        only=[one for one in (given["only"] or "").split(",") if one],
        watch=(lambda _: None) if quiet else say,
        apply=given["apply"],
        keep=given["keep"],
        argv=click.get_current_context().obj or (),
    )
    try:
        job.run()
    except BaseException:
        if job.outcomes:  # of variants before
            show(job, given)
        raise
    show(job, given)
    return ended(job, silent=quiet or given["as_json"])


def ended(job: Job, silent: bool) -> int:
    """The exit code: the most serious of all variants. Why it is not 0 is said where nothing else has said it."""
    from netpipe.native import worst
    from netpipe.streams import say
    from netpipe.tuning.stops import exit_code, what_happened

    codes = [exit_code(one) for one in job.outcomes]
    for outcome, code in zip(job.outcomes, codes, strict=True):
        if silent and code not in (DONE, INTERRUPTED):
            say(f"{outcome.variant}: {what_happened(outcome)}")
    return worst(codes)


def show(job: Job, given: dict[str, Any]) -> None:
    """What is known of each variant that was reached."""
    from netpipe.tuning import telling

    if given["as_json"]:
        outcomes = [telling.as_json(one, job.written.get(one.variant, ())) for one in job.outcomes]
        click.echo(json.dumps({"folder": str(job.folder), "outcomes": outcomes}))
        return
    if given["quiet"]:
        return
    from rich.text import Text

    from netpipe.render.terminal.rows import console

    out = console()
    for outcome in job.outcomes:
        out.print(Text(telling.headline(outcome), style="bold"))
        lines = list(telling.details(outcome))
        last = [one for one in job.outcomes if one.variant == outcome.variant][-1]
        if (written := job.written.get(outcome.variant)) and outcome is last:
            names = ", ".join(path.name for path in written)
            folder = written[0].parent
            configured = any(path.name == "tuned.toml" for path in written)
            lines.append(
                f"In {folder}: {names}."
                + (f" Try: netpipe run --config {folder}/tuned.toml" if configured else "")
            )
        for line in lines:
            indent = " " * (2 + len(line) - len(line.lstrip()))
            wrapped = textwrap.wrap(
                line.strip(), out.width - len(indent), break_long_words=False, break_on_hyphens=False
            )
            out.print(Text("\n".join(f"{indent}{part}" for part in wrapped)), soft_wrap=True)
        out.print()
