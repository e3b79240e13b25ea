# SPDX-License-Identifier: Apache-2.0
"""Rules about layers and ranks, each on the cases that its two examples leave out."""

from __future__ import annotations

import msgspec
import pytest

from netpipe.findings import Finding, crowded, examples, judge
from netpipe.findings.curves import broken_guideline, daemon_route, rate_limit
from netpipe.findings.curves.sockets import clamped_buffer, messages_lost, one_flow, receive_window
from netpipe.findings.curves.thresholds import dip, late_switch
from netpipe.findings.curves.waiting import no_overlap
from netpipe.reading import Reading
from netpipe.records import Cell, PlannedMode, Promises, Rank, Run, Skipped


def found_by(rule: str, made: Run) -> list[Finding]:
    return [finding for finding in judge(Reading(made)).findings if finding.rule == rule]


def with_settings(made: Run, module: str, options: dict[str, str], settings: dict[str, str]) -> Run:
    """The run, with one module's options and what its rank 0 recorded."""
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, options=options) if one.module == module else one
            for one in plan.variants
        ]
    for variant in made.variants:
        if variant.module == module:
            variant.ranks[:] = [
                Rank(rank=rank, host="node17", cpu=rank, settings=settings) for rank in (0, 1)
            ]
    return made


# ------------------------------------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize(
    ("most", "explained"), [(0, False), (4095, False), (4096, True), (4276, True), (4277, False)]
)
def test_a_step_where_messages_no_longer_travel_in_their_request_is_explained_by_it(
    most: int, explained: bool
) -> None:
    made = examples.stepping(1.4)  # from 4096 to 4277 bytes
    (usual,) = found_by("step", made)
    for variant in made.variants:
        variant.promises = Promises(max_inline_bytes=most)
    (found,) = found_by("step", made)
    assert found.cause.startswith("Messages of up to") == explained
    assert explained or found.cause == usual.cause


# ---------------------------------------------------------------------------------------------------------- packets


def stepping_at(below: int, above: int, segment: int) -> Run:
    """A curve that steps up by 40 % between two sizes, with so many bytes in a packet."""
    sizes = ((below, 1000.0), (above, 1400.0))
    points = [examples.visited("udp", size, ns, launch) for launch in range(4) for size, ns in sizes]
    made = examples.run(*points, variants=("udp",))
    return with_settings(made, "udp", {}, {"message_bytes_per_datagram": str(segment)})


@pytest.mark.parametrize(
    ("below", "above", "packets"),
    [
        (939, 981, "2 packets of 976 B instead of 1"),
        (976, 977, "2 packets of 976 B instead of 1"),
        (1878, 1961, "3 packets of 976 B instead of 2"),  # 2 x 976 = 1952
        (2896, 3025, "4 packets of 976 B instead of 3"),
        (3756, 3922, "5 packets of 976 B instead of 4"),
    ],
)
def test_each_packet_more_is_a_step_of_its_own(below: int, above: int, packets: str) -> None:
    (found,) = found_by("segment-step", stepping_at(below, above, 976))
    assert packets in found.what
    assert not found_by("step", stepping_at(below, above, 976))


@pytest.mark.parametrize(("below", "above"), [(900, 940), (1953, 2040), (4850, 5000)])
def test_a_step_within_a_packet_or_beyond_the_fourth_has_another_cause(below: int, above: int) -> None:
    assert not found_by("segment-step", stepping_at(below, above, 976))
    assert found_by("step", stepping_at(below, above, 976))


# ------------------------------------------------------------------------------------------------------------ ranks


def collective(operation: str) -> Run:
    """Three ranks, of which rank 0 takes four times as long as the others."""
    pattern = f"collective:what={operation}"
    cells = [Cell(rank=rank, median_ns=1000.0, slowest=0) for rank in (1, 2)]
    cells.append(Cell(rank=0, median_ns=4000.0, slowest=1000))
    made = examples.run(examples.point("tcp", 8, 4000.0, pattern=pattern, cells=cells))
    for plan in made.plans:
        plan.modes[:] = [PlannedMode(pattern=pattern, name="collective", options={"what": operation})]
    return made


def test_the_root_of_an_operation_is_no_slow_rank() -> None:
    assert found_by("slowest-rank", collective("allreduce"))
    for operation in ("bcast", "reduce", "gather", "gatherv", "scatter", "scatterv"):
        assert not found_by("slowest-rank", collective(operation)), operation
        (skipped,) = [
            one for one in judge(Reading(collective(operation))).skipped if one.rule == "slowest-rank"
        ]
        assert skipped.reason.startswith("only operations with a root")


def test_between_hosts_the_host_of_the_slow_rank_is_named() -> None:
    made = collective("allreduce")
    (plain,) = found_by("slowest-rank", made)
    assert "allreduce: rank 0 was the slowest" in plain.what
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=n, host=f"node{17 + n}", settings={}) for n in range(3)]
    (named,) = found_by("slowest-rank", made)
    assert "allreduce: rank 0 (node17) was the slowest of 3 ranks" in named.what


def test_a_rate_of_several_interfaces_together_is_no_sign_of_a_limit() -> None:
    made = rate_limit.fires()
    assert found_by("rate-limit", made)
    for variant in made.variants:
        variant.ranks.append(msgspec.structs.replace(variant.ranks[0], rank=2, host="node19"))
    assert not found_by("rate-limit", made)


# --------------------------------------------------------------------------- what a library calls its setting


def of_library(made: Run, version: str) -> Run:
    """The run, all of whose variants are of one version of a library."""
    for variant in made.variants:
        variant.version = version
    return made


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        (
            "Open MPI 4.1.4",
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "OMPI_MCA_coll_tuned_use_dynamic_rules=1"),
        ),
        ("MPICH 4.0.2", ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE=0")),
        ("Intel MPI 2021.13", ("I_MPI_ADJUST_ALLREDUCE",)),
    ],
)
def test_a_slow_collective_is_mended_by_the_variable_of_its_library(
    version: str, settings: tuple[str, ...]
) -> None:
    (found,) = found_by("broken-guideline", of_library(broken_guideline.fires(), version))
    assert all(setting in found.remedy for setting in settings)
    assert found.experiment == "netpipe tune mpi@x --goal collective=allreduce"


def test_the_search_for_an_algorithm_does_not_begin_with_one_that_was_set() -> None:
    made = of_library(broken_guideline.fires(), "Open MPI 4.1.4")
    variant = "mpi@x:env=OMPI_MCA_coll_tuned_allreduce_algorithm=5"
    for record in (*made.points, *made.variants, *(one for plan in made.plans for one in plan.variants)):
        record.variant = variant
    (found,) = found_by("broken-guideline", made)
    assert found.experiment == "netpipe tune mpi@x --goal collective=allreduce"


def test_of_an_unknown_library_the_remedies_name_no_variable() -> None:
    for module, rule in (
        (broken_guideline, "broken-guideline"),
        (no_overlap, "no-overlap"),
        (crowded, "oversubscribed-job"),
    ):
        (found,) = found_by(rule, of_library(module.fires(), "Unheard MPI 1"))
        assert "=1" not in found.remedy
        assert "MPI_A" not in found.remedy


@pytest.mark.parametrize(
    ("version", "setting"),
    [
        ("Open MPI 5.0.11", "OMPI_MCA_btl_tcp_progress_thread=1"),
        ("MPICH 4.0.2", "MPIR_CVAR_ASYNC_PROGRESS=1"),
        ("Intel MPI 2021.13", "I_MPI_ASYNC_PROGRESS=1"),
    ],
)
def test_without_overlap_each_library_has_its_own_progress_thread(version: str, setting: str) -> None:
    (found,) = found_by("no-overlap", of_library(no_overlap.fires(), version))
    assert found.remedy.startswith(setting)
    assert "MPI_Test" in found.remedy


@pytest.mark.parametrize(
    ("version", "setting"),
    [
        ("Open MPI 4.1.4", "OMPI_MCA_mpi_yield_when_idle=1"),
        ("MPICH 4.0.2", "ch3:sock"),
        ("LAM/MPI 7.1.4", "rpi=sysv"),
    ],
)
def test_ranks_without_a_processor_each_yield_by_the_setting_of_their_library(
    version: str, setting: str
) -> None:
    (found,) = found_by("oversubscribed-job", of_library(crowded.fires(), version))
    assert f"; with {version.rpartition(' ')[0]}: " in found.remedy
    assert setting in found.remedy


def test_pvm_and_lam_are_told_each_in_its_own_words_how_to_avoid_the_daemon() -> None:
    (pvm,) = found_by("daemon-route", daemon_route.fires())
    assert "PvmRouteDirect" in pvm.remedy
    assert "rpi" not in pvm.remedy
    made = of_library(examples.run(examples.point("mpi@lam", 8, 4e4), variants=("mpi@lam",)), "LAM/MPI 7.1.4")
    (lam,) = found_by("daemon-route", with_settings(made, "mpi@lam", {"rpi": "lamd"}, {}))
    assert "-ssi rpi usysv" in lam.remedy
    assert "Pvm" not in lam.remedy


def test_a_packet_is_made_larger_where_it_was_bounded() -> None:
    made = stepping_at(939, 981, 976)
    (found,) = found_by("segment-step", made)
    assert "MTU on the whole way" in found.remedy
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, options={"payload": "1000", "gso": "no"}) for one in plan.variants
        ]
    (found,) = found_by("segment-step", made)
    assert found.remedy.startswith("a larger payload")
    assert "ethtool" not in found.remedy


# ---------------------------------------------------------------------------------------------------------- sockets


def test_a_buffer_that_the_kernel_left_alone_or_made_larger_is_not_cut() -> None:
    (found,) = found_by("clamped-buffer", clamped_buffer.fires())
    assert "asked for a sndbuf of 4 MiB and got 208 KiB" in found.what
    assert found.remedy.startswith("sysctl -w net.core.wmem_max=4194304, or leave sndbuf out")
    assert found.experiment == "netpipe run tcp:sndbuf=4M tcp --sizes 1048576"
    assert found.confirm is None  # that a cut buffer costs nothing does not make it whole
    for asked in (
        "0",
        "",
        "208k",
        "1k",
    ):  # not asked for; given as asked; the kernel's smallest one is larger
        made = with_settings(
            clamped_buffer.fires(), "tcp", {"sndbuf": asked}, {"sndbuf_kernel_bytes": "425984"}
        )
        assert not found_by("clamped-buffer", made), asked


def test_the_experiment_of_a_cut_buffer_is_run_as_the_run_was() -> None:
    made = clamped_buffer.fires()
    assert made.header is not None
    argv = ["netpipe", "run", "tcp:sndbuf=4M", "--pin", "0,1", "--hosts", "a,b", "-o", "run.jsonl"]
    made.header = msgspec.structs.replace(made.header, argv=argv)
    (found,) = found_by("clamped-buffer", made)
    assert found.experiment is not None
    assert "--pin 0,1" in found.experiment
    assert "--hosts a,b" in found.experiment
    assert "run.jsonl" not in found.experiment


def test_what_a_cut_buffer_costs_is_said_where_the_run_has_the_variant_without_it() -> None:
    times = {"tcp:rcvbuf=4M": 3e5, "tcp": 1e5}
    points = [
        examples.visited(name, 1 << 20, ns, launch) for launch in range(4) for name, ns in times.items()
    ]
    made = examples.run(*points, variants=tuple(times))
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, options={"rcvbuf": "4M" if ":" in one.variant else "0"})
            for one in plan.variants
        ]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, host="node17", settings={"rcvbuf_kernel_bytes": "425984"})]
    (found,) = found_by("clamped-buffer", made)
    assert found.gain is not None
    assert found.gain.value == pytest.approx(3, rel=0.01)
    assert "tcp is 3.00 times as fast" in found.what
    assert found.confirm is None
    assert "net.core.rmem_max" in found.remedy


def test_messages_that_no_receiver_dropped_were_lost_on_the_way() -> None:
    (dropped,) = found_by("messages-lost", messages_lost.fires())
    assert "dropped 1920 datagrams" in dropped.what
    assert "rcvbuf" in dropped.remedy
    assert "rate" in dropped.remedy
    made = messages_lost.fires()
    for point in made.points:
        point.counters.clear()
    (on_the_way,) = found_by("messages-lost", made)
    assert "dropped" not in on_the_way.what
    assert "rcvbuf" not in on_the_way.remedy
    assert on_the_way.cause.endswith("an interface whose queue was full.")
    for variant in made.variants:
        variant.promises = Promises(lossy=True, unordered=True)
    (overtaken,) = found_by("messages-lost", made)
    assert overtaken.cause == on_the_way.cause + messages_lost.OVERTAKEN


def test_a_loss_that_may_be_chance_is_no_finding() -> None:
    made = messages_lost.fires()
    for point in made.points:
        for measure in point.measures:
            measure.low = 0.0
    assert not found_by("messages-lost", made)


def test_losses_that_wander_are_found_though_their_interval_is_not_known() -> None:
    """A stream of a few samples has no interval of a launch, but what it lost was counted."""
    made = messages_lost.fires()
    for point in made.points:
        for measure in point.measures:
            measure.low = measure.high = None
    assert found_by("messages-lost", made)


def test_losses_of_every_launch_are_found_though_each_may_be_chance() -> None:
    """From 2 to 12 % over four launches: the interval of all of them holds 0, and so does that of some."""
    made = messages_lost.fires()
    (first,) = [point for point in made.points if point.size_bytes > 8]
    shares = (0.019, 0.035, 0.123, 0.073)
    launches = [
        msgspec.structs.replace(
            first, launch=launch, measures=[msgspec.structs.replace(first.measures[0], median=share, low=0.0)]
        )
        for launch, share in enumerate(shares)
    ]
    made.points[:] = launches
    assert found_by("messages-lost", made)
    made.points[0] = msgspec.structs.replace(
        first, measures=[msgspec.structs.replace(first.measures[0], median=0.0, low=0.0)]
    )
    assert not found_by("messages-lost", made)


@pytest.mark.parametrize("others", [True, False])
def test_a_size_without_a_whole_sample_is_the_one_that_loses_most(others: bool) -> None:
    """`others`: whether another size of the curve has a time."""
    made = messages_lost.fires()
    if not others:
        made.points.clear()
    share = examples.measure("loss", "1", 0.53)
    skip = Skipped(variant="udp", pattern="stream", size_bytes=1 << 20, reason="lost", measures=[share])
    skip.counters = {"kernel_drops": 77}
    made.skipped.append(skip)
    (found,) = found_by("messages-lost", made)
    assert found.what.startswith("udp stream loses 53 % of the messages of 1 MiB; the kernel of a receiver")
    assert "dropped 77 datagrams" in found.what
    assert found.evidence["loss"].low == pytest.approx(share.low)
    assert "rcvbuf" in found.remedy


def test_the_window_is_judged_at_the_largest_size_and_where_no_buffer_was_set() -> None:
    (found,) = found_by("receive-window", receive_window.fires())
    assert "in 60 % of the time" in found.what
    assert found.confirm is not None
    assert found.confirm.remedied == "tcp:rcvbuf=8M"
    fixed = with_settings(receive_window.fires(), "tcp", {"rcvbuf": "8k"}, {"rcvbuf_autotuned": "no"})
    assert not found_by("receive-window", fixed)
    made = receive_window.fires()
    for point in made.points:
        point.counters = {"busy_us": 4000, "rwnd_limited_us": 4000}  # one tick of the kernel's timer
    assert not found_by("receive-window", made)


def test_variants_that_differ_in_more_than_their_connections_are_not_compared() -> None:
    (found,) = found_by("one-flow", one_flow.fires())
    assert "tcp:streams=4 is 2.50 times as fast at 1 MiB" in found.what
    assert found.gain is not None
    made = one_flow.fires()
    for plan in made.plans:
        plan.variants[1].options["nodelay"] = "no"
    assert not found_by("one-flow", made)


def test_registrations_are_counted_where_the_run_has_no_variant_that_registers_once() -> None:
    def alone(registrations: int) -> Run:
        counters = {"registrations": registrations}
        made = examples.run(
            examples.point("verbs", 4096, 4e3, samples=10, ops=100, counters=counters), variants=("verbs",)
        )
        return with_settings(made, "verbs", {"register": "each"}, {})

    (found,) = found_by("registration-cost", alone(2000))
    assert "2.00 registrations for each operation" in found.what
    assert found.gain is None
    assert not found_by("registration-cost", alone(4))


# -------------------------------------------------------------------------------------------------------- thresholds


def test_an_eager_limit_says_where_the_throughput_is_back_and_is_no_dip() -> None:
    made = with_settings(dip.fires(), "tcp", {"eager": "0"}, {})
    (found,) = found_by("eager-limit", made)
    assert found.what.endswith(" The throughput is back at 8 KiB.")
    assert not found_by("dip", made)
    (stays,) = found_by("eager-limit", with_settings(dip.silent(), "tcp", {"eager": "0"}, {}))
    assert "back" not in stays.what


def two_steps(eager: str) -> Run:
    """A curve that steps up by 20 % at 1 KiB and by 40 % at 8 KiB, of a layer with this limit; "0": left alone."""
    sizes = ((1024, 1000.0), (1070, 1200.0), (8192, 2000.0), (8565, 2800.0))
    made = examples.run(
        *(examples.visited("tcp", size, ns, launch) for launch in range(4) for size, ns in sizes)
    )
    return with_settings(made, "tcp", {"eager": eager}, {})


@pytest.mark.parametrize(
    ("eager", "above"),
    [
        ("0", 8565),  # nobody knows the limit: the step that is most certainly large
        ("8k", 8565),
        ("1k", 1070),  # where it was set, though the other step is larger
        ("1080", 1070),  # the library counts its own header with the message
        ("1400", None),  # no header is that long
        ("4k", None),  # neither is there
    ],
)
def test_of_two_steps_the_eager_limit_is_where_it_was_set(eager: str, above: int | None) -> None:
    found = found_by("eager-limit", two_steps(eager))
    assert [one.size_bytes for one in found] == ([] if above is None else [above])
    others = {one.size_bytes for rule in ("step", "dip") for one in found_by(rule, two_steps(eager))}
    assert others == {1070, 8565} - {above}, "a step that is not a limit is told as something else"


def test_a_dip_is_told_once() -> None:
    (found,) = found_by("dip", dip.fires())
    assert "falls to 75 % from 4096 to 4277 bytes, and is back at 8 KiB" in found.what
    assert not found_by("step", dip.fires())
    assert found_by("step", dip.silent())


def test_a_step_down_asks_for_a_lower_limit_and_is_told_once() -> None:
    (found,) = found_by("late-switch", late_switch.fires())
    assert found.confirm is not None
    assert (found.confirm.remedied, found.confirm.sizes) == ("tcp:eager=1024", [4096])
    assert not found_by("step", late_switch.fires())
    made = late_switch.fires()
    for plan in made.plans:
        plan.variants[0].options.clear()
    assert not found_by("late-switch", made)
    assert found_by("step", made)


# ------------------------------------------------------------------------------------------------------------ steps


def rising(*factors: float) -> Run:
    """A curve at sizes a sixteenth of an octave apart, each of which takes so many times as long as the one before."""
    points, ns = [], 1000.0
    for place, factor in enumerate((1.0, *factors)):
        ns *= factor
        points += [
            examples.visited("tcp", round(40_000 * 2 ** (place / 16)), ns, launch) for launch in range(4)
        ]
    return examples.run(*points)


def test_steps_in_a_row_are_one_finding() -> None:
    (found,) = found_by("step", rising(1.5, 1.6, 1.4))
    assert found.size_bytes == 41771, "where the first of them is"
    assert found.what.startswith("tcp pingpong: 45552 bytes take 3.36 (")
    assert found.what.endswith(" times as long as 40000, in 3 steps.")
    assert found.evidence["times"].value == pytest.approx(1.5 * 1.6 * 1.4, rel=0.01)
    low, high = found.evidence["times"].low, found.evidence["times"].high
    assert low is not None
    assert high is not None
    rounding = 1e-9  # the launches are alike, so the interval has no width; processors differ in the last bit
    assert low * (1 - rounding) < 3.36 < high * (1 + rounding)


def test_steps_apart_or_in_another_direction_are_findings_of_their_own() -> None:
    assert len(found_by("step", rising(1.5, 1.05, 1.4))) == 2
    assert not [one for one in found_by("step", rising(1.5, 0.5)) if " steps" in one.what]
