# SPDX-License-Identifier: Apache-2.0
"""What a prediction cannot know: whether ranks shared processors, what messages between hosts cost where only those
within a host were measured, what calls take that the replay leaves as they were, what several threads of a rank do at
once, and what comes of curves that nobody should trust, or that the profile itself contradicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from statistics import median
from typing import TYPE_CHECKING

from netpipe.prediction.runs import of_program
from netpipe.profiles import NotAProfile
from netpipe.profiles.missing import lost_texts
from netpipe.profiles.trace.calls import Kind
from netpipe.units import counted, listed

if TYPE_CHECKING:
    from netpipe.prediction.unknown.residual import Residual
    from netpipe.profiles import Profile
    from netpipe.profiles.trace.calls import Calls
    from netpipe.records import Run

MOST_FIXED = 0.5  # of the time in MPI, that takes in the replay what it took; beyond it nothing is said
LEAST_FIXED = 0.02  # and beyond this it is told
NAMED = 3  # calls, of those that take most


def unknown(
    profile: Profile,
    made: Sequence[Calls],
    run: Run,
    variants: Collection[str],
    processors: int | None,
    untrusted: str,
    residual: Residual | None,
) -> str:
    """Why nothing is known about any of the variants; empty where something is. `untrusted`: why the curves are not to
    be trusted, if so.
    """
    return (
        oversubscribed(profile, processors)
        or _apart(profile, made[0], run, variants)
        or (fixed_text(made) if fixed(made) > MOST_FIXED else "")
        or untrusted
        or ("" if residual is None else residual.misfit_text)
    )


# ------------------------------------------------------------------------------------------------- the profiles


def lost_notes(launches: Sequence[Profile]) -> list[str]:
    """Ranks that the profiles lack, and the end of others; of several profiles with the place of the launch."""
    return [
        f"launch {place}: {text}" if len(launches) > 1 else text
        for place, profile in enumerate(launches, 1)
        for text in lost_texts(profile)
    ]


# --------------------------------------------------------------------------------------------------- processors


def oversubscribed(profile: Profile, processors: int | None) -> str:
    """That ranks shared processors; empty: they did not, or nobody knows. The profile says how many the host had on
    which it was taken; `processors` is that of a host of the run, for the others.
    """
    header = profile.header
    for host, ranks in Counter(profile.hosts.values()).most_common():
        there = header.processors if header.processors and host == header.host else processors
        if there is not None and ranks > there:
            return (
                f"{counted(ranks, 'rank')} shared {counted(there, 'processor')} of {host or 'a host'}: how long a call "
                "takes depended on when each rank was given one, which no curve tells"
            )
    return ""


# -------------------------------------------------------------------------------------------------------- hosts


def hosts_of(run: Run, variant: str) -> set[str]:
    """On which a variant was measured; empty: not known."""
    those = (one for one in run.variants if of_program(one.variant) == variant)
    return {rank.host for one in those for rank in one.ranks if rank.host}


def near_and_far_curves(run: Run, variant: str) -> tuple[bool, bool]:
    """Whether messages of a variant were measured within a host, and between hosts; neither: nobody knows."""
    there = {point.variant for point in run.points if point.pattern == "pingpong"}
    hosts = {
        len({rank.host for rank in one.ranks if rank.host})
        for one in run.variants
        if of_program(one.variant) == variant and one.variant in there
    }
    return 1 in hosts, max(hosts, default=0) > 1


def near_and_far(profile: Profile, made: Calls) -> tuple[bool, bool]:
    """Whether ranks exchange anything within a host, and between hosts. Messages of a rank to itself do not count."""
    host = profile.hosts
    pairs = {(one.source, one.target) for one in made.messages if not one.within}
    groups = {tuple(sorted(one.members)) for one in made.groups if one.ranks > 1}
    there = [{host.get(rank, "") for rank in ranks} for ranks in pairs | groups]
    near = any(len(hosts) < len(ranks) for hosts, ranks in zip(there, pairs | groups, strict=True))
    return near, any(len(hosts) > 1 for hosts in there)


def fits(profile: Profile, made: Calls, run: Run, variant: str) -> bool:
    """Whether the variant was measured as the program ran, on one host or on several; also where nobody knows."""
    near, far = near_and_far_curves(run, variant)
    return not (near or far) or (far if near_and_far(profile, made)[1] else near)


def left_out(profile: Profile, made: Calls, run: Run, variants: Collection[str]) -> list[str]:
    """The variants without curves between hosts, which this program needs; none where all lack them."""
    within = _within(profile, made, run, variants)
    return within if len(within) < len(variants) else []


def left_out_text(variants: Sequence[str]) -> str:
    verb = "is" if len(variants) == 1 else "are"
    return (
        f"{listed(variants)} {verb} left out: the program's ranks are on several hosts, and these curves were measured "
        "within one"
    )


def _within(profile: Profile, made: Calls, run: Run, variants: Collection[str]) -> list[str]:
    """Those that were measured within a host alone, if the program exchanges anything between hosts."""
    if not near_and_far(profile, made)[1]:
        return []
    return [one for one in variants if near_and_far_curves(run, one) == (True, False)]


def _apart(profile: Profile, made: Calls, run: Run, variants: Collection[str]) -> str:
    within = _within(profile, made, run, variants)
    if not within:
        return ""
    return (
        f"the program's ranks are on {counted(len(set(profile.hosts.values())), 'host')}, and the curves of "
        f"{listed(within)} were measured within one: a message between hosts may take many times as long. netpipe run "
        "--hosts A,B measures between hosts; name that run too"
    )


def host_notes(profile: Profile, made: Calls, run: Run, variants: Collection[str]) -> list[str]:
    """Curves of other hosts, and those between hosts for messages within one, where there are no others."""
    said = []
    there = {_short(host) for host in profile.hosts.values() if host}
    elsewhere = {host for one in variants for host in hosts_of(run, one) if _short(host) not in there}
    if there and elsewhere:
        said.append(
            f"the curves are of {listed(sorted(elsewhere))}, and the profile of "
            f"{listed(sorted(set(profile.hosts.values())))}: computation takes what it took there, and calls what they "
            "take here"
        )
    near, far = near_and_far(profile, made)
    between = [one for one in variants if near_and_far_curves(run, one) == (False, True)]
    if near and between:
        which = (
            "the messages within a host" if far else "all messages, which in the profile are within one host,"
        )
        said.append(f"over {listed(between)} {which} are taken to cost what those between hosts do")
    return said


def _short(host: str) -> str:
    """Without its domain, which some programs add."""
    return host.partition(".")[0]


# -------------------------------------------------------------------------------------------------------- calls


def fixed(made: Sequence[Calls]) -> float:
    """The share of the time in MPI of calls that the replay leaves as they were; the median over the launches."""
    return median(_fixed(one) for one in made)


def _fixed(made: Calls) -> float:
    took = sum(call.took_ns for some in made.ranks.values() for call in some)
    return sum(_left(made).values()) / took if took else 0.0


def _left(made: Calls) -> Counter[str]:
    """Nanoseconds by name of the call."""
    found: Counter[str] = Counter()
    for some in made.ranks.values():
        for call in some:
            if call.kind is Kind.OTHER:
                found[call.name] += call.took_ns
    return found


def fixed_text(made: Sequence[Calls]) -> str:
    """What these calls take, and which of them take most."""
    names = [f"MPI_{name}" for name, took in _left(made[0]).most_common(NAMED) if took]
    most = f" ({listed(names)})" if names else ""
    return (
        f"{100 * fixed(made):.0f} % of the time in MPI is that of calls which the replay leaves as they were over "
        f"every library{most}: they set something up, are one-sided, start a collective, make a partition ready, or "
        "have no other half in the trace"
    )


# ------------------------------------------------------------------------------------------------------ threads


def refuse_threads(launches: Sequence[Profile]) -> None:
    """Raises NotAProfile where several threads of a rank were in calls at once: a replay has one clock for a rank."""
    import numpy as np

    for profile in launches:
        for rank in profile.ranks:
            trace = profile.traces.get(rank.rank)
            if rank.threads != "multiple" or trace is None:
                continue
            begin, took = trace.column("begin_ns"), trace.column("duration_ns")
            order = np.argsort(begin, kind="stable")
            begin, ends = begin[order], np.maximum.accumulate((begin + took)[order])
            # One call can be several events, which begin at the same moment.
            if np.any((begin[1:] < ends[:-1]) & (begin[1:] != begin[:-1])):
                raise NotAProfile(
                    f"several threads of rank {rank.rank} were in calls of MPI at the same time, and the replay has "
                    "one clock for a rank: this program cannot be predicted"
                )
