# SPDX-License-Identifier: Apache-2.0
"""What a search has measured, as JSON Lines in its folder, each line written when it is known: search.jsonl. What
failed stands in failures.json too, which the next search in the same folder reads, so that it does not hang again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netpipe.failure import USAGE, Failure
from netpipe.reading.estimate import Estimate
from netpipe.tuning.measuring.ratios import Scores, Verdict
from netpipe.tuning.search.halving import Failed, Round
from netpipe.tuning.search.variants import START, Changes, Start

SEARCH, FAILURES = "search.jsonl", "failures.json"


def _estimate(one: Estimate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "value": one.value,
        "low": one.low if one.known else None,
        "high": one.high if one.known else None,
    }


class Log:
    """Of one folder; nothing is written where there is none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._failures: dict[str, dict[str, str]] = {}

    def known_failures(self, start: Start) -> dict[Changes, str]:
        """What an earlier search in this folder has seen fail with the same start. Raises Failure (2)."""
        path = self._folder / FAILURES if self._folder else None
        if path is None or not path.is_file():
            return {}
        try:
            self._failures = json.loads(path.read_text(encoding="utf-8"))
            there = self._failures.get(start.text, {})
            return {
                Changes.of(dict(one.partition("=")[::2] for one in text.split(","))): why
                for text, why in there.items()
            }
        except (ValueError, AttributeError):
            raise Failure(USAGE, f"{path} is damaged; remove it, and what failed is tried again") from None

    def round(
        self,
        asked: Round,
        told: Mapping[Changes, Estimate | Failed],
        start: Start,
        seconds: float,
    ) -> None:
        for changes, one in told.items():
            failed = isinstance(one, Failed)
            self.write(
                {
                    "type": "candidate",
                    "round": asked.name,
                    "start": start.text,
                    "reference": dict(asked.reference.items),
                    "settings": dict(changes.items),
                    "time_ratio": None if isinstance(one, Failed) else _estimate(one),
                    "failed": {"kind": one.kind, "why": one.why} if isinstance(one, Failed) else None,
                }
            )
            if failed and isinstance(one, Failed) and one.kind == "failed":
                self._failures.setdefault(start.text, {})[str(changes)] = one.why
        self.write({"type": "round", "round": asked.name, "seconds": round(seconds, 3)})
        if self._failures and self._folder:
            text = json.dumps(self._failures, indent=1)
            (self._folder / FAILURES).write_text(text + "\n", encoding="utf-8")

    def places(
        self, made: Scores, names: Mapping[str, Changes], failed: Mapping[Changes, Failed], start: Start
    ) -> None:
        """Candidates size by size."""
        for variant, changes in names.items():
            told = [
                {"pattern": pattern, "size_bytes": size, **(_estimate(one) or {})}
                for (pattern, size), one in made.places.get(variant, {}).items()
            ]
            line = {
                "type": "candidate",
                "start": start.text,
                "settings": dict(changes.items),
                "time_ratios": told,
            }
            why = failed.get(changes)
            self.write({**line, "failed": {"kind": why.kind, "why": why.why} if why else None})

    def confirmed(
        self,
        decided: Mapping[Changes, Verdict],
        beside: Estimate | None,
        start: Start,
        reference: Changes = START,
    ) -> None:
        """What a proof found of settings over `reference`. `beside`: that beside itself."""
        for changes, what in decided.items():
            self.write(
                {
                    "type": "confirmation",
                    "start": start.text,
                    "reference": dict(reference.items),
                    "settings": dict(changes.items),
                    "times_as_fast": _estimate(what.times_as_fast),
                    "beside_itself": _estimate(beside),
                    "gains": what.gains,
                }
            )

    def write(self, line: Mapping[str, Any]) -> None:
        if self._folder is not None:
            with (self._folder / SEARCH).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
