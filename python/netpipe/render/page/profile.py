# SPDX-License-Identifier: Apache-2.0
"""The page of a profile: one HTML file that needs no other file, no network and no scripts.

Its figures are those that `netpipe plot` draws of a profile, as HTML and SVG in the colours of the page. They are sharp
and readable on a telephone, in the dark and on paper, and the page is a twentieth of what a library that draws would
take.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from netpipe.profiles import Profile
from netpipe.profiles.tables import Facts, Tables
from netpipe.render.drawing.scope import Scope
from netpipe.render.page import profile_figures as drawn
from netpipe.render.page import profile_tables as shown
from netpipe.render.page.programs.prediction import Elsewhere
from netpipe.render.page.template import template, text_of
from netpipe.render.terminal.phases import most_sentence
from netpipe.render.terminal.profile import facts_sentences, gap_sentences, late_sentence
from netpipe.render.terminal.waiting import no_waiting_sentence, notes, waiting_sentences
from netpipe.render.words import programs_text
from netpipe.units import counted, counts_text, percent_text, span_text, time_text


def write(
    profile: Profile,
    path: Path,
    title: str | None = None,
    source: Path | None = None,
    there: Elsewhere | None = None,
) -> None:
    """Writes the page to `path`. `source` is the file of the profile, `there` what other libraries would make of it.
    Raises OSError from the file system.
    """
    path.write_text(page(profile, title, source, there), encoding="utf-8")


def page(
    profile: Profile, title: str | None = None, source: Path | None = None, there: Elsewhere | None = None
) -> str:
    """The page as one text."""
    scope = Scope((), profiles=(profile,))
    found = scope.tables
    return template("profile.html").render(
        css=text_of("report.css") + text_of("profile.css") + text_of("chart.css"),
        elsewhere=there,
        title=title or _title(found.facts),
        facts=list(facts_sentences(found.facts)),
        answers=list(answers(found)),
        missing=list(gap_sentences(found.missing, found.facts.ranks)),
        there=found.rank is not None,
        figures=drawn.sections(scope) if found.rank is not None else {},
        not_judged=list(_not_judged(found)),
        paper=list(shown.of_the_paper(found)),
        more=list(shown.more(profile, found)),
        about=_about(profile, found.facts, source),
    )


def answers(found: Tables) -> Iterator[str]:
    """How much of the time is MPI, which call and which phase take most of that, how much is waiting, and who computes
    longest.
    """
    share = found.facts.in_mpi
    if share is not None:
        yield f"MPI takes {percent_text(share.mean)} of the time."
    if found.time_by_call and found.time_by_call[0].all_ranks.time_ns:
        most, of = found.time_by_call[0].call, found.time_by_call[0].all_ranks
        whose, their = (" of all ranks together", "their") if found.ranks > 1 else ("", "the")
        yield (
            f"The call that takes most is {most}: {time_text(of.time_ns)}{whose}, {percent_text(of.share)} of {their} "
            f"time, in {counts_text(of.calls)} {'call' if of.calls == 1 else 'calls'}."
        )
    if in_phase := most_sentence(found):
        yield in_phase
    if found.waiting.problem is None and len(found.waiting.ranks) > 1:
        yield " ".join(waiting_sentences(found.waiting))
    if late := late_sentence(found):
        yield late
    elif found.balance.imbalance is not None:
        more = percent_text(found.balance.imbalance)
        yield f"The ranks compute equally long: the longest exceeds the mean by {more}."


def _not_judged(found: Tables) -> Iterator[str]:
    """What is not known about waiting."""
    if found.ranks < 2:
        return
    if found.waiting.problem is not None:
        yield no_waiting_sentence(found.waiting)
    else:
        yield from notes(found.waiting)


def _title(facts: Facts) -> str:
    names = programs_text(facts)
    if not facts.hosts:
        return names
    where = facts.hosts[0].host if len(facts.hosts) == 1 else f"{len(facts.hosts)} hosts"
    return f"{names} on {where}"


def _about(profile: Profile, facts: Facts, source: Path | None) -> list[tuple[str, str]]:
    """What identifies the profile."""
    header = profile.header
    lines = [
        ("profile", header.profile),
        ("recorded by", f"netpipe {header.netpipe}" if header.netpipe else None),
        (
            "started",
            f"{facts.started}{f' on {header.host}' if header.host else ''}" if facts.started else None,
        ),
        ("command", " ".join(facts.command)),
        ("programs", ", ".join(facts.programs)),
        ("library", facts.library),
        ("module", facts.module),
        ("ranks", f"{counted(facts.ranks, 'rank')} on {counted(len(facts.hosts), 'host')}"),
        ("took", span_text(facts.wall_s) if facts.wall_s is not None else None),
        ("ended", f"exit code {facts.exit_code}" if facts.exit_code is not None else None),
        ("file", source.name if source else None),
    ]
    return [(name, text) for name, text in lines if text]
