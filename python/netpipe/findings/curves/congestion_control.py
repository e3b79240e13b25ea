# SPDX-License-Identifier: Apache-2.0
"""A congestion control that does not suit the path: one that paces by an estimate (BBR) where there is no delay, or one
that takes each lost packet for a full link (CUBIC, Reno) where packets are lost for another reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Confirm,
    Finding,
    Quantity,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import Opened, beside, opened, variant_with
from netpipe.findings.curves.sockets import loss_limit
from netpipe.findings.curves.sockets.one_flow import faster_with_more
from netpipe.findings.machine import Facts
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.records import Rank, Run
from netpipe.units import digits, listed, percent_text, rate_text, size_text, time_text

NAME = "congestion"  # the option, and the setting that was in force
PACING = ("bbr", "bbr2", "bbr3")  # they pace by an estimate of rate and delay
BY_LOSS = loss_limit.CONTROLS
INSTEAD = "cubic"  # that nearly every kernel has
OFFERED = "network.tcp.congestion_controls"
SYSCTL = "sysctl net.ipv4.tcp_congestion_control={}".format
LEAST_BYTES = loss_limit.LEAST_BYTES
KEPT = 0.75  # of the layer below
SLOWER = 1.05  # than the same with the other control
AS_SLOW = 1.25  # a library that is so many times as fast as the layer of netpipe takes another path

CERTAIN = "The congestion control is certain; that it is the cause is shown by the experiment."
LIKELY = (
    "TCP counted the losses and the round trip. That they hold the curve back is likely, because its rate is near what "
    "they leave to this congestion control; the same variant under another one shows it."
)


@dataclass(frozen=True, slots=True)
class Unfit:
    """A curve whose congestion control does not suit its path, as far as the run tells."""

    one: Opened
    size_bytes: int
    said: str  # a sentence after a colon
    evidence: Mapping[str, Quantity]
    gain: Estimate | None
    remedied: str  # the variant with another control
    instead: str  # that control
    certainty: str = CERTAIN

    @property
    def control(self) -> str:
        return self.one.settings[NAME]


@rule("unfit-congestion-control", "Unfit congestion control", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Over loopback: fires where a pacing congestion control is in force, and large messages are slower than under
    another one. Where the run has no such curve: they keep less than three quarters of the layer below.

    Between hosts: fires where the run has the same variant under a control of the other kind that is certainly faster.
    Without that, where a control that takes each loss for a full link is near the rate that the losses leave to it,
    and neither the link, a window, a buffer, nor that there is one connection explains it. Then also of libraries that
    are under the same control and no faster than that.
    """
    known = [one for one in opened(reading) if one.settings.get(NAME) and (_over_loopback(one) or _far(one))]
    if not known:
        raise CannotJudge("no layer over loopback or between hosts recorded its congestion control")
    judged, lacks = False, ""
    between: list[Unfit] = []
    for one in known:
        try:
            unfit = _unfit(reading, one, known)
        except CannotJudge as why:
            lacks = str(why)
            continue
        judged = True
        if unfit is not None:
            yield _finding(reading, unfit)
            between += [unfit] if _far(one) else []
    yield from (_finding(reading, unfit) for unfit in _of_libraries(known, between))
    if not judged:
        raise CannotJudge(lacks)


def _over_loopback(one: Opened) -> bool:
    """A library does not say which interface its connections take; between ranks of one host it is loopback."""
    interface = one.settings.get("interface")
    return interface == "lo" if interface is not None else not _far(one)


def _far(one: Opened) -> bool:
    return len(one.hosts) > 1


def _unfit(reading: Reading, one: Opened, known: Sequence[Opened]) -> Unfit | None:
    """None: nothing is wrong. Raises CannotJudge if this curve cannot be judged."""
    control = one.settings[NAME]
    if not _far(one) and control not in PACING:
        return None
    others = PACING if control in BY_LOSS else BY_LOSS if control in PACING else ()
    measured = _beside_another(reading, one, known, others)
    if measured is not None:
        return measured if measured.gain is not None and measured.gain.low > SLOWER else None
    if not _far(one):
        return _keeps_little(reading, one)
    if control in BY_LOSS and loss_limit.counted(one):
        return _held_back(reading, one)
    counts = ", and its layer does not count what it sends again" if control in BY_LOSS else ""
    beside_what = " or ".join(others) or "another one"
    raise CannotJudge(f"{control} between hosts was not measured beside {beside_what}{counts}")


def _beside_another(
    reading: Reading, one: Opened, known: Sequence[Opened], controls: Sequence[str]
) -> Unfit | None:
    """The variant of the run that is the same under one of these controls, of several the one that is most certainly
    faster. None: the run did not measure one beside it.
    """
    found = []
    alike = (one.module, one.curve.pattern)
    for other in known:
        if other.settings[NAME] not in controls or (other.module, other.curve.pattern) != alike:
            continue
        if _without_control(other) != _without_control(one):
            continue
        name, instead = other.curve.variant, other.settings[NAME]
        measured = beside(reading, Confirm(one.curve.variant, name, one.curve.pattern, []), LEAST_BYTES)
        if measured is not None:
            size, times = measured
            said = f"{name} is {digits(times.value)} times as fast"
            found.append(Unfit(one, size, said, {"times": quantity(times, "1")}, times, name, instead))
    return max(found, key=lambda unfit: unfit.gain.low if unfit.gain else 0.0, default=None)


def _without_control(one: Opened) -> Mapping[str, str]:
    return {name: value for name, value in one.options.items() if name != NAME}


def _keeps_little(reading: Reading, one: Opened) -> Unfit | None:
    """Of a curve over loopback, by the layer below."""
    name = (one.curve.variant, one.curve.pattern)
    loss = next((each for each in reading.losses if (each.variant, each.pattern) == name), None)
    if loss is None:
        raise CannotJudge(
            f"{one.settings[NAME]} was measured neither beside {INSTEAD} nor beside a layer below"
        )
    at = loss.large
    if at is None or not at.seen or at.size_bytes < LEAST_BYTES or at.kept.high >= KEPT:
        return None
    said = f"it keeps {percent_text(at.kept.value)} of {loss.below}"
    remedied = variant_with(reading, one, NAME, INSTEAD)
    return Unfit(one, at.size_bytes, said, {"kept": quantity(at.kept, "1")}, at.times, remedied, INSTEAD)


def _held_back(reading: Reading, one: Opened) -> Unfit | None:
    """Of a curve between hosts, by what its layer counted."""
    control = one.settings[NAME]
    found = loss_limit.limit(reading, one, control)
    if found is None or faster_with_more(reading, one) is not None:
        return None
    offered = _offered(reading)
    instead = next((name for name in PACING if name in offered), PACING[0])
    said = (
        f"TCP sends {rate_text(found.reached_bytes_per_s)} while it has something to send, and "
        f"{percent_text(found.sent_again)} of its bytes again; with a round trip of {time_text(found.round_trip_ns)} "
        f"such losses leave about {rate_text(found.left_bytes_per_s)} to {control}"
    )
    evidence = {
        "rate": Quantity(found.reached_bytes_per_s, "bytes/s"),
        "sent again": Quantity(found.sent_again, "1"),
        "round trip": Quantity(found.round_trip_ns, "ns"),
        "left by losses": Quantity(found.left_bytes_per_s, "bytes/s"),
    }
    size = one.curve.points[-1].size_bytes
    remedied = variant_with(reading, one, NAME, instead)
    return Unfit(one, size, said, evidence, None, remedied, instead, LIKELY)


def _of_libraries(known: Sequence[Opened], between: Sequence[Unfit]) -> Iterator[Unfit]:
    """The libraries whose connections are under the same control and take the same path, where they are no faster. They
    have no setting for it, and count nothing.
    """
    for one in known:
        for unfit in between if NAME not in one.has else ():
            same = one.curve.pattern == unfit.one.curve.pattern and one.hosts == unfit.one.hosts
            if not same or one.settings[NAME] != unfit.control:
                continue
            times = {at.size_bytes: at.time_ns.value for at in one.curve.points}
            own = {at.size_bytes: at.time_ns.value for at in unfit.one.curve.points}
            size, name = unfit.size_bytes, unfit.one.curve.variant
            if size not in times or AS_SLOW * times[size] < own[size]:
                continue
            said = f"it is no faster than {name}, which {unfit.control} holds back"
            evidence = {"times": Quantity(times[size] / own[size], "1")}
            certainty = (
                f"As for {name}, between the same hosts; of {one.curve.variant} itself it was not measured."
            )
            yield Unfit(one, size, said, evidence, None, "", unfit.instead, certainty)
            break


def _offered(reading: Reading) -> frozenset[str]:
    """The congestion controls that all hosts have which recorded that; empty: none has."""
    each = [Facts(one.facts).texts(OFFERED) for one in reading.run.environments]
    return frozenset.intersection(*(frozenset(some) for some in each if some)) if any(each) else frozenset()


def _finding(reading: Reading, unfit: Unfit) -> Finding:
    one, control, instead = unfit.one, unfit.control, unfit.instead
    variant, pattern, far = one.curve.variant, one.curve.pattern, _far(one)
    offered = _offered(reading)
    there = not offered or instead in offered
    confirm = (
        Confirm(variant, unfit.remedied, pattern, [unfit.size_bytes]) if NAME in one.has and there else None
    )
    return Finding(
        severity=WARNING,
        variant=variant,
        pattern=pattern,
        size_bytes=unfit.size_bytes,
        what=f"{variant} runs under {control} {'between hosts' if far else 'over loopback'}: at "
        f"{size_text(unfit.size_bytes)} {unfit.said}.",
        evidence=dict(unfit.evidence),
        certainty=unfit.certainty,
        cause=_cause(control, far),
        remedy=_remedy(one, instead, "" if there else listed(sorted(offered))),
        gain=quantity(unfit.gain, "1") if unfit.gain is not None else None,
        confirm=confirm,
    )


def _cause(control: str, far: bool) -> str:
    if control in BY_LOSS:
        smaller = f"{control} makes its window smaller at each lost packet, as if the link were full"
        return f"{smaller}, and widens it over many round trips."
    paces = f"{control} paces by an estimate of the path's rate and delay"
    return f"{paces}, and is too slow here." if far else f"{paces}, which is bad for a link without delay."


def _remedy(one: Opened, instead: str, offered: str) -> str:
    """`offered`: what the kernels have in its place; empty: they have it, as far as that is known."""
    if not _far(one):
        if NAME in one.has:
            return f"measure with congestion={instead}, and compare hosts under the same congestion control"
        return f"{SYSCTL(instead)}, and measure again"
    load = f"modprobe tcp_{instead} (the kernels offer {offered} alone), then " if offered else ""
    if NAME in one.has:
        return f"{load}congestion={instead}; for all programs of a host {SYSCTL(instead)}"
    return f"{load}{SYSCTL(instead)} on each host, and measure again"


def _run(control: str) -> Run:
    variants = ("unix", "tcp")
    points = [
        examples.point(name, size, (2e3 + size / 5) * factor)
        for name, factor in zip(variants, (1, 2), strict=True)
        for size in (8, 1 << 20)
    ]
    made = examples.run(*points, variants=variants, stack={"tcp": "unix"})
    for variant in made.variants:
        settings = {NAME: control, "interface": "lo"}
        variant.ranks[:] = [Rank(rank=0, settings=settings if variant.module == "tcp" else {})]
    return made


def fires() -> Run:
    return _run("bbr")


def silent() -> Run:
    return _run("cubic")
