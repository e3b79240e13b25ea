# SPDX-License-Identifier: Apache-2.0
"""What docs/reference/scaling.md says of many ranks and hosts, held to the code. The sizes of what the worker sends and
keeps are in tests/unit/scaling_test.cpp.
"""

from __future__ import annotations

import json
import math
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from test_launch_jobs import Bench, FakeLauncher, bench  # noqa: F401

from netpipe.cli.suite.runs.fleet import MOST_AT_ONCE
from netpipe.cli.suite.runs.rounds import rounds
from netpipe.launch import jobs
from netpipe.launch.jobs import Launchers
from netpipe.records.lines import decode

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "scaling.md").read_text(encoding="utf-8")


def numbers(text: str) -> list[int]:
    """1008 and 49,995,000, of a text."""
    return [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text)]


def table(heading: str) -> list[list[int]]:
    """The numbers in each row of the first table below a heading."""
    below = PAGE.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    found = [numbers(line) for line in below.splitlines() if re.match(r"\| [\d,]+ \|", line)]
    assert found, heading
    return found


def parts(pairs_in_each_round: list[int]) -> int:
    return sum(math.ceil(pairs / MOST_AT_ONCE) for pairs in pairs_in_each_round)


def test_the_rounds_of_the_acceptance_suite_are_those_on_the_page() -> None:
    for hosts, whole, bounded, some, every in table("### Rounds of the acceptance suite"):
        assert whole == parts([hosts // 2] * (hosts - 1 + hosts % 2)), hosts
        assert every == math.comb(hosts, 2), hosts
        measured = [len(pairs) for pairs in rounds(range(hosts), 63)]
        assert (bounded, some) == (parts(measured), sum(measured)), hosts


def memory_of_a_variant(ranks: int) -> int:
    """Bytes that its record takes in Python, with what MPI modules say of each rank."""
    settings = {f"setting_{number}": f"value {number}" for number in range(20)}
    costs = dict.fromkeys(("resident_bytes", "private_bytes", "pinned_bytes"), 1 << 20)
    each = {"cpu": 3, "processors": "0-47", "settings": settings, "open_s": 0.25, **costs}
    line = json.dumps(
        {
            "type": "variant", "launch": 0, "variant": "mpi@one", "module": "mpi@one", "version": "1",
            "ranks": [{"rank": rank, "host": f"node{1000 + rank // 48}", **each} for rank in range(ranks)],
        }
    ).encode()  # fmt: skip
    tracemalloc.start()
    try:
        record = decode(line)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert record is not None
    return taken


def test_the_record_of_a_variant_takes_the_memory_for_each_rank_that_the_page_says() -> None:
    each = (memory_of_a_variant(2000) - memory_of_a_variant(1000)) / 1000
    found = re.search(r"\| Python \|[^|]*\| about ([\d.]+) kB \| ([\d.]+) MB", PAGE)
    assert found is not None
    stated, whole = float(found[1]), float(found[2])
    assert each == pytest.approx(1000 * stated, rel=0.25)
    assert whole == pytest.approx(10 * stated)


@pytest.mark.parametrize("how", ["stop", "close"])
def test_the_shared_memory_of_a_job_is_looked_for_twice_on_however_many_hosts_it_is(
    bench: Callable[..., Bench],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """Each look reads what all processes of this host have mapped, and a launcher for each host is among them."""
    looks: list[str] = []
    plain = Launchers.memory_of

    def look(self: Launchers, secret: str) -> set[Path]:
        looks.append(secret)
        return plain(self, secret)

    monkeypatch.setattr(Launchers, "memory_of", look)
    monkeypatch.setattr(FakeLauncher, "commands", lambda self, job: (self.command(job),) * 5, raising=False)
    one = bench()
    one.launch(ranks=1)
    one.accept(5)
    if how == "stop":
        one.jobs.stop(0)
        one.until(lambda: not one.left())
    one.release()
    one.jobs.close()
    assert one.left() == []
    assert looks == [one.secrets[0]] * 2


def test_launchers_that_say_nothing_are_not_looked_at(
    bench: Callable[..., Bench],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def look(text: str) -> str:
        looked.append(text)
        return ""

    monkeypatch.setattr(jobs, "hopeless", look)
    monkeypatch.setattr(FakeLauncher, "commands", lambda self, job: (self.command(job),) * 5, raising=False)
    one = bench()
    one.launch(ranks=1)
    one.accept(5)
    for _ in range(10):
        one.jobs.attend(one.tell)
    assert (looked, one.failed) == ([], [])
