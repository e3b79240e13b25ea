# SPDX-License-Identifier: Apache-2.0
"""Experiments that judge a measure of a pattern in place of the time: which rules have them, and what they come to."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from statistics import stdev

import msgspec
import pytest
from rich.console import Console
from test_comparing import call

from netpipe.command import confirming
from netpipe.findings import Confirm, Confirmed, Finding, examples, judge
from netpipe.findings.curves.sockets import messages_lost
from netpipe.findings.curves.waiting import no_overlap
from netpipe.findings.experiments import Shares, outcomes
from netpipe.notebook import findings
from netpipe.reading import Reading
from netpipe.reading.blocks.changes import Change, change
from netpipe.reading.estimate import Estimate, unsure
from netpipe.records import Environment, Measure, Plan, PlannedVariant, Rank, Record, Run, Skipped, encode
from netpipe.render.page.page import page
from netpipe.render.terminal.summary import print_summary
from netpipe.session import Result, Session
from pages import Page

PLAIN, REMEDIED, SIZE = "udp", "udp:rcvbuf=4M,rate=131072", 65536
EXPERIMENT = ["run", PLAIN, REMEDIED, "--pattern", "stream", "--sizes", str(SIZE)]


def loss(share: float, low: float | None = None, high: float | None = None) -> Measure:
    return Measure(name="loss", unit="1", median=share, low=low, high=high)


def experiment(before: Sequence[float], after: Sequence[float], spread: float | None = 0.02) -> Run:
    """What both variants lose in each launch, and how far the interval of each launch goes; None: it has none."""
    records: list[Record] = []
    for variant, shares in ((PLAIN, before), (REMEDIED, after)):
        for launch, share in enumerate(shares):
            limits = () if spread is None else (max(0.0, share - spread), share + spread)
            made = examples.point(variant, SIZE, 2e3, pattern="stream", launch=launch)
            records.append(msgspec.structs.replace(made, measures=[loss(share, *limits)]))
    return examples.run(*records, variants=(PLAIN, REMEDIED))


def changed(made: Run) -> Change | None:
    return change(made, (PLAIN, REMEDIED), "stream", "loss", SIZE, best=0.0, rises=False)


# ---------------------------------------------------------------------------------------------- how much is got back


def test_what_is_got_back_is_compared_within_each_launch() -> None:
    """Launches lose between 0.5 and 60 %, and in each the remedy keeps off about half of it."""
    found = changed(experiment((0.005, 0.04, 0.5, 0.6), (0.0025, 0.022, 0.24, 0.3)))
    assert found is not None
    assert (found.before.value, found.after.value) == pytest.approx((0.28625, 0.141125))
    assert (found.before.low, found.before.high) == pytest.approx((0, 0.62))
    assert found.got_back is not None
    assert found.got_back.value == pytest.approx((0.5 + 0.45 + 0.52 + 0.5) / 4)
    # Student's t of 3 degrees of freedom, 3.18 (here within 1 %), the deviation, four launches.
    reach = 3.18 * stdev((0.5, 0.45, 0.52, 0.5)) / 2
    assert found.got_back.high - found.got_back.value == pytest.approx(reach, rel=0.01)


def test_a_share_that_rises_gets_back_what_lacks_to_the_best() -> None:
    made = experiment((0.2,) * 3, (0.6,) * 3)
    found = change(made, (PLAIN, REMEDIED), "stream", "loss", SIZE, best=1.0, rises=True)
    assert found is not None
    assert found.got_back == Estimate(*(pytest.approx(0.5),) * 3)
    fallen = change(made, (REMEDIED, PLAIN), "stream", "loss", SIZE, best=1.0, rises=True)
    assert fallen is not None
    assert fallen.got_back is not None
    assert fallen.got_back.value == pytest.approx(-1.0)


def test_of_few_launches_it_is_as_uncertain_as_both_are() -> None:
    found = changed(experiment((0.5, 0.5), (0.1, 0.1), spread=0.03))
    assert found is not None
    assert found.got_back is not None
    assert found.got_back.value == pytest.approx(0.8)
    assert found.got_back.low == pytest.approx((0.4 - 0.03 * 2**0.5) / 0.5)
    found = changed(experiment((0.5,), (0.1,), spread=None))
    assert found is not None
    assert found.got_back == unsure(pytest.approx(0.8))


def test_launches_that_lack_nothing_say_nothing() -> None:
    found = changed(experiment((0.0, 0.5, 0.5, 0.5), (0.0, 0.1, 0.1, 0.1)))
    assert found is not None
    assert found.got_back is not None
    assert found.got_back.value == pytest.approx(0.8)
    found = changed(experiment((0.0,) * 4, (0.0, 0.1, 0.0, 0.0)))
    assert found is not None
    assert found.got_back is None


def test_a_size_that_has_no_time_counts() -> None:
    """Of which every sample lost a message."""
    made = experiment((0.9, 0.9, 0.9), (0.1, 0.1, 0.1))
    lost = [one for one in made.points if one.variant == PLAIN]
    made.points[:] = [one for one in made.points if one.variant != PLAIN]
    assert changed(made) is None
    made.skipped[:] = [
        Skipped(
            launch=one.launch,
            variant=PLAIN,
            pattern="stream",
            size_bytes=SIZE,
            reason="lost",
            measures=one.measures,
        )
        for one in lost
    ]
    found = changed(made)
    assert found is not None
    assert (found.before.value, found.after.value) == pytest.approx((0.9, 0.1))


def test_only_launches_that_have_both_count() -> None:
    found = changed(experiment((0.5, 0.5, 0.9), (0.1, 0.1)))
    assert found is not None
    assert found.before.value == pytest.approx(0.5)
    assert changed(experiment((0.5,), ())) is None


# ---------------------------------------------------------------------------------------------------- what it comes to


@pytest.mark.parametrize(
    ("got_back", "outcome"),
    [
        (Estimate(0.99, 0.95, 1.03), "confirmed"),
        (Estimate(0.3, 0.1, 0.5), "confirmed"),
        (Estimate(0.3, 0.05, 0.55), "undecided"),
        (Estimate(0.02, -0.05, 0.09), "withdrawn"),
        (Estimate(-9.0, -15.0, -3.0), "withdrawn"),
        (unsure(1.0), "undecided"),
        (None, "undecided"),
    ],
)
def test_a_finding_is_confirmed_where_the_remedy_certainly_gets_back_a_tenth(
    got_back: Estimate | None, outcome: str
) -> None:
    assert outcomes.outcome_of(got_back) == outcome


@pytest.mark.parametrize(
    ("what", "best", "got_back", "words"),
    [
        (
            "fraction of messages lost",
            0.0,
            Estimate(0.95, 0.9, 1.0),
            "95 % (90 to 100 %) of the way to 0 %",
        ),
        (
            "fraction of overlap",
            1.0,
            unsure(-1.57),
            "-157 % of the way to 100 %",
        ),
        (
            "fraction of messages lost",
            0.0,
            None,
            "where nothing is lacking",
        ),
    ],
)
def test_what_was_judged_is_said_by_its_name(
    what: str, best: float, got_back: Estimate | None, words: str
) -> None:
    shares = Shares("loss", what, unsure(0.62), unsure(0.003), best, got_back)
    came = Confirmed("confirmed", REMEDIED, None, "", "x.jsonl", shares)
    both = f"the {what} is 0.3 % with {REMEDIED} and 62 % without"
    assert outcomes.outcome_text(came) == f"Confirmed: {both}, {words}; x.jsonl."


# ---------------------------------------------------------------------------------------- wherever findings are shown


def written(made: Run, path: Path, **header: object) -> Path:
    assert made.header is not None
    first = msgspec.structs.replace(made.header, host=socket.gethostname(), **header)
    path.write_bytes(b"".join(encode(record) for record in (first, *made.body(), made.end) if record))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    argv = ["run", PLAIN, "--pattern", "stream", "--pin", "0,1"]
    return written(messages_lost.fires(), tmp_path / "run.jsonl", argv=argv)


def tried(after: float, path: Path) -> Path:
    return written(experiment((0.5,) * 4, (after,) * 4), path, argv=EXPERIMENT, confirms="0" * 32)


def on_terminal(run: Path) -> str:
    stream = io.StringIO()
    print_summary(Console(file=stream, width=200), Reading(Run.read(run)))
    return " ".join(stream.getvalue().split())


def lost(run: Path) -> list[Finding]:
    return [one for one in judge(Reading(Run.read(run))).findings if one.rule == "messages-lost"]


def test_a_confirmed_finding_names_the_measure_wherever_it_is_shown(run: Path) -> None:
    (before,) = lost(run)
    path = tried(0.1, outcomes.file_of(run, 1))
    (found,) = lost(run)
    assert found.outcome is not None
    assert (found.outcome.outcome, found.outcome.gain, found.outcome.path) == ("confirmed", None, str(path))
    assert found.gain is before.gain is None, "a share is no number of times"
    said = f"Confirmed: the fraction of messages lost is 10 % with {REMEDIED} and 50 % without"
    assert f"outcome: {said}" in on_terminal(run)
    assert said in Page(page(Reading(Run.read(run)))).text
    assert f"outcome: {said}" in " ".join(call("explain", run).stdout.split())
    shown = json.loads(call("show", run, "--json").stdout)["findings"]
    (one,) = [one["outcome"] for one in shown if one["rule"] == "messages-lost"]
    assert one["shares"]["measure"] == "loss"
    assert one["shares"]["got_back"]["value"] == pytest.approx(0.8)
    rows = findings(run).to_dicts()
    assert [row["outcome"] for row in rows if row["rule"] == "messages-lost"] == ["confirmed"]


def test_a_withdrawn_one_is_left_out(run: Path) -> None:
    tried(0.49, outcomes.file_of(run, 1))
    assert lost(run) == []
    assert "1 finding was withdrawn by its experiment." in on_terminal(run)


class Planned:
    """A session that measures nothing, and what it is said to have measured."""

    def __init__(self, plan: Plan, made: Run) -> None:
        self.plan, self.made = plan, made

    def __call__(self, _: Sequence[str]) -> Session:
        return self  # type: ignore[return-value]

    def measure(self, output: Path, *, argv: Sequence[str], confirms: str | None) -> Result:
        written(self.made, output, argv=list(argv), confirms=confirms)
        return Result(Reading(Run.read(output)), 0, output, None)


def test_an_experiment_is_judged_by_its_measure_when_it_is_run(run: Path) -> None:
    measured = Run.read(run)
    (found,) = lost(run)
    assert found.confirm is not None
    assert found.experiment == (f"netpipe run udp {REMEDIED} --pattern stream --sizes 65536 --pin 0,1")
    output = outcomes.file_of(run, 1)
    for after, outcome in (((0.1,) * 4, "confirmed"), ((0.5,) * 4, "withdrawn"), ((), "failed")):
        planned = Planned(measured.plans[0], experiment((0.5,) * 4, after))
        came = confirming.measure(found.confirm, measured, planned, output, "2")
        assert (came.outcome, came.path, came.gain) == (outcome, str(output), None)
        assert (came.shares is None) == (outcome == "failed")
    assert came.reason == "the two were not measured together"


# ------------------------------------------------------------------------------------------------------ messages-lost


def of_udp(options: dict[str, str], kernel_bytes: str = "8192", limit: object = 4 << 20) -> Confirm | None:
    """The experiment for losses of a layer with these options, whose buffers the kernel bounds so."""
    made = messages_lost.fires()
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options=options) for one in plan.variants]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=n, settings={"rcvbuf_kernel_bytes": kernel_bytes}) for n in (0, 1)]
    made.environments[:] = [Environment(facts={"network": {"core": {"rmem_max_bytes": limit}}})]
    (found,) = [one for one in judge(Reading(made)).findings if one.rule == "messages-lost"]
    return found.confirm


BOTH, BUFFER = {"rcvbuf": "4k", "rate": "0"}, {"rcvbuf": "4k"}


@pytest.mark.parametrize(
    ("options", "kernel_bytes", "limit", "remedied"),
    [
        # Half of the 65536 bytes in 2 us that arrived, in Mbit/s, and less than what was set.
        (BOTH, "8192", 4 << 20, "udp:rcvbuf=4M,rate=131072"),
        ({"rcvbuf": "4k", "rate": "500"}, "8192", 4 << 20, "udp:rcvbuf=4M,rate=250"),
        (BUFFER, "8192", 212992, "udp:rcvbuf=208k"),
        (BUFFER, "8192", 1 << 30, "udp:rcvbuf=8M"),
        (BUFFER, "8192", 212993, "udp:rcvbuf=212993"),
        # The kernel gives no more, or nobody knows what.
        (BOTH, "425984", 212992, "udp:rate=131072"),
        (BOTH, "8192", None, "udp:rate=131072"),
        (BOTH, "8192", "much", "udp:rate=131072"),
        (BOTH, "unknown", 4 << 20, "udp:rate=131072"),
        ({"rate": "0"}, "8192", 4 << 20, "udp:rate=131072"),
        (BUFFER, "425984", 212992, None),
        ({}, "8192", 4 << 20, None),
    ],
)
def test_messages_without_room_are_got_back_by_a_larger_buffer_and_a_lower_rate(
    options: dict[str, str], kernel_bytes: str, limit: object, remedied: str | None
) -> None:
    confirm = of_udp(options, kernel_bytes, limit)
    assert (confirm and confirm.remedied) == remedied
    if confirm is not None:
        assert (confirm.variant, confirm.pattern, confirm.sizes) == ("udp", "stream", [65536])
        assert confirm.judged == messages_lost.JUDGED


def test_a_rate_is_not_known_where_no_sample_has_a_time() -> None:
    made = messages_lost.fires()
    (last,) = [one for one in made.points if one.size_bytes > 8]
    made.points.clear()
    made.environments.clear()
    skip = Skipped(variant="udp", pattern="stream", size_bytes=1024, reason="lost", measures=last.measures)
    skip.counters = last.counters
    made.skipped.append(skip)
    (found,) = [one for one in judge(Reading(made)).findings if one.rule == "messages-lost"]
    assert (found.confirm, found.experiment) == (None, None)


@pytest.mark.parametrize(
    ("dropped", "there"),
    [
        ((80, 80, 80, 80), True),
        ((40, 40, 40, 10), True),
        ((80, 0, 0, 0), False),  # a burst, once
        ((39, 39, 39, 39), False),
        ((0, 0, 0, 0), False),
    ],
)
def test_for_messages_that_the_way_dropped_there_is_no_experiment(
    dropped: tuple[int, ...], there: bool
) -> None:
    """It would be withdrawn where the way loses some at any rate, and with it that messages are lost. Of 80 datagrams
    that are lost in each of four launches, so many were dropped by the kernel of a receiver.
    """
    made = messages_lost.fires()
    (last,) = [one for one in made.points if one.size_bytes > 8]
    made.points[:] = [
        msgspec.structs.replace(last, launch=launch, counters={"datagrams_lost": 80, "kernel_drops": drops})
        for launch, drops in enumerate(dropped)
    ]
    (found,) = [one for one in judge(Reading(made)).findings if one.rule == "messages-lost"]
    assert (found.confirm is not None) == there
    assert found.cause.startswith(
        "The receiver's socket buffer was full" if there else "They were dropped on"
    )
    assert f"dropped {sum(dropped)} datagrams" in found.what or not any(dropped)


# --------------------------------------------------------------------------------------------------------- no-overlap

OPENMPI, MPICH, INTEL = "Open MPI 5.0.11", "MPICH 5.0.2", "Intel MPI 2021.13"


def of_library(version: str, below: str, env: str | None, allowed: object = 4) -> Finding:
    """Two ranks on a host that allows so many processors."""
    made = no_overlap.fires()
    options = {} if env is None else {"env": env}
    for plan in made.plans:
        plan.variants[:] = [PlannedVariant(variant="mpi@x", module="mpi@x", options=options)]
    for variant in made.variants:
        variant.version, variant.below = version, below
        variant.ranks[:] = [Rank(rank=n, host="node17", settings={}) for n in (0, 1)]
    made.environments[:] = [Environment(host="node17", facts={"limits": {"allowed_cpu_count": allowed}})]
    (found,) = [one for one in judge(Reading(made)).findings if one.rule == "no-overlap"]
    return found


@pytest.mark.parametrize(
    ("version", "below", "env", "experiment"),
    [
        (MPICH, "shm", "", "MPIR_CVAR_ASYNC_PROGRESS=1"),
        (MPICH, "ucx", "A=1;MPIR_CVAR_ASYNC_PROGRESS=0", "A=1;MPIR_CVAR_ASYNC_PROGRESS=1"),
        (INTEL, "shm", "", "I_MPI_ASYNC_PROGRESS=1"),
        (OPENMPI, "tcp", "", "OMPI_MCA_btl_tcp_progress_thread=1"),
        (OPENMPI, "shm", "", None),  # it has no such thread
        (MPICH, "shm", "MPIR_CVAR_ASYNC_PROGRESS=1", None),  # told already
        (MPICH, "shm", None, None),
        ("Unheard MPI 1", "tcp", "", None),
    ],
)
def test_a_progress_thread_is_the_experiment_for_no_overlap(
    version: str, below: str, env: str | None, experiment: str | None
) -> None:
    found = of_library(version, below, env)
    assert (found.confirm and found.confirm.remedied) == (experiment and f"mpi@x:env={experiment}")
    assert no_overlap.NO_PROCESSOR not in found.certainty
    if found.confirm is not None:
        assert (found.confirm.pattern, found.confirm.sizes) == ("overlap", [1 << 20])
        assert found.confirm.judged == no_overlap.JUDGED


@pytest.mark.parametrize("allowed", [2, 3, None, "all"])
def test_a_thread_that_would_share_a_processor_with_the_program_shows_nothing(allowed: object) -> None:
    found = of_library(MPICH, "shm", "", allowed)
    assert found.confirm is None
    assert found.certainty.endswith(no_overlap.NO_PROCESSOR)
