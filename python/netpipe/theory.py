# SPDX-License-Identifier: Apache-2.0
"""What a link would do of which only rate, latency, packets and threshold are known: a line beside the curves, and no
curve. Nothing is measured for it, so it takes part in no estimate, comparison or loss.

    packets(s) = 1, or ceil(s / mtu)
    T(s)       = latency + packets(s) * packet + (s + packets(s) * header) / rate
                 + 2 * T(0) from the size `rendezvous` on: the round trip that asks for the receiver's buffer

It is the time of one message that travels alone, as in pattern pingpong. Messages that follow each other (stream,
window) may share packets, and hide latency and round trips. So of them the model gives a bound alone: the least time
from one message to the next, with packets that are full.

    T(s)       = the longer of packets * packet and (s + packets * header) / rate
    packets    = s / mtu, or 1 without it

Where an operation has ended only when the other side has said so, or begins when it has been asked, an empty message
more is on its way, alone; where it brings back as much as it takes there, a second one of s bytes. One-sided operations
name the memory of the other side, so nobody asks for a buffer.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from netpipe.failure import USAGE, Failure
from netpipe.records import Theory
from netpipe.units import bytes_of, rate_text, size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from netpipe.records import Run

NAME = "theory"
PATTERN = "pingpong"  # whose messages travel alone
STEPS = 256  # of a line
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kmgt]?)", re.IGNORECASE)
_BITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s)")
_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
MOST_DIGITS = 18


def is_theory(variant: str) -> bool:
    return variant.partition(":")[0] == NAME


def parse(text: str) -> Theory:
    """theory:rate=10g,latency=2us,mtu=1460,header=78,packet=100ns,rendezvous=64k. Raises Failure (2)."""
    given: dict[str, str] = {}
    for word in filter(None, text.partition(":")[2].split(",")):
        key, equals, value = word.partition("=")
        if key not in _OPTIONS:
            raise Failure(USAGE, f"{text}: {NAME} has no setting '{key}'; it has {', '.join(_OPTIONS)}")
        if not equals or key in given:
            raise Failure(USAGE, f"{text}: write {key}=VALUE once, such as {key}={_OPTIONS[key][1]}")
        given[key] = value
    if "rate" not in given:
        raise Failure(USAGE, f"{text}: {NAME} needs the rate of the link, such as {NAME}:rate=10g")
    values = {key: _value(text, key, value) for key, value in given.items()}
    if values["rate"] <= 0:
        raise Failure(USAGE, f"{text}: a rate of 0 moves nothing")
    if "header" in values and not values.get("mtu"):
        raise Failure(
            USAGE,
            f"{text}: header is what each packet has beside the message; say how much of it fits a packet, such as "
            "mtu=1460",
        )
    return Theory(
        theory=text,
        rate_bytes_per_s=values["rate"] / 8,
        latency_ns=values.get("latency", 0.0),
        packet_ns=values.get("packet", 0.0),
        packet_bytes=int(values.get("mtu", 0)),
        header_bytes=int(values.get("header", 0)),
        rendezvous_bytes=int(values["rendezvous"]) if "rendezvous" in values else None,
    )


def _value(text: str, key: str, value: str) -> float:
    read, example, _ = _OPTIONS[key]
    found = read(value) if len(value) <= MOST_DIGITS else None
    if found is None:
        raise Failure(USAGE, f"{text}: {key}={value} is not valid; write it as in {key}={example}")
    return found


def _rate(text: str) -> float | None:
    found = _RATE.fullmatch(text)
    return float(found[1]) * _BITS[found[2].lower()] if found else None


def _time(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    return float(found[1]) * _NS[found[2]] if found else None


_OPTIONS: dict[str, tuple[Callable[[str], float | None], str, str]] = {
    "rate": (_rate, "10g", "bits per second of the link; must be given"),
    "latency": (_time, "2us", "from one process to the other, of a message without bytes"),
    "packet": (_time, "100ns", "time that each packet costs besides its bytes"),
    "mtu": (bytes_of, "1460", "bytes of the message in one packet; without it a message is one packet"),
    "header": (bytes_of, "78", "bytes on the wire that each packet adds; needs mtu"),
    "rendezvous": (
        bytes_of,
        "64k",
        "from this size on the sender first asks for a buffer and waits for the answer",
    ),
}

SUMMARY = "what a link would do, a line beside the curves; nothing is measured for it"


def settings() -> list[dict[str, str]]:
    """The name of each setting, an example of its value, and what it is."""
    return [{"name": name, "example": example, "help": text} for name, (_, example, text) in _OPTIONS.items()]


@dataclass(frozen=True, slots=True)
class Traffic:
    """How messages of a pattern travel over the link."""

    in_a_row: bool = False  # each right behind the one before
    directions: int = 1  # in which messages travel at the same time; an operation has one in each
    back: Literal["", "an answer", "as much"] = ""  # what the other side sends for each; an answer is empty
    one_sided: bool = False  # the receiver's buffer is known, and not asked for

    @property
    def words(self) -> str:
        """For a label; empty for a message alone."""
        parts = [
            "a stream at most" if self.in_a_row else "",
            "both ways" if self.directions == 2 else "",
            "one-sided" if self.one_sided else "",
            {"": "", "an answer": "with an answer", "as much": "there and back"}[self.back],
        ]
        return " ".join(filter(None, parts))


ALONE = Traffic()
# Patterns whose operations end with an answer, or begin with a question.
_ANSWERED = {
    "put": Traffic(back="an answer", one_sided=True),
    "get": Traffic(back="an answer", one_sided=True),
    "strided": Traffic(back="an answer", one_sided=True),
    "accumulate": Traffic(back="an answer", one_sided=True),
    "incast": Traffic(back="an answer"),
    "outcast": Traffic(back="an answer"),
    "cast": Traffic(back="an answer"),
}


def traffic(pattern: str) -> Traffic | None:
    """Of a pattern with its settings; None for those of which the model does not speak. Windows and puts whose time
    ends before their bytes have arrived are among these.
    """
    name, _, text = pattern.partition(":")
    given = {key: value for key, _, value in (word.partition("=") for word in text.split(","))}
    ends_early = {"window": ("completion", "local"), "put": ("sync", "wait"), "overlap": ("computes", "one")}
    if name in ends_early and ends_early[name] in given.items():
        return None
    if name in _ANSWERED:
        if given.get("in_flight", "1") != "1":
            return Traffic(in_a_row=True)
        fetches = name == "accumulate" and given.get("fetch") == "yes"
        return replace(_ANSWERED[name], back="as much") if fetches else _ANSWERED[name]
    both = 2 if "both" in (given.get("directions"), given.get("traffic")) else 1
    kinds = {
        PATTERN: ALONE,
        "burst": ALONE,
        "loggp": ALONE,
        "loaded": ALONE,
        "partitioned": ALONE,
        "signal": Traffic(one_sided=True),
        "stream": Traffic(in_a_row=True),
        "window": Traffic(in_a_row=True, directions=both),
        "pairs": Traffic(directions=both),
        "random": Traffic(directions=both),
        "bidirectional": Traffic(directions=2),
        "overlap": Traffic(directions=2),
        "ring": Traffic(directions=2),
    }
    return kinds.get(name)


def told_apart(theory: Theory, kind: Traffic) -> Traffic:
    """The same without what makes no difference to this model, so that no line is drawn twice."""
    return kind if theory.rendezvous_bytes is not None else replace(kind, one_sided=False)


def packets(theory: Theory, size_bytes: float) -> int:
    if theory.packet_bytes == 0:
        return 1
    return max(1, math.ceil(size_bytes / theory.packet_bytes))


def time_ns(theory: Theory, size_bytes: float, kind: Traffic = ALONE) -> float:
    """Of one message, one way, with what answers it; of messages in a row the least time from one to the next."""
    if kind.in_a_row:
        each = size_bytes / theory.packet_bytes if theory.packet_bytes else 1.0
        wire_ns = (size_bytes + each * theory.header_bytes) / theory.rate_bytes_per_s * 1e9
        return max(each * theory.packet_ns, wire_ns)
    there, empty = _alone_ns(theory, size_bytes), _alone_ns(theory, 0)
    threshold = math.inf if theory.rendezvous_bytes is None or kind.one_sided else theory.rendezvous_bytes
    asked = 2 * empty if size_bytes >= threshold else 0.0
    return there + asked + {"": 0.0, "an answer": empty, "as much": there}[kind.back]


def _alone_ns(theory: Theory, size_bytes: float) -> float:
    """From one side to the other, without a question before it."""
    number = packets(theory, size_bytes)
    wire = size_bytes + number * theory.header_bytes
    return theory.latency_ns + number * theory.packet_ns + wire / theory.rate_bytes_per_s * 1e9


def rate_bytes_per_s(theory: Theory, size_bytes: float, kind: Traffic = ALONE) -> float:
    """Of all directions together."""
    return kind.directions * size_bytes / time_ns(theory, size_bytes, kind) * 1e9


def sizes(theory: Theory, first: float, last: float) -> list[float]:
    """Where a line has its points: evenly on a logarithmic axis, and on either side of each step that is wide enough to
    be seen.
    """
    found = {first * (last / first) ** (step / STEPS) for step in range(STEPS + 1)}
    if theory.rendezvous_bytes:
        found |= {float(theory.rendezvous_bytes - 1), float(theory.rendezvous_bytes)}
    for number in range(1, 65):
        end = number * theory.packet_bytes
        found |= {float(end), float(end + 1)} if end else set()
    return sorted(size for size in found if first <= size <= last)


def of(run: Run) -> tuple[Theory, ...]:
    """Those of a run that can be computed: what stands in a file need not have come from `parse`."""
    return tuple(
        one
        for one in run.theories
        if one.rate_bytes_per_s > 0
        and min(one.latency_ns, one.packet_ns, one.packet_bytes, one.header_bytes) >= 0
        and time_ns(one, 0) < math.inf
    )


def label(theory: Theory, kind: Traffic = ALONE) -> str:
    return f"{theory.theory} (a model{f': {kind.words}' if kind.words else ''})"


def sentence(theory: Theory, measured: Sequence[int]) -> str:
    """What it says of the smallest and the largest message that were measured."""
    small, large = min(measured), max(measured)
    return (
        f"{theory.theory} is a model, and nothing was measured for it: {size_text(small)} takes "
        f"{time_text(time_ns(theory, small))}, and {size_text(large)} goes at "
        f"{rate_text(rate_bytes_per_s(theory, large))}"
    )


def apart(variants: Iterable[str]) -> tuple[tuple[str, ...], tuple[Theory, ...]]:
    """What is measured, and what is computed. Raises Failure (2), also where nothing is left to be measured."""
    measured: list[str] = []
    theories: dict[str, Theory] = {}
    for variant in variants:
        if not is_theory(variant):
            measured.append(variant)
        else:
            text = variant.partition("#")[0]
            theories[text] = parse(text)
    if theories and not measured:
        raise Failure(
            USAGE,
            f"{next(iter(theories))} is computed and not measured; name what it is to be drawn beside, such as tcp",
        )
    return tuple(measured), tuple(theories.values())
