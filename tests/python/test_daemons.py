# SPDX-License-Identifier: Apache-2.0
"""The daemons of a run: started before the worker that needs them, replaced when they were lost, ended in any case."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, Failure
from netpipe.launch.variants import available
from netpipe.libraries import daemons
from netpipe.libraries.daemons import HERE, Contact, Daemon, Daemons, Site, kinds
from netpipe.session import Request, Session


class Pretended(Daemon):
    """Notes what becomes of it."""

    title = "the pretended daemon"
    longest_folder = 4096
    made: list[Pretended] = []  # noqa: RUF012  each test has its own
    fault: Failure | None = None

    def __init__(self) -> None:
        self.folder = Path()
        self.here = False
        self.made.append(self)

    def start(self, folder: Path, given_up: Callable[[], bool], site: Site) -> Contact:
        self.folder = folder
        assert folder.is_dir()
        if self.fault is not None:
            raise self.fault
        if given_up():
            raise Failure(INTERRUPTED, "interrupted")
        self.here = True
        return {HERE: {"PRETENDED": str(folder)}} | {host: {"PRETENDED": host} for host in site.hosts}

    def alive(self) -> bool:
        return self.here

    def last_words(self) -> str:
        return "out of ink"

    def stop(self) -> None:
        self.here = False


@pytest.fixture
def of_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    monkeypatch.setattr(Pretended, "made", [])
    monkeypatch.setattr(Pretended, "fault", None)
    made = Daemons(lambda: {"quill": Pretended})
    yield made
    made.close()


def never() -> bool:
    return False


def test_a_layer_without_daemons_starts_nothing(of_run: Daemons) -> None:
    assert of_run.start(["tcp", "shm"], never) == {}
    assert Pretended.made == []


def test_one_daemon_serves_all_workers_of_a_run(of_run: Daemons) -> None:
    first = of_run.start(["quill", "tcp"], never)
    assert of_run.start(["quill"], never) == first
    assert of_run.start(["tcp"], never) == {}
    (one,) = Pretended.made
    assert first == {"PRETENDED": str(one.folder)}
    assert one.folder.stat().st_mode & 0o077 == 0, "only its user may look into it"
    of_run.close()
    assert not one.alive()
    assert not one.folder.exists()


def test_the_ranks_of_each_host_have_variables_of_their_own(of_run: Daemons) -> None:
    here = of_run.start(["quill", "tcp"], never, Site(("a", "b")))
    assert here == of_run.variables(HERE) == {"PRETENDED": str(Pretended.made[0].folder)}
    assert [of_run.variables(host) for host in ("a", "b", "c")] == [
        {"PRETENDED": "a"},
        {"PRETENDED": "b"},
        {},
    ]
    of_run.close()
    assert of_run.variables("a") == {}


def test_a_server_is_asked_for_no_layer_with_daemons() -> None:
    module = {"available": True, "crosses_hosts": True}
    listing = {"modules": [{"name": "pvm", **module}, {"name": "quill", **module}]}
    assert available(("pvm", "quill"), listing, far=True) == ("pvm", "quill")
    assert available(("pvm", "quill"), listing, far=True, served=True) == ("quill",)
    # Nor between hosts, of which one without PVM would end the run.
    assert available(("pvm", "quill"), listing, far=True, spread=True) == ("quill",)


def test_a_lost_daemon_is_told_once_and_replaced(of_run: Daemons) -> None:
    of_run.start(["quill"], never)
    assert of_run.lost() == []
    (one,) = Pretended.made
    one.here = False
    assert of_run.lost() == ["the pretended daemon ended during the run: out of ink"]
    assert not one.folder.exists()
    assert of_run.lost() == []
    of_run.start(["quill"], never)
    assert [each.alive() for each in Pretended.made] == [False, True]


def test_a_daemon_that_does_not_start_leaves_nothing(
    of_run: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pretended, "fault", Failure(FAILED, "it will not"))
    with pytest.raises(Failure, match="it will not"):
        of_run.start(["quill"], never)
    assert not Pretended.made[0].folder.exists()
    monkeypatch.setattr(Pretended, "fault", None)
    assert of_run.start(["quill"], never)


def test_a_folder_with_too_long_a_name_is_avoided(
    of_run: Daemons, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(daemons, "SHORT", tmp_path)
    monkeypatch.setattr(Pretended, "longest_folder", 1)
    of_run.start(["quill"], never)
    assert Pretended.made[0].folder.parent == tmp_path


def test_the_worker_gets_the_environment_and_the_daemon_ends_with_the_run(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pretended, "made", [])
    monkeypatch.setattr(daemons, "kinds", lambda: {"tcp": Pretended})
    seen: list[dict[str, str]] = []
    started = subprocess.Popen

    def popen(*arguments: object, **named: object) -> object:
        if isinstance(environment := named.get("env"), dict):
            seen.append(environment)
        return started(*arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", popen)
    request = Request(["tcp", "shm"], settings={"sizes": "8", "budget": "0.1"}, launches=2)
    assert Session(request).measure().exit_code == 0
    (one,) = Pretended.made
    workers = [environment for environment in seen if "PRETENDED" in environment]
    assert [environment["PRETENDED"] for environment in workers] == [str(one.folder)] * 2
    assert not one.alive()
    assert "PRETENDED" not in os.environ


# ------------------------------------------------------------------------------------------------------ pvmd

READY = """#!{python}
import os, signal, sys, time
print(os.environ["PVM_TMP"] + "/pvmtmp000001.0", flush=True)
with open(os.environ["PVM_TMP"] + "/pvml.0", "w") as log:
    log.write("[t80040000] 11/23 17:12:38 ready Mon Nov 23 17:12:38 2026\\n")
    log.write("[t80040000] 11/23 17:12:39 the disk is full\\n")
open(os.environ["PVM_TMP"] + "/environment", "w").write(repr(dict(os.environ)))
time.sleep(60)
"""


@pytest.fixture
def pvmd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Daemon, Path, Path]]:
    """The daemon of PVM with a program that only says that it is ready; that program, and a folder."""
    program = tmp_path / "root" / "lib" / "pvmd"
    program.parent.mkdir(parents=True)
    program.write_text(READY.format(python=sys.executable))
    program.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setenv("PVM_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PVMSOCK", "/of/another/virtual/machine")
    monkeypatch.setenv("PVM_VMID", "another")
    monkeypatch.setenv("PVMHOSTFILE", "/of/another/virtual/machine")
    one = kinds()["pvm"]()
    yield one, program, folder
    one.stop()


def test_pvmd_is_private_to_the_run(pvmd: tuple[Daemon, Path, Path]) -> None:
    one, _, folder = pvmd
    found = one.start(folder, never, Site())[HERE]
    assert found["PVMSOCK"] == f"{folder}/pvmtmp000001.0"
    assert found["PVM_TMP"] == str(folder)
    assert one.alive()
    deadline = time.monotonic() + 10
    while not (text := folder / "environment").exists() or not text.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "another" not in text.read_text()
    one.stop()
    assert not one.alive()
    one.stop()


def test_pvmd_that_ends_is_noticed_and_says_why(pvmd: tuple[Daemon, Path, Path]) -> None:
    one, program, folder = pvmd
    program.write_text(READY.format(python=sys.executable).replace("time.sleep(60)", "sys.exit(1)"))
    one.start(folder, never, Site())
    deadline = time.monotonic() + 10
    while one.alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert one.last_words() == "the disk is full"


def test_pvmd_that_is_not_there_or_not_wanted_any_more(pvmd: tuple[Daemon, Path, Path]) -> None:
    one, program, folder = pvmd
    with pytest.raises(Failure, match="interrupted") as interrupted:
        one.start(folder, lambda: True, Site())
    assert interrupted.value.exit_code == INTERRUPTED
    one.stop()
    program.unlink()
    with pytest.raises(Failure, match="apt install pvm") as missing:
        one.start(folder, never, Site())
    assert missing.value.exit_code == UNAVAILABLE
