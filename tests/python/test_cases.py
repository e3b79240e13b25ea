# SPDX-License-Identifier: Apache-2.0
"""The page of cases that users ask about names rules that exist, and labelled runs that provoke them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from labelled.cases import CASES  # noqa: E402

from netpipe.findings import rules  # noqa: E402

PAGE = ROOT / "docs/reference/cases.md"
HEAD = "| case | what a user sees | cause | rule | what to try | provoked | seen in |"
NAME = re.compile(r"`([a-z0-9-]+)`")
NONE = "none"


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    case: int
    rules: tuple[str, ...]
    remedy: str
    provoked: str

    @property
    def runs(self) -> tuple[str, ...]:
        """The labelled runs that it names."""
        return tuple(NAME.findall(self.provoked))


def rows() -> list[Row]:
    text = PAGE.read_text(encoding="utf-8").partition(f"{HEAD}\n")[2].partition("\n\n")[0]
    found = []
    for line in text.splitlines()[1:]:
        number, _, _, rule, remedy, provoked, _ = (
            cell.strip() for cell in line.strip().strip("|").split("|")
        )
        named = () if rule == NONE else tuple(rule.replace("`", "").split(", "))
        found.append(Row(int(number), named, remedy, provoked))
    return found


ROWS = rows()


def test_each_of_the_cases_has_a_row() -> None:
    assert [row.case for row in ROWS] == list(range(1, 26))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.case))
def test_a_case_is_answered_by_rules_that_exist_and_has_something_to_try(row: Row) -> None:
    assert set(row.rules) <= set(rules())
    assert row.remedy


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.case))
def test_what_provokes_a_case_is_a_labelled_run_of_its_rule_or_a_test_or_the_reason_why_there_is_none(
    row: Row,
) -> None:
    labelled = {
        case.name: {*case.finds_host, *(rule for one in case.curves for rule in one.finds)} for case in CASES
    }
    for name in row.runs:
        assert labelled[name] & set(row.rules), name
    measured = bool(row.runs) or "(../../tests/e2e/" in row.provoked
    assert measured != row.provoked.startswith("no: "), row.provoked
