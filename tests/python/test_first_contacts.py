# SPDX-License-Identifier: Apache-2.0
"""What the first message takes, where the kernel leaves no profile, and where another user runs it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe.applications import contact
from netpipe.failure import FAILED, Failure
from netpipe.libraries.lam import Lam

VARIANT = "mpi@lam:transport=tcp"


class Leaves:
    """A runner whose kernel writes a sentence instead of a profile."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence

    def __call__(self, _: float) -> Leaves:
        return self

    def __enter__(self) -> Leaves:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, task: Any, _: int) -> Any:
        if self.sentence:
            (Path(task.environment["NETPIPE_PROFILE"]) / "foreign.problem").write_text(f"{self.sentence}\n")
        return SimpleNamespace(problem_text=None)


@pytest.fixture(autouse=True)
def one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SimpleNamespace(
        cell=SimpleNamespace(variant=VARIANT),
        description=SimpleNamespace(name="mpi@lam", launched_by="lam"),
        launching=SimpleNamespace(launcher=None),
        environment={},
    )
    monkeypatch.setattr(contact, "plan", lambda *_: SimpleNamespace(tasks=[task]))
    monkeypatch.setattr(
        contact,
        "replace",
        lambda task, environment: SimpleNamespace(**{**vars(task), "environment": environment}),
    )
    monkeypatch.setattr(contact.added, "one", lambda _: None)
    monkeypatch.setattr(contact.programs, "builder", lambda _: None)
    monkeypatch.setattr(contact.programs, "profiler", lambda _: Path("profiler.so"))


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("the program uses MPICH (MPICH  5.0.2)", "the program uses MPICH (MPICH 5.0.2)"),
        ("", "no rank called MPI_Init under the profiler"),
    ],
)
def test_a_kernel_that_leaves_no_profile_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, sentence: str, says: str
) -> None:
    monkeypatch.setattr(Lam, "user", lambda _: None)
    monkeypatch.setattr(contact, "Runner", Leaves(sentence))
    with pytest.raises(Failure, match="left no profile") as failed:
        contact.first_contacts([VARIANT])
    assert failed.value.exit_code == FAILED
    assert failed.value.sentence.startswith(f"{VARIANT}: what its first message takes is not known")
    assert failed.value.sentence.endswith(says)


def test_the_folder_belongs_to_whoever_runs_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(Lam, "user", lambda _: SimpleNamespace(pw_uid=65534, pw_gid=65533))
    monkeypatch.setattr(os, "chown", lambda _, *ids: given.append(ids))
    monkeypatch.setattr(contact, "Runner", Leaves(""))
    with pytest.raises(Failure):
        contact.first_contacts([VARIANT])
    assert given == [(65534, 65533)]
