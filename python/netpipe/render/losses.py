# SPDX-License-Identifier: Apache-2.0
"""What layers lose, in sentences: one for each loss, and the layers that cost the most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter

from netpipe.reading.estimate import Estimate
from netpipe.reading.losses import Loss, SizeLoss
from netpipe.units import (
    UNKNOWN,
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
MOST_RIVALS = 3  # named beside the layer that costs most
ROUGHLY = "~"  # before a value without an interval, and a peak with a wide one


def loss_sentence(loss: Loss) -> str:
    """What a layer loses of the one below, without its name: how much slower it is, and how much it keeps."""
    parts = []
    if loss.small is not None:
        added = loss.small.added_ns.value
        what = (
            f"{time_text(abs(added))} {'more' if added > 0 else 'less'} ({times_text(loss.small.times.value)})"
            if loss.small.seen
            else _no_difference(loss.small)
        )
        parts.append(f"{what} at {size_text(loss.small.size_bytes)}")
    if loss.large is not None:
        kept = loss.large.kept
        what = (
            f"{'keeps' if kept.value < 1 else 'reaches'} {percent_text(kept.value)} of its throughput"
            if loss.large.seen
            else _no_difference(loss.large)
        )
        parts.append(f"{what} at {size_text(loss.large.size_bytes)}")
    text = f"against {loss.below}: {'; '.join(parts) or 'no size in common'}"
    if loss.waits is not None:
        text += f" (they wait in different ways: {loss.waits[0]} and {loss.waits[1]})"
    return text + "."


def added_text(small: SizeLoss | None) -> str:
    """+2.14 µs ±4 %: what a layer adds to the time of the one below, and half of its interval."""
    if small is None:
        return UNKNOWN
    added = small.added_ns
    text = f"{'+' if added.value >= 0 else '-'}{time_text(abs(added.value))}"
    if small.seen and added.value:
        half = (added.high - added.low) / 2 / abs(added.value)
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
    most = max(ratio.high, 1 / ratio.low) - 1
    return f"same ±{percent_text(most)}" if most <= SAME_WITHIN else UNDECIDED


def _no_difference(size: SizeLoss) -> str:
    if not size.times.known:
        return "too few samples to compare"
    return f"no difference above {percent_text(_excluded(size.times))}"


def _excluded(ratio: Estimate) -> float:
    """The largest difference that the interval of a ratio leaves possible."""
    return max(ratio.high, 1 / ratio.low) - 1 if ratio.low > 0 else math.inf


def _apart(smaller: Estimate, larger: Estimate) -> bool:
    """Is one certainly smaller than the other? Without intervals nothing is certain, and the values decide."""
    return smaller.high < larger.low if smaller.known and larger.known else smaller.value < larger.value


def largest_losses(losses: Sequence[Loss]) -> tuple[str, ...]:
    """Which layer costs most, in latency and in throughput, of the layers that wait alike: the cost of being woken is
    no layer's. Layers whose intervals overlap that of the first are named with it.
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
    """The variants that `largest_losses` names first, in the order of its sentences, each once."""
    named = (one for _, alike in _compared(losses) for one in (_most_added(alike), _least_kept(alike)) if one)
    return tuple(dict.fromkeys(loss.variant for loss in named))


def _compared(losses: Sequence[Loss]) -> Iterator[tuple[str, list[Loss]]]:
    """For each way of waiting: how its layers are called where there are several ways, and the losses that count."""
    kinds = dict.fromkeys(map(_kind, losses))
    for kind in kinds:
        alike = [loss for loss in losses if _kind(loss) == kind and _wait_alike(loss)]
        if len(alike) > 1 or len(kinds) == 1:  # "the most" takes two
            yield (f" of the layers that {kind}" if len(kinds) > 1 else ""), alike


def _kind(loss: Loss) -> str:
    """How a layer waits, as a verb."""
    return {"block": "sleep", "hybrid": "poll and then sleep"}.get(loss.wait or "", "poll")


def _wait_alike(loss: Loss) -> bool:
    """Does the layer below wait in the same way? A copy, which never waits, wakes nobody, and neither does a layer that
    polls; but above it a layer that sleeps would be charged with the wake-up.
    """
    return loss.waits is None and (loss.below_wait is not None or _kind(loss) == "poll")


def _most_added(losses: Sequence[Loss]) -> Loss | None:
    seen = [
        (loss.small.added_ns.value, loss)
        for loss in losses
        if loss.small and loss.small.seen and loss.small.added_ns.value > 0
    ]
    return max(seen, key=itemgetter(0), default=(0.0, None))[1]


def _least_kept(losses: Sequence[Loss]) -> Loss | None:
    seen = [
        (loss.large.kept.value, loss)
        for loss in losses
        if loss.large and loss.large.seen and loss.large.kept.value < 1
    ]
    return min(seen, key=itemgetter(0), default=(1.0, None))[1]


def _slowest(losses: Sequence[Loss], among: str, several: bool) -> Iterator[str]:
    slowest = _most_added(losses)
    if slowest is None or slowest.small is None:
        return
    most = slowest.small.added_ns
    rivals = [
        one for one in losses if one.small and one is not slowest and not _apart(one.small.added_ns, most)
    ]
    limits = limits_text(most.low, most.high, time_text)
    yield (
        f"{_with_words(slowest)} adds the most latency{among}: {time_text(most.value)} ({limits}) over "
        f"{slowest.below} at {size_text(slowest.small.size_bytes)}{f', with {slowest.pattern}' if several else ''}"
        f"{_rivals(rivals, 'add', several)}."
    )


def _narrowest(losses: Sequence[Loss], among: str, several: bool) -> Iterator[str]:
    narrowest = _least_kept(losses)
    if narrowest is None or narrowest.large is None:
        return
    least = narrowest.large.kept
    rivals = [
        one for one in losses if one.large and one is not narrowest and not _apart(least, one.large.kept)
    ]
    limits = limits_text(least.low, least.high, share_text)
    yield (
        f"{_with_words(narrowest)} loses the most throughput{among}: it keeps {share_text(least.value)} ({limits}) of "
        f"that of {narrowest.below} at {size_text(narrowest.large.size_bytes)}"
        f"{f', with {narrowest.pattern}' if several else ''}{_rivals(rivals, 'lose', several)}."
    )


def _with_words(loss: Loss) -> str:
    return f"{loss.variant} ({loss.adds})" if loss.adds else loss.variant


def _rivals(rivals: Sequence[Loss], verb: str, several: bool) -> str:
    """Which others the data do not tell apart from the first."""
    if not rivals:
        return ""
    names = [f"{one.variant} ({one.pattern})" if several else one.variant for one in rivals]
    return f"; {listed(names) if len(names) <= MOST_RIVALS else f'{len(names)} others'} may {verb} as much"
