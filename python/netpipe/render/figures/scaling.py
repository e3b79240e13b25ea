# SPDX-License-Identifier: Apache-2.0
"""Time over the number of ranks: collectives and all else that several numbers of ranks were measured with, in one run
(`--ranks 2,4,8`) or in several overlaid runs.
"""

from __future__ import annotations

from netpipe.reading import Reading
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Member, Scope
from netpipe.render.drawing.values import Series, over_values
from netpipe.render.figures import figure

OPTION = "ranks"


@figure(
    "time over the number of ranks, at a few sizes",
    "patterns",
    place=24,
    options=("size",),
    paper="the scaling of Liu et al. 2003, Figs. 18 to 24, for single operations",
)
def panels(scope: Scope) -> list[Panel]:
    panels = []
    opened = {id(reading): _opened(reading) for reading in scope.readings}
    for group in scope.groups:
        found: dict[tuple[str, str], dict[int, Member]] = {}
        for member in group.members:
            ranks = _ranks(member, opened[id(member.reading)])
            if ranks is not None:
                key = (_without_ranks(member.variant), group.setting(member.pattern))
                found.setdefault(key, {}).setdefault(ranks, member)
        several = {key: members for key, members in found.items() if len(members) > 1}
        names = list(dict.fromkeys(name for name, _ in several))
        settings = list(dict.fromkeys(setting for _, setting in several))
        series = [
            Series(
                f"{name}, {setting}" if setting else name,
                names.index(name),
                settings.index(setting),
                [(float(ranks), members[ranks]) for ranks in sorted(members)],
            )
            for (name, setting), members in several.items()
        ]
        if series:
            first = min(value for one in series for value, _ in one.members)
            titles = ("Time over the number of ranks", f"The same, relative to {first:g} ranks")
            panels += over_values(scope, "ranks", titles, series, group.name)
    if not panels:
        raise scope.nothing("no chosen curve was measured with several numbers of ranks")
    return panels


def _opened(reading: Reading) -> dict[str, dict[int, set[int]]]:
    """Variant -> launch -> with how many ranks."""
    found: dict[str, dict[int, set[int]]] = {}
    for opened in reading.run.variants:
        if opened.ranks:
            found.setdefault(opened.variant, {}).setdefault(opened.launch, set()).add(len(opened.ranks))
    return found


def _ranks(member: Member, opened: dict[str, dict[int, set[int]]]) -> int | None:
    """How many ranks the curve was measured with; None if the record does not say."""
    by_launch = opened.get(member.variant, {})
    launches = {record.launch for point in member.curve.points for record in point.by_launch}
    numbers = {number for launch in launches for number in by_launch.get(launch, ())}
    return numbers.pop() if len(numbers) == 1 else None


def _without_ranks(variant: str) -> str:
    """mpi:btl=tcp,ranks=4 -> mpi:btl=tcp."""
    name, _, settings = variant.partition(":")
    kept = [setting for setting in settings.split(",") if setting and not setting.startswith(f"{OPTION}=")]
    return f"{name}:{','.join(kept)}" if kept else name
