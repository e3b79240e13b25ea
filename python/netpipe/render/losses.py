# SPDX-License-Identifier: Apache-2.0
"""What layers lose, in sentences: one for each loss, and the layers that cost the most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from netpipe.reading import waiting
from netpipe.reading.estimate import Estimate
from netpipe.reading.losses import Loss, SizeLoss
from netpipe.units import (
    UNKNOWN,
    digits,
    limits_text,
    listed,
    percent_text,
    share_text,
    size_text,
    time_text,
    times_text,
    width_text,
)

UNDECIDED = "undecided"  # no difference was seen, and a large one is not excluded
SAME_WITHIN = 0.1  # a difference that is excluded is named up to here
MOST_IN_QUESTION = 4  # named where it is undecided which layer costs most
ROUGHLY = "~"  # before a value without an interval, and a peak with a wide one


def loss_sentence(loss: Loss) -> str:
    """What a layer loses of the one below, without its name: how much slower it is, and how much it keeps. What the
    tables call undecided is undecided here, and a number has its interval.
    """
    parts = []
    if loss.small is not None:
        parts.append(f"{_slower(loss.small)} at {size_text(loss.small.size_bytes)}")
    if loss.large is not None:
        kept = loss.large.kept
        what = (
            f"{'keeps' if kept.value < 1 else 'reaches'} {percent_text(kept.value)} "
            f"({limits_text(kept.low, kept.high, percent_text)}) of its throughput"
            if loss.large.seen
            else _no_difference(loss.large)
        )
        parts.append(f"{what} at {size_text(loss.large.size_bytes)}")
    text = f"against {loss.below}: {'; '.join(parts) or 'no size in common'}"
    if loss.waits is not None:
        text += f" (they wait in different ways: {loss.waits[0]} and {loss.waits[1]})"
    return text + "."


def _slower(small: SizeLoss) -> str:
    """2.14 µs ±4 % more, and how many times as long; where the interval of the time is wide ~2.14 µs more."""
    if not small.seen:
        return _no_difference(small)
    added, times = small.added_ns, small.times
    half = half_width(added)
    time = time_text(abs(added.value))
    what = f"{time} {width_text(half)}" if half <= 1 else f"{ROUGHLY}{time}"
    return (
        f"{what} {'more' if added.value > 0 else 'less'}, "
        f"{times_text(times.value)} ({limits_text(times.low, times.high, digits)})"
    )


def half_width(added: Estimate) -> float:
    """Half of the interval of what a layer adds, over that."""
    return (added.high - added.low) / 2 / abs(added.value) if added.value else math.inf


def added_text(small: SizeLoss | None) -> str:
    """+2.14 µs ±4 %: what a layer adds to the time of the one below, and half of its interval."""
    if small is None:
        return UNKNOWN
    added = small.added_ns
    text = f"{'+' if added.value >= 0 else '-'}{time_text(abs(added.value))}"
    if small.seen and added.value:
        half = half_width(added)
        text += f" {width_text(half)}" if half <= 1 else " > ±100 %"  # a column of a table, which is narrow
    return compared_text(small.times, text)


def kept_text(large: SizeLoss | None, interval: bool = True) -> str:
    """49 % (45 to 53 %): the share of the throughput of the layer below, with its interval."""
    if large is None:
        return UNKNOWN
    kept = large.kept
    text = percent_text(kept.value)
    if interval and large.seen:
        text += f" ({limits_text(kept.low, kept.high, percent_text)})"
    return compared_text(kept, text)


def unmeasured_sentences(losses: Sequence[Loss]) -> tuple[str, ...]:
    """Which libraries below a layer the run would need, to tell what the layer alone adds."""
    variants: dict[tuple[str, str], list[str]] = {}
    for loss in losses:
        if loss.through and loss.variant not in variants.setdefault(loss.through, []):
            variants[loss.through].append(loss.variant)
    return tuple(
        f"{listed(names)} {'goes' if len(names) == 1 else 'go'} through {module} over {carrier}, which was not "
        f"measured: the loss includes that of {module}. Add {module} to the run ('netpipe list {module}')."
        for (module, carrier), names in variants.items()
    )


def compared_text(ratio: Estimate, text: str) -> str:
    """`text` if a difference was seen; the value with a mark if there are too few samples to tell; else how large a
    difference is excluded.
    """
    if not ratio.known:
        return ROUGHLY + text.partition(" [")[0]
    if not ratio.covers(1):
        return text
    return f"same ±{percent_text(_excluded(ratio))}" if _decided(ratio) else UNDECIDED


def _no_difference(size: SizeLoss) -> str:
    if not size.times.known:
        return "too few samples to compare"
    return f"no difference above {percent_text(_excluded(size.times))}" if _decided(size.times) else UNDECIDED


def _decided(ratio: Estimate) -> bool:
    """Of an interval that contains 1: does it exclude a large difference?"""
    return _excluded(ratio) <= SAME_WITHIN


def _excluded(ratio: Estimate) -> float:
    """The largest difference that the interval of a ratio leaves possible."""
    return max(ratio.high, 1 / ratio.low) - 1 if ratio.low > 0 else math.inf


def _apart(smaller: Estimate, larger: Estimate) -> bool:
    """Is one certainly smaller than the other? Without intervals nothing is certain, and the values decide."""
    return smaller.high < larger.low if smaller.known and larger.known else smaller.value < larger.value


def largest_losses(losses: Sequence[Loss]) -> tuple[str, ...]:
    """Which layer costs most, in latency and in throughput, of the layers that wait alike: the cost of being woken is
    no layer's. Where its interval overlaps those of others, the sentence says that this is undecided, and between
    which.
    """
    return tuple(chain.from_iterable(largest_of_each_kind(losses)))


def largest_of_each_kind(losses: Sequence[Loss]) -> tuple[tuple[str, ...], ...]:
    """The same, apart for each way of waiting."""
    several = len({loss.pattern for loss in losses}) > 1
    sentences = (
        tuple(chain(_slowest(alike, among, several), _narrowest(alike, among, several)))
        for among, alike in _compared(losses)
    )
    return tuple(filter(None, sentences))


def costliest(losses: Sequence[Loss]) -> tuple[str, ...]:
    """The variants that `largest_losses` says cost most, in the order of its sentences, each once. Those of an
    undecided sentence are left out.
    """
    return tuple(dict.fromkeys(names[0] for names in headline(losses).values() if len(names) == 1))


def headline(losses: Sequence[Loss]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The variants that each sentence of `largest_losses` is about, by the layers that are compared and what they cost:
    one, or those between which it is undecided.
    """
    return {
        (among, what): tuple(loss.variant for loss in first)
        for among, alike in _compared(losses)
        for what, first in (("latency", _most_added(alike)), ("throughput", _least_kept(alike)))
        if first
    }


def _compared(losses: Sequence[Loss]) -> Iterator[tuple[str, list[Loss]]]:
    """For each way of waiting: how its layers are called where there are several ways, and the losses that count."""
    kinds = dict.fromkeys(map(_kind, losses))
    for kind in kinds:
        alike = [loss for loss in losses if _kind(loss) == kind and _wait_alike(loss)]
        if len(alike) > 1 or len(kinds) == 1:  # "the most" takes two
            yield (f" of the layers that {kind}" if len(kinds) > 1 else ""), alike


def _kind(loss: Loss) -> str:
    """How a layer waits, as a verb."""
    return waiting.verb_of(loss.wait)


def _wait_alike(loss: Loss) -> bool:
    """Does the layer below wait in the same way? A copy, which never waits, wakes nobody, and neither does a layer that
    polls; but above it a layer that sleeps would be charged with the wake-up.
    """
    return loss.waits is None and (loss.below_wait is not None or _kind(loss) == waiting.POLLS)


def _most_added(losses: Sequence[Loss]) -> list[Loss]:
    """The layer that adds the most latency, and after it those that may add as much; empty if none surely adds any."""
    return _first([(one, one.small, one.small.added_ns) for one in losses if one.small], 0)


def _least_kept(losses: Sequence[Loss]) -> list[Loss]:
    """The layer that loses the most throughput, and after it those that may lose as much; empty if none surely does."""
    return _first([(one, one.large, one.large.times) for one in losses if one.large], 1)


def _first(costs: Sequence[tuple[Loss, SizeLoss, Estimate]], nothing: float) -> list[Loss]:
    """The loss of the largest cost that was seen, and above the value that costs nothing; then those that the data do
    not tell apart from it, by falling cost.
    """
    falling = sorted(costs, key=lambda one: -one[2].value)
    for first, size, most in falling:
        if size.seen and most.value > nothing:
            return [first, *(one for one, _, cost in falling if one is not first and not _apart(cost, most))]
    return []


def _slowest(losses: Sequence[Loss], among: str, several: bool) -> Iterator[str]:
    first = _most_added(losses)
    if not first or first[0].small is None:
        return
    most, size = first[0].small.added_ns, size_text(first[0].small.size_bytes)
    yield _undecided(first, f"adds the most latency{among} at {size}", several) or (
        f"{_with_words(first[0])} adds the most latency{among}: {time_text(most.value)} "
        f"({limits_text(most.low, most.high, time_text)}) over {first[0].below} at {size}"
        f"{f', with {first[0].pattern}' if several else ''}."
    )


def _narrowest(losses: Sequence[Loss], among: str, several: bool) -> Iterator[str]:
    first = _least_kept(losses)
    if not first or first[0].large is None:
        return
    least, size = first[0].large.kept, size_text(first[0].large.size_bytes)
    yield _undecided(first, f"loses the most throughput{among} at {size}", several) or (
        f"{_with_words(first[0])} loses the most throughput{among}: it keeps {share_text(least.value)} "
        f"({limits_text(least.low, least.high, share_text)}) of that of {first[0].below} at {size}"
        f"{f', with {first[0].pattern}' if several else ''}."
    )


def _with_words(loss: Loss) -> str:
    return f"{loss.variant} ({loss.adds})" if loss.adds else loss.variant


def _undecided(first: Sequence[Loss], does: str, several: bool) -> str:
    """Which layers the data do not tell apart; empty where there is only one."""
    if len(first) == 1:
        return ""
    names = [f"{one.variant} ({one.pattern})" if several else one.variant for one in first]
    if len(names) > MOST_IN_QUESTION:
        names[MOST_IN_QUESTION - 1 :] = [f"{len(names) - MOST_IN_QUESTION + 1} others"]
    return f"{listed(names)}: it is undecided which of them {does}."
