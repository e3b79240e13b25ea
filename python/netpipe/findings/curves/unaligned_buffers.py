# SPDX-License-Identifier: Apache-2.0
"""Messages that start or land at some offset from a page boundary take longer: the copy, or the device, wants memory
that is aligned. A pattern that was measured at several offsets shows which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from netpipe.findings import CURVES, NOTE, CannotJudge, Finding, Quantity, examples, quantity, rule
from netpipe.findings.experiments import words
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.reading.sweeps import number
from netpipe.records import PlannedMode, Run
from netpipe.units import digits, listed, size_text, sizes_text

SEND, RECEIVE = "send_offset", "recv_offset"
# Certainly, beside offset 0: twice what counts as a step (reading/blocks/steps.py). One cache line more costs a short
# message some percent on any processor.
SLOWER = 1.1
LINE_BYTES = 64  # of the caches of today's processors
Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A setting of a pattern by where its messages start and land, in bytes from a page boundary."""

    pattern: str
    send: int
    receive: int

    @property
    def alignment(self) -> int:
        """The largest power of two that divides both offsets; 0: both are 0."""
        both = self.of("")
        return both & -both

    def of(self, option: str) -> int:
        """One of the two offsets, or the bits of both."""
        return {SEND: self.send, RECEIVE: self.receive}.get(option, self.send | self.receive)

    def __str__(self) -> str:
        """The options that are not 0: "send_offset=8"."""
        options = {SEND: self.send, RECEIVE: self.receive}
        return ",".join(f"{name}={value}" for name, value in options.items() if value)


@dataclass(frozen=True)
class Swept:
    """One variant under one pattern, at offset 0 and at others."""

    variant: str
    base: str  # the pattern at offset 0
    offsets: Mapping[Placed, Mapping[int, Estimate]]  # the others: by size times as long as at offset 0

    @cached_property
    def slow(self) -> dict[Placed, dict[int, Estimate]]:
        """Those that certainly are, with the sizes at which they are."""
        found = {
            one: {size: times for size, times in sizes.items() if times.known and times.low > SLOWER}
            for one, sizes in self.offsets.items()
        }
        return {one: sizes for one, sizes in found.items() if sizes}

    @property
    def boundary(self) -> int | None:
        """The smallest power of two of which no slow offset is a multiple; None: no multiple of it was measured, or one
        that may be slow.
        """
        least = 2 * max(one.alignment for one in self.slow)
        multiples = [sizes for one, sizes in self.offsets.items() if one.alignment >= least]
        fast = all(times.value <= SLOWER for sizes in multiples for times in sizes.values())
        return least if multiples and fast else None


@rule("unaligned-buffers", "Unaligned buffers", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a pattern was measured at offset 0 and at others, by turns, and at one of these some size certainly
    takes 10 % longer. One finding for each variant and pattern.
    """
    swept = list(_swept(reading))
    if not swept:
        raise CannotJudge(
            "no pattern was measured by turns at offset 0 and at others (netpipe run --pattern "
            "'pingpong:send_offset=0..64:8')"
        )
    argv = reading.run.header.argv if reading.run.header else []
    for one in swept:
        if not one.slow:
            continue
        worst, size, times = max(
            ((offset, size, times) for offset, sizes in one.slow.items() for size, times in sizes.items()),
            key=lambda each: each[2].low,
        )
        sizes = sorted({size for of in one.slow.values() for size in of})
        evidence = {
            "times": quantity(times, "1"),
            "slow": Quantity(len(one.slow), "offsets"),
            "offsets": Quantity(len(one.offsets), "offsets"),
        }
        if one.boundary is not None:
            evidence["boundary"] = Quantity(one.boundary, "bytes")
        yield Finding(
            severity=NOTE,
            variant=one.variant,
            pattern=worst.pattern,
            size_bytes=size,
            what=f"{one.variant} {one.base}: with {worst} a message of {size_text(size)} takes "
            f"{digits(times.value)} times as long as at page boundaries. {_which(one)}, at {sizes_text(sizes)}.",
            evidence=evidence,
            certainty="Of each offset, all sizes together are certain to 95 %.",
            cause="Words that cross a boundary of the processor or of a cache line take two accesses each, and the "
            "processor's own way to copy (rep movsb) may be fast between aligned addresses only. Many processors also "
            "let a load wait for an earlier store whose address differs by a multiple of 4 KiB or little more.",
            remedy=_remedy(one),
            gain=quantity(times, "1"),
            experiment=words.side_by_side(one.variant, (one.base, worst.pattern), size, argv),
        )


def _swept(reading: Reading) -> Iterator[Swept]:
    """Every variant under a pattern that was measured at offset 0 and at others, with all else alike."""
    modes = {mode.pattern: mode for plan in reading.run.plans for mode in plan.modes}
    # by variant, name of the pattern, its other options
    alike: dict[tuple[str, str, Options], list[Placed]] = {}
    for variant, pattern in reading.by_name:
        placed = _placed(modes.get(pattern))
        if placed is not None and variant not in reading.copies and not reading.is_idle(variant):
            rest = tuple(one for one in modes[pattern].options.items() if one[0] not in (SEND, RECEIVE))
            alike.setdefault((variant, modes[pattern].name, rest), []).append(placed)
    for (variant, *_), several in alike.items():
        base = next((one for one in several if not one.alignment), None)
        if base is None:
            continue
        against = (variant, base.pattern)
        times = {one: reading.ratios_of((variant, one.pattern), against) for one in several if one.alignment}
        offsets = {one: of for one, of in times.items() if of}
        if offsets:
            yield Swept(variant, base.pattern, offsets)


def _placed(mode: PlannedMode | None) -> Placed | None:
    if mode is None or not {SEND, RECEIVE} <= set(mode.options):
        return None
    send, receive = number(mode.options[SEND]), number(mode.options[RECEIVE])
    return None if send is None or receive is None else Placed(mode.pattern, int(send), int(receive))


def _which(one: Swept) -> str:
    """Of 8 offsets 4 are slow: all that are no multiple of 16 bytes."""
    slow, boundary = one.slow, one.boundary
    if len(slow) == len(one.offsets):
        return f"All {len(slow)} offsets are slow" if len(slow) > 1 else "No other offset was measured"
    many = f"Of {len(one.offsets)} offsets {len(slow)} {'is' if len(slow) == 1 else 'are'} slow"
    for option in ("", RECEIVE, SEND):
        unaligned = {offset for offset in one.offsets if boundary and offset.of(option) % boundary}
        if boundary and unaligned == set(slow):
            which = f"all whose {option} is" if option else "all that are"
            return f"{many}: {which} no multiple of {size_text(boundary)}"
    return f"{many}: {listed(map(str, slow))}"


def _remedy(one: Swept) -> str:
    """To which boundary a program aligns its buffers: where the run does not show a smaller one, to a page."""
    if one.boundary is not None:
        to = max(one.boundary, 8)  # posix_memalign takes no less than the size of a pointer
        return f"align buffers to {size_text(to)}: posix_memalign(&p, {to}, size), aligned_alloc({to}, size)"
    tried = any(offset.alignment >= LINE_BYTES for offset in one.slow)
    more = "" if tried else "; send_offset=0..128:8 and recv_offset=0..128:8 show whether less is enough"
    return f"let buffers begin at page boundaries: posix_memalign(&p, sysconf(_SC_PAGESIZE), size){more}"


def _run(times: float) -> Run:
    offsets = (0, 8, 16, 24, 32)
    made = examples.run(
        *(
            msgspec.structs.replace(
                examples.visited("memcpy", size, size * (times if offset % 16 else 1.0), launch),
                pattern=f"pingpong:send_offset={offset}" if offset else "pingpong",
            )
            for launch in range(4)
            for size in (1024, 4096)
            for offset in offsets
        ),
        variants=("memcpy",),
    )
    modes = [
        PlannedMode(
            pattern=f"pingpong:send_offset={offset}" if offset else "pingpong",
            name="pingpong",
            options={SEND: str(offset), RECEIVE: "0"},
            tunable=[SEND, RECEIVE],
        )
        for offset in offsets
    ]
    patterns = [mode.pattern for mode in modes]
    made.plans[:] = [msgspec.structs.replace(plan, patterns=patterns, modes=modes) for plan in made.plans]
    return made


def fires() -> Run:
    return _run(1.4)


def silent() -> Run:
    return _run(1.02)
