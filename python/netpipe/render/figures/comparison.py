# SPDX-License-Identifier: Apache-2.0
"""How many times as long a curve takes as another one, over message size: the same variant in another run (`netpipe
compare`) or, of one run, its variants and the settings of its patterns (`netpipe show`). What is told apart has a
colour, the rest is grey.
"""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.reading import Reading
from netpipe.reading.across.between import Between
from netpipe.reading.across.merge import merged
from netpipe.reading.blocks.verdicts import SizeVerdict, Verdict, Word
from netpipe.render.drawing.axes import limits, size_axis
from netpipe.render.drawing.picture import Axis, Line, Panel, Picture
from netpipe.render.drawing.scope import MOST_VIEWS, Scope
from netpipe.render.figures import figure
from netpipe.render.verdicts import names_of
from netpipe.units import digits, size_text

FASTER, SLOWER = 0, 1  # places in the palette: blue and orange, as in maps
OPEN = "undecided, or no difference"
LEAST = 1.06  # the axis reaches at least so far to either side of 1
MOST_TICKS = 6
NARROW = 3.0  # a range whose ticks are as far apart in numbers as on the axis, or nearly
BAND = "95 % interval of all sizes together"

Pair = tuple[str, Sequence[SizeVerdict]]  # what is compared, and by how much


@figure(
    "time over that in the first run, or over that of another variant of the layer or setting of the pattern",
    "patterns",
    place=19,
)
def panels(scope: Scope) -> list[Panel]:
    if len(scope.readings) > 1:
        whole = Reading(merged([reading.run for reading in scope.readings]))
        found = whole.between_of(scope.variants, scope.patterns)
        if not found:
            raise scope.nothing("the runs have no size of a chosen curve in common")
        return of_runs(found)
    chosen = {(member.variant, member.pattern) for member in scope.members}
    (reading,) = scope.readings
    verdicts = [one for one in reading.verdicts if (one.variant, one.pattern) in chosen]
    if not verdicts:
        raise scope.nothing(
            "no two variants of one module or library, and no two settings of a pattern, were measured by turns"
        )
    return _of_one_run(verdicts)


def of_runs(found: Sequence[Between]) -> list[Panel]:
    """A view for each curve of each run but the first."""
    patterns, labels = ({getattr(one, name) for one in found} for name in ("pattern", "label"))
    first = {one.against for one in found}
    pairs: list[Pair] = []
    for one in found:
        parts = [f"{one.label} over {one.against}" if one.variants_differ else one.variant]
        if one.pattern != one.against_pattern:
            parts.append(f"{one.pattern} over {one.against_pattern}")
        elif len(patterns) > 1:
            parts.append(one.pattern)
        parts += [one.label] if len(labels) > 1 and not one.variants_differ else []
        pairs.append((", ".join(parts), one.sizes))
    against = first.pop() if len(first) == 1 else "the first run"
    named = any(one.variants_differ for one in found)
    title = f"Time over that {'of' if named else 'in'} {against}"
    if len(labels) == 1 and not named:
        title = f"Time: {labels.pop()} over {against}"
    return [_panel(title, pairs, named=named)]


def _of_one_run(found: Sequence[Verdict]) -> list[Panel]:
    """A panel for each pattern with a view for each two variants, and one with a view for each two settings of it."""
    panels: dict[tuple[str, str], list[Pair]] = {}
    for one in found:
        title, pattern = "Time over that of another variant", one.pattern
        if one.settings is not None:
            title, pattern = "Time over that with another setting", one.pattern.partition(":")[0]
        panels.setdefault((title, pattern), []).append((" over ".join(names_of(one)), one.sizes))
    return [_panel(title, pairs, pattern) for (title, pattern), pairs in panels.items()]


def _panel(title: str, pairs: Sequence[Pair], pattern: str = "", named: bool = False) -> Panel:
    """`named`: the pairs say both variants."""
    drawn = pairs[:MOST_VIEWS] if pattern else pairs
    x = size_axis(at.size_bytes for _, sizes in drawn for at in _shown(sizes))
    y = ratio_axis([at for _, sizes in drawn for at in _shown(sizes)])
    if len(drawn) == 1:
        name, sizes = drawn[0]
        whole = f"Time of {name}" if pattern or named else f"{title}, {name}"
        return Panel(whole, (_view("", sizes, x, y),), pattern)
    return Panel(title, tuple(_view(name, sizes, x, y) for name, sizes in drawn), pattern)


def _shown(sizes: Sequence[SizeVerdict]) -> list[SizeVerdict]:
    """0 bytes have no place on a logarithmic axis; a curve of nothing else has its one point at 1."""
    return [at for at in sizes if at.size_bytes > 0] or [SizeVerdict(1, at.times, at.word) for at in sizes]


def ratio_axis(sizes: Sequence[SizeVerdict]) -> Axis:
    """One for all views, so that what is as high is as much. It holds every ratio, and the intervals of those that are
    told apart; other intervals may leave it.
    """
    told = [limit for at in sizes if _told(at) for limit in limits(at.times)]
    values = [at.times.value for at in sizes] + told
    low, high = min(1 / LEAST, *values) / 1.02, max(LEAST, *values) * 1.02
    return Axis("number", "", True, low, high, _ticks(low, high))


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Around 1, as fine as there is room for."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        if (high - low) / step <= MOST_TICKS and high <= NARROW * low:
            below, above = int((1 - low) / step), int((high - 1) / step)
            return tuple(round(1 + number * step, 2) for number in range(-below, above + 1))
    for apart, factors in ((1, (1, 2, 5)), *((apart, (1,)) for apart in (1, 2, 3, 6))):
        powers = [10.0**power for power in range(-18, 19) if power % apart == 0]
        found = tuple(value for power in powers for by in factors if low <= (value := power * by) <= high)
        if len(found) <= MOST_TICKS:
            break
    return found


def _told(at: SizeVerdict) -> bool:
    return at.word in (Word.FASTER, Word.SLOWER)


def _view(label: str, sizes: Sequence[SizeVerdict], x: Axis, y: Axis) -> Picture:
    """All ratios in grey with their intervals, those that are told apart in colour over them, and the line at 1."""
    shown = _shown(sizes)
    lines = [Line("", None, 1, (x.low, x.high), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), faint=True)]
    lines.append(_line(OPEN, None, shown, joined=True))
    for word, color in ((Word.FASTER, FASTER), (Word.SLOWER, SLOWER)):
        of = [at for at in shown if at.word is word]
        lines += [_line(word.value, color, of, joined=False)] if of else []
    band = BAND if any(at.times.known for at in shown) else ""
    return Picture(label, x, y, tuple(lines), band=band, named_at_ends=False)


def _line(label: str, color: int | None, sizes: Sequence[SizeVerdict], joined: bool) -> Line:
    each = [limits(at.times) for at in sizes]
    return Line(
        label=label,
        color=color,
        dash=0,
        x=tuple(float(at.size_bytes) for at in sizes),
        y=tuple(at.times.value for at in sizes),
        low=tuple(low for low, _ in each),
        high=tuple(high for _, high in each),
        texts=tuple(_text(at) for at in sizes),
        joined=joined,
        size_bytes=tuple(at.size_bytes for at in sizes),
    )


def _text(at: SizeVerdict) -> str:
    text = f"{size_text(at.size_bytes)}: {digits(at.times.value)} times as long"
    if not at.times.known:
        return f"{text}, no interval"
    return f"{text} (95 %: {digits(at.times.low)} to {digits(at.times.high)}), {at.word.value}"
