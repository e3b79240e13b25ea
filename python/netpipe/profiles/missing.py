# SPDX-License-Identifier: Apache-2.0
"""What a profile lacks, and in words what it lacks of its ranks: those that are not in the file, and the end of others.
Whoever shows a profile or makes something of it says that, because means are over the ranks that are there.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from netpipe.profiles.lines import Profile, Rank
from netpipe.units import counted, listed

FATAL = {one.value: one.name for one in (signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)}
MOST_LISTED = 1 << 16  # ranks that the file lacks; the number in a damaged first line may be any


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the profile lacks. `what`: cut_off, nothing, no_calls, aborted, unfinished, problem, failed (the
    command), no_trace; and trace, coarse, sizes, peers, phases, buffers, transfers, threads, of which tables.py knows.
    """

    what: str
    ranks: list[int] = []
    count: int = 0  # of events, calls, buffers, transfers or ranks; the exit code of aborted and failed
    why: str = ""


def lost(profile: Profile) -> Iterator[Gap]:
    """Ranks, and the end of ranks, in the order of how much is lost."""
    ranks = profile.ranks
    there = [one for one in ranks if one.rank in profile.entries]
    gone = [one for one in ranks if one.rank not in profile.entries]
    if profile.end is None:
        known = {one.rank for one in ranks}
        others = [rank for rank in range(min(profile.header.ranks, MOST_LISTED)) if rank not in known]
        yield Gap(what="cut_off", ranks=others, count=max(0, profile.header.ranks - len(ranks)))
    yield from _grouped("nothing", gone, lambda one: one.problem)
    if silent := [one.rank for one in gone if not one.problem]:
        yield Gap(what="no_calls", ranks=silent)
    for code in dict.fromkeys(one.exit_code for one in there if one.state == "aborted"):
        some = [one.rank for one in there if one.state == "aborted" and one.exit_code == code]
        yield Gap(what="aborted", ranks=some, count=code or 0)
    if some := [one.rank for one in there if one.state == "unfinished"]:
        yield Gap(what="unfinished", ranks=some)
    yield from _grouped("problem", there, lambda one: one.problem)
    if profile.end is not None and profile.end.exit_code:
        yield Gap(what="failed", count=profile.end.exit_code)
    traced = {rank: trace.events for rank, trace in profile.traces.items()}
    if some := [one.rank for one in there if traced.get(one.rank, 0) < one.events]:
        yield Gap(what="no_trace", ranks=some)


def _grouped(what: str, ranks: Sequence[Rank], why: Callable[[Rank], str | None]) -> Iterable[Gap]:
    """A gap for each reason."""
    for reason in dict.fromkeys(why(one) for one in ranks):
        if reason:
            yield Gap(what=what, ranks=[one.rank for one in ranks if why(one) == reason], why=reason)


def lost_texts(profile: Profile) -> list[str]:
    """All of `lost` in words."""
    ranks = max(profile.header.ranks, len(profile.ranks))
    return [lost_text(gap, ranks) for gap in lost(profile)]


def lost_text(gap: Gap, ranks: int) -> str:
    """A gap of `lost`, as a sentence without its capital and its full stop. `ranks`: of the program."""
    some = ranks_text(gap.ranks, ranks)
    until = f"what {'it' if len(gap.ranks) == 1 else 'they'} did until"
    if gap.what == "cut_off":
        incomplete = "the file is incomplete: it has no last line"
        if not gap.count or gap.count == ranks:
            return f"{incomplete}, and no rank is in it" if gap.count else incomplete
        which = some if len(gap.ranks) == gap.count else counted(gap.count, "rank")
        return f"{incomplete}, and {which} of {ranks} {'is' if gap.count == 1 else 'are'} not in it"
    if gap.what == "nothing":
        return f"there is nothing of {some}: {gap.why}"
    if gap.what == "no_calls":
        return f"the calls of {some} are not in the file"
    if gap.what == "aborted":
        return f"{some} called MPI_Abort with code {gap.count}: {until} then counts"
    if gap.what == "unfinished":
        return f"{some} never called MPI_Finalize: {until} the end counts"
    if gap.what == "problem":
        return f"{some}: {gap.why}"
    if gap.what == "failed":
        return f"the command ended with {code_text(gap.count)}"
    return f"the file lacks the trace of {some}, or the end of it"


def code_text(code: int) -> str:
    """An exit code of a command, and the signal that it may stand for: a shell and most launchers add 128 to it, and
    MPICH's gives the signal alone. Its words go to the user's terminal, and nothing else tells the two apart.
    """
    if code in FATAL:
        name = f"{FATAL[code]} (signal {code})"
        return f"exit code {code}, with which MPICH's launcher also tells that {name} ended a rank"
    if code - 128 in FATAL:
        return f"exit code {code}, which stands for {FATAL[code - 128]} (signal {code - 128})"
    return f"exit code {code}"


def ranks_text(some: Sequence[int], ranks: int) -> str:
    """rank 3; ranks 1, 2 and 5; all 4 ranks; 64 ranks (0, 1, 2, ...)."""
    if len(some) == 1:
        return f"rank {some[0]}"
    if len(some) == ranks:
        return f"all {ranks} ranks"
    if len(some) <= 6:
        return f"ranks {listed(map(str, some))}"
    return f"{counted(len(some), 'rank')} ({', '.join(map(str, some[:3]))}, ...)"
