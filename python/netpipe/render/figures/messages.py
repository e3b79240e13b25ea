# SPDX-License-Identifier: Apache-2.0
"""Who sends how much to whom: a matrix of ranks, of very many ranks with several to a cell."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.profiles.figures import Matrix
from netpipe.render.drawing.picture import Map, NothingToDraw, Panel
from netpipe.render.drawing.profiles import amount_text
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import PROFILE, figure
from netpipe.units import capital, counts_text, sentence


@figure("bytes and messages from each rank to each", "messages", place=60, needs=(PROFILE,))
def panels(scope: Scope) -> list[Panel]:
    found = scope.profiled.matrix
    made = [
        Panel(title, (_map(found, values, quantity),), note=note(found), narrow=True)
        for title, values, quantity in (
            ("Bytes from rank to rank", found.bytes, "size"),
            ("Messages from rank to rank", found.calls, "number"),
        )
        if any(map(any, values))
    ]
    if not made:
        lost = _without_peer(found)
        why = "no messages from rank to rank are known; what collectives move has no receiver"
        raise NothingToDraw(f"{why}; {lost}" if lost else why)
    return made


def note(found: Matrix) -> str:
    """What a reader of the matrices has to know."""
    parts = ["What collectives move has no receiver and is not among the messages."]
    if lost := _without_peer(found):
        parts.insert(0, sentence(capital(lost)))
    if found.ranks_per_bin > 1:
        each = found.ranks_per_bin
        parts.insert(0, f"A row and a column hold {each} consecutive ranks, and are named after the first.")
    return " ".join(parts)


def _without_peer(found: Matrix) -> str:
    """Empty: it is known of all."""
    many = counts_text(found.without_peer)
    return f"of {many} messages it is not known to whom they went" if found.without_peer else ""


def _map(found: Matrix, values: Sequence[Sequence[int]], quantity: str) -> Map:
    several = [_ranks_of(found, place) for place in range(len(values))]
    firsts = tuple(str(place * found.ranks_per_bin) for place in range(len(values)))
    return Map(
        "",
        "receives",
        "sends",
        firsts,
        firsts,
        tuple(tuple(float(value) if value else None for value in row) for row in values),
        tuple(
            tuple(
                f"{sender} to {receiver}: {_messages(calls)}, {amount_text('size', volume)}"
                for receiver, calls, volume in zip(several, of_calls, of_bytes, strict=True)
            )
            for sender, of_calls, of_bytes in zip(several, found.calls, found.bytes, strict=True)
        ),
        quantity,
    )


def _messages(calls: int) -> str:
    return f"{counts_text(calls)} {'message' if calls == 1 else 'messages'}"


def _ranks_of(found: Matrix, place: int) -> str:
    first = place * found.ranks_per_bin
    last = min(found.ranks, first + found.ranks_per_bin) - 1
    return f"rank {first}" if first == last else f"ranks {first} to {last}"
