# SPDX-License-Identifier: Apache-2.0
"""Which members of a fleet are dead, from the pairs that failed: a host that is down costs its time-out in each round.

A pair that failed does not say which of the two it was. A member is given up when its last two pairs failed and the
other member of one of them has been measured with somebody since, so that it was not that one. Where two hosts are
dead, the others meet both of them and are still not given up.
"""

from __future__ import annotations

from collections.abc import Sequence

FAILURES = 2  # in a row


class GivenUp:
    """Told of each pair, in the order of the rounds."""

    def __init__(self) -> None:
        self._failed: dict[
            str, list[tuple[int, str]]
        ] = {}  # since it was last measured: the round, and with whom
        self._measured: dict[str, int] = {}  # the last round

    def tell(self, turn: int, pair: Sequence[str], measured: bool) -> None:
        """turn: counted from 1, and never less than before."""
        one, other = pair
        for who, peer in ((one, other), (other, one)):
            if measured:
                self._measured[who] = turn
                self._failed.pop(who, None)
            else:
                self._failed.setdefault(who, []).append((turn, peer))

    @property
    def members(self) -> set[str]:
        return {
            who
            for who, failed in self._failed.items()
            if len(failed) >= FAILURES and any(self._measured.get(peer, 0) > turn for turn, peer in failed)
        }
