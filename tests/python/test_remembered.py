# SPDX-License-Identifier: Apache-2.0
"""Other programs are asked once while one thing is planned, and again for the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Netpipe

from netpipe import cli, native
from netpipe.cli.suite import files
from netpipe.failure import UNAVAILABLE, Failure
from netpipe.remembered import once, remembered


def test_an_answer_is_kept_while_one_thing_is_planned() -> None:
    asked: list[str] = []

    def ask(name: str) -> str:
        return once(name, lambda: asked.append(name) or name.upper())  # type: ignore[func-returns-value]

    assert (ask("a"), ask("a")) == ("A", "A")
    assert asked == ["a", "a"], "nothing is planned"
    asked.clear()
    with remembered():
        assert (ask("a"), ask("b"), ask("a")) == ("A", "B", "A")
        with remembered():
            assert ask("b") == "B"
        assert ask("b") == "B"
    assert asked == ["a", "b"]
    with remembered():
        ask("a")
    assert asked == ["a", "b", "a"]


def test_a_failure_is_an_answer_too() -> None:
    asked: list[int] = []

    def fail() -> None:
        asked.append(1)
        raise Failure(UNAVAILABLE, "there is none")

    with remembered():
        for _ in range(2):
            with pytest.raises(Failure, match="there is none") as caught:
                once("it", fail)
            assert caught.value.exit_code == UNAVAILABLE
    assert asked == [1]


def test_an_answer_of_the_worker_is_everybodys_own(fake: Path) -> None:
    with remembered():
        native.list_()["modules"].clear()
        assert native.list_()["modules"]


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, ...]]:
    """How often the worker was started with which question."""
    found: Counter[tuple[str, ...]] = Counter()
    start = native._answer

    def count(command: Sequence[str], text: str) -> bytes:
        found[(*command[1:], text)] += 1
        return start(command, text)

    monkeypatch.setattr(native, "_answer", count)
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "health" else pytest.mark.deep) for name in files.names()]
)
def test_to_show_a_suite_asks_the_worker_each_question_once(
    questions: Counter[tuple[str, ...]], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert cli.call(("suite", "show", name)) in (0, UNAVAILABLE), capsys.readouterr().err
    assert questions["keys", ""] == 1
    assert {question for question, times in questions.items() if times > 1} == set()


def test_a_list_of_suites_and_their_names_start_nothing(
    netpipe: Netpipe, questions: Counter[tuple[str, ...]]
) -> None:
    assert "interconnects-2003" in netpipe("suite", "list").out
    assert not questions
