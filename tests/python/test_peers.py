# SPDX-License-Identifier: Apache-2.0
"""Results of other programs, as they print them. The texts of OSU, IMB, perftest and nccl-tests have the layout of
those programs and numbers made up here; those of sockperf, iperf3 and ucx_perftest were printed by them on one machine.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_comparing import call, made, same, written

from netpipe import peers
from netpipe.failure import Failure
from netpipe.peers import Given, NotReadable, Number, Result, fault, guess
from netpipe.records import Run

OSU_LATENCY = """
# OSU MPI Latency Test v7.3
# Size          Latency (us)
# Datatype: MPI_CHAR.
0                       0.21
1                       0.24
1048576               103.55
"""
OSU_BANDWIDTH = """# OSU MPI Bandwidth Test v5.9
# Size      Bandwidth (MB/s)
1                       4.00
65536               12000.00
"""
OSU_ALLREDUCE = """# OSU MPI Allreduce Latency Test v7.3
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       1.50              1.20              1.90        1000
1024                    2.50              2.20              2.90        1000
"""
IMB = """#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part
#---------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         0.21         0.00
            8         1000         0.25        32.00
      4194304           10       450.00      9320.67

#----------------------------------------------------------------
# Benchmarking Allreduce
# #processes = 2
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.05         0.04
            4         1000         0.80         0.90         0.85

#----------------------------------------------------------------
# Benchmarking Allreduce
# #processes = 4
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            4         1000         1.80         1.90         1.85

# All processes entering MPI_Finalize
"""
SOCKPERF = """sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 127.0.0.1       PORT = 21111 # UDP
sockperf: Test ended
sockperf: \x1b[2;35m====> avg-latency=14.991 (std-dev=86.295)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Latency is 14.991 usec
sockperf: ---> <MAX> observation = 2666.771
sockperf: ---> percentile 99.000 =  134.553
sockperf: ---> percentile 50.000 =    8.011
sockperf: ---> <MIN> observation =    7.000
"""
_FRAME = "+--------------+--------------+------------------------------+---------------------+-----------------------+"
UCX = f"""{_FRAME}
| API:          protocol layer                                                                               |
| Test:         tag match latency                                                                            |
| Message size: 8                                                                                            |
{_FRAME}
|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
{_FRAME}
Final:                  2000     10.281   159.913   159.913        0.05       0.05        6253        6253
"""
UCX_CLIENT = """\
|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
Final:                  2000      7.129   227.457   227.457      274.78     274.78        4396        4396
"""
IPERF3 = """{"start": {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 131072}},
"intervals": [{"sum": {"seconds": 0.5, "bits_per_second": 8807245721.34347, "omitted": true}},
{"sum": {"seconds": 0.5, "bits_per_second": 10281345124.642288}},
{"sum": {"seconds": 0.5, "bits_per_second": 9176423294.104557}},
{"sum": {"seconds": 0.5, "bits_per_second": 8646808813.4291439}}],
"end": {"sum_received": {"seconds": 2.0, "bits_per_second": 9227468800.0}}}
"""
NCCL = """# nThread 1 nGpus 2 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid   1234 on   node17 device  0 [0x07] NVIDIA H100
#  Rank  1 Group  0 Pid   1234 on   node17 device  1 [0x0b] NVIDIA H100
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    10.50    0.00    0.00      0    10.20    0.00    0.00      0
        1024           256     float     sum      -1    12.00    0.09    0.09      0    11.00    0.09    0.09      0
# Avg bus bandwidth    : 0.05
"""
PERFTEST_LATENCY = """                    Send Latency Test
 Dual-port       : OFF          Device         : mlx5_0
---------------------------------------------------------------------------------------
 #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% perc[usec] 99.9% perc[usec]
 2       1000       0.91        3.60        0.95            0.96        0.05          1.10           3.60
 4096    1000       1.91        4.60        1.95            1.96        0.05          2.10           4.60
---------------------------------------------------------------------------------------
"""
PERFTEST_RATE = """                    RDMA_Write BW Test
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             11700.00            11690.00                  0.187040
"""


def read(text: str, size: int | None = None) -> tuple[list[Result], Given]:
    """By whose output it is."""
    known = guess(text)
    assert known
    given = Given(size_bytes=size)
    return list(known.read(text, given)), given


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (OSU_LATENCY, "osu"),
        (IMB, "imb"),
        (SOCKPERF, "sockperf"),
        (UCX, "ucx_perftest"),
        (UCX_CLIENT, "ucx_perftest"),
        (IPERF3, "iperf3"),
        (NCCL, "nccl_tests"),
        (PERFTEST_LATENCY, "perftest"),
        (PERFTEST_RATE, "perftest"),
    ],
)
def test_each_program_is_known_by_its_output_alone(text: str, name: str) -> None:
    assert [one for one in peers.names() if peers.get(one).mark.search(text)] == [name]


def test_of_osu_times_are_microseconds_and_rates_millions_of_bytes() -> None:
    ((latency,), _), ((rate,), _) = read(OSU_LATENCY), read(OSU_BANDWIDTH)
    assert latency.pattern == "pingpong:buffers=apart"
    assert [n.size_bytes for n in latency.numbers] == [0, 1, 1048576]
    assert [n.time_ns for n in latency.numbers] == pytest.approx([210, 240, 103550])
    assert latency.numbers[0].bytes_per_s is None
    assert rate.pattern == "window:in_flight=64,places=one"
    assert rate.numbers[1].bytes_per_s == 12e9
    assert rate.numbers[1].time_ns == pytest.approx(65536 / 12)


@pytest.mark.parametrize(
    ("title", "pattern"),
    [
        ("MPI_Put Latency", "put"),
        ("MPI_Accumulate latency", "accumulate"),
        ("MPI_Get_accumulate latency", "accumulate:fetch=yes"),
        ("MPI_Fetch_and_op latency", "atomic"),
        ("MPI_Compare_and_swap latency", "atomic:op=compare_swap"),
    ],
)
def test_of_osu_one_sided_tests_are_the_patterns_that_do_the_same(title: str, pattern: str) -> None:
    text = f"""# OSU {title} Test v7.3
# Window creation: MPI_Win_create
# Synchronization: MPI_Win_lock/unlock
# Size          Latency (us)
8                       1.43
"""
    ((latency,), _) = read(text)
    assert latency.pattern == pattern
    assert [number.time_ns for number in latency.numbers] == pytest.approx([1430])


def test_of_osu_collectives_have_extremes_and_several_outputs_may_follow_each_other() -> None:
    (latency, allreduce), _ = read(OSU_LATENCY + OSU_ALLREDUCE)
    assert latency.pattern == "pingpong:buffers=apart"
    assert allreduce.pattern == "collective:what=allreduce,start=barrier"
    (first, _) = allreduce.numbers
    assert (first.size_bytes, first.mean_ns, first.min_ns, first.max_ns) == (4, 1500, 1200, 1900)


def test_of_imb_every_benchmark_and_number_of_processes_is_a_curve() -> None:
    (pingpong, two, four), _ = read(IMB)
    assert (pingpong.pattern, pingpong.ranks, len(pingpong.numbers)) == ("pingpong:buffers=apart", 2, 3)
    assert [(one.pattern, one.ranks) for one in (two, four)] == [
        ("collective:what=allreduce,start=barrier", 2),
        ("collective:what=allreduce,start=barrier", 4),
    ]
    assert (four.numbers[0].min_ns, four.numbers[0].mean_ns, four.numbers[0].max_ns) == (1800, 1850, 1900)


def test_of_sockperf_the_size_is_given() -> None:
    with pytest.raises(NotReadable, match="--size"):
        read(SOCKPERF)
    ((one,), _) = read(SOCKPERF, 64)
    (number,) = one.numbers
    assert (number.size_bytes, number.time_ns, number.mean_ns) == pytest.approx((64, 8011, 14991))
    assert (number.min_ns, number.p99_ns, number.max_ns) == pytest.approx((7000, 134553, 2666771))


def test_of_ucx_perftest_the_server_prints_the_size_and_the_client_does_not() -> None:
    ((latency,), _) = read(UCX)
    assert (latency.pattern, latency.numbers[0].size_bytes, latency.numbers[0].time_ns) == (
        "pingpong",
        8,
        10281,
    )
    with pytest.raises(NotReadable, match="--size"):
        read(UCX_CLIENT)
    ((rate,), _) = read(UCX_CLIENT, 65536)
    assert rate.numbers[0].bytes_per_s == pytest.approx(274.78 * 2**20)
    # its message rate says the same
    assert rate.numbers[0].bytes_per_s == pytest.approx(4396 * 65536, rel=1e-3)


def test_of_iperf3_the_median_of_the_intervals_that_count() -> None:
    ((one,), _) = read(IPERF3)
    (number,) = one.numbers
    assert (one.pattern, number.size_bytes) == ("stream", 131072)
    assert number.bytes_per_s == pytest.approx(9176423294.104557 / 8)
    assert number.mean_ns == pytest.approx(131072 / (9227468800 / 8) * 1e9)


def test_of_nccl_tests_out_of_place_and_in_place_are_two() -> None:
    (out, within), _ = read(NCCL)
    assert (out.pattern, within.pattern, out.ranks) == ("nccl", "nccl,in_place=yes", 2)
    assert [n.time_ns for n in within.numbers] == [10200, 11000]


def test_of_perftest_the_typical_time_and_the_average_rate() -> None:
    ((latency,), _), ((rate,), _) = read(PERFTEST_LATENCY), read(PERFTEST_RATE)
    assert (latency.pattern, latency.numbers[0].time_ns, latency.numbers[1].p99_ns) == ("pingpong", 950, 2100)
    assert (rate.pattern, rate.numbers[0].bytes_per_s) == ("put", 11690 * 2**20)


@pytest.mark.parametrize("text", [OSU_LATENCY, OSU_BANDWIDTH, IMB, PERFTEST_LATENCY, NCCL])
def test_what_is_cut_off_is_left_out_and_said(text: str) -> None:
    """Wherever it ends: no number is taken of which a digit may be missing."""
    whole = {(one.pattern, one.ranks, n.size_bytes): n for one in read(text)[0] for n in one.numbers}
    lost = 0
    for end in range(len(text) // 3, len(text), 7):
        try:
            found, given = read(text[:end])
        except (NotReadable, AssertionError):
            continue
        for one in found:
            for n in one.numbers:
                assert n.time_ns == whole[one.pattern, one.ranks, n.size_bytes].time_ns
        lost += bool(given.notes)
    assert lost


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("osu", "# OSU something\n1 2\n", "no line '# OSU MPI ... Test'"),
        ("osu", "# OSU MPI Latency Test v7\n1 2\n", "no line '# Size"),
        ("imb", "1 2 3\n", "no line '# Benchmarking"),
        ("iperf3", '{"start": {}}', "not what iperf3 -J prints"),
        ("iperf3", '{"start": {"test_start"', "not whole JSON"),
        ("iperf3", '{"error": "unable to connect", "start": {}}', "unable to connect"),
        ("ucx_perftest", "nothing\n", "no line 'Final:'"),
        ("nccl_tests", "algbw busbw\n", "no row"),
        ("perftest", "nothing\n", "no line '#bytes"),
    ],
)
def test_what_is_not_theirs_is_refused_with_a_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(NotReadable, match=sentence.replace("...", r"\.\.\.")):
        list(peers.get(name).read(text, Given()))


OUTPUTS = {
    "osu": OSU_LATENCY + OSU_BANDWIDTH + OSU_ALLREDUCE,
    "imb": IMB,
    "sockperf": SOCKPERF,
    "ucx_perftest": UCX,
    "iperf3": IPERF3,
    "nccl_tests": NCCL,
    "perftest": PERFTEST_LATENCY + PERFTEST_RATE,
}
# What a number may have become, by a hand, a disk or a locale.
NOT_THEIRS = ["1.2.3", "nan", "inf", "-1", "1e999", "9" * 5000, "0", "1e308", "5e-324", "1,5", "x", ""]


@pytest.mark.parametrize("name", OUTPUTS)
def test_whatever_stands_for_a_number_ends_in_a_sentence_or_in_a_number(name: str) -> None:
    text, refused = OUTPUTS[name], 0
    for found in re.finditer(r"\d+(?:\.\d+)?", text):
        for word in NOT_THEIRS:
            numbers, sentence = read_or_said(name, text[: found.start()] + word + text[found.end() :])
            assert len(sentence) < 300
            faults = [number for number in numbers if fault(number)]
            refused += bool(sentence or faults)
            for number in numbers:
                if number not in faults:
                    assert 0 < number.time_ns < 1e19
                    assert 0 <= number.size_bytes < 1 << 50
    assert refused


def read_or_said(name: str, text: str) -> tuple[list[Number], str]:
    """The numbers of a text, or why it has none."""
    try:
        return [number for one in peers.get(name).read(text, Given(64)) for number in one.numbers], ""
    except NotReadable as why:
        return [], str(why)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (UCX.replace("10.281", "10.2.81"), "'10.2.81' stands where a number should be"),
        (UCX.replace("size: 8", f"size: {'8' * 99}"), "is too large for a number of bytes or processes"),
        (NCCL.replace("10.50", "ten"), "'ten' stands where a number should be"),
        (NCCL.replace("10.50", "nan"), "'nan' stands where a number should be"),
        (SOCKPERF.replace("8.011", "8.0.11"), "'8.0.11' stands where a number should be"),
        (SOCKPERF.replace("8.011", "0.000"), "a time at 64 bytes is not above 0"),
        (IPERF3.replace("131072", "9" * 5000), "not whole JSON"),
        (IPERF3.replace("131072", "9" * 50), "no length of a write"),
        (OSU_LATENCY.replace("0.21", "1e300"), "longer than 31 years"),
        (OSU_LATENCY.replace("1048576", "1e300"), "a size is not between 0 and 2^50 bytes"),
        (IMB.replace("#processes = 4", f"#processes = {'4' * 40}"), "is too large for a number of"),
    ],
)
def test_a_malformed_number_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "x.txt").write_text(text)
    done = call("import", tmp_path / "x.txt", "--size", "64")
    assert isinstance(done.exception, Failure)
    assert done.exception.exit_code == 2
    assert sentence in done.exception.sentence
    assert not (tmp_path / "x.jsonl").exists()


def test_a_column_without_a_number_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(OSU_ALLREDUCE.replace("1.20", "N/A "))
    assert call("import", tmp_path / "x.txt").exception is None
    first, second = Run.read(tmp_path / "x.jsonl").points
    assert (first.min_ns, second.min_ns) == (None, 2200)


def test_of_imb_a_table_that_lacks_a_column_is_left_out() -> None:
    (only,), _ = read(IMB.replace("t_min[usec]", "t_low[usec]"))
    assert only.pattern == "pingpong:buffers=apart"


def test_an_import_knows_the_program_and_says_what_its_numbers_are(tmp_path: Path) -> None:
    (tmp_path / "imb.txt").write_text(IMB)
    assert call("import", tmp_path / "imb.txt", "--variant", "mpi@impi").exception is None
    run = Run.read(tmp_path / "imb.jsonl")
    assert {(point.variant, point.pattern) for point in run.points} == {
        ("mpi@impi:ranks=2", "pingpong:buffers=apart"),
        ("mpi@impi:ranks=2", "collective:what=allreduce,start=barrier"),
        ("mpi@impi:ranks=4", "collective:what=allreduce,start=barrier"),
    }
    (settings,) = {opened.ranks[0].settings["source"] for opened in run.variants if "=4" in opened.variant}
    assert "average over ranks" in settings
    assert all(point.low_ns is None for point in run.points)


def test_iperf3s_json_is_not_taken_for_points(tmp_path: Path) -> None:
    (tmp_path / "iperf.json").write_text(IPERF3)
    assert call("import", tmp_path / "iperf.json").exception is None
    (point,) = Run.read(tmp_path / "iperf.jsonl").points
    assert (point.variant, point.pattern) == ("iperf", "stream")


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        (SOCKPERF, (), "give it with --size"),
        (SOCKPERF, ("--size", "many"), "not a number of bytes"),
        (OSU_LATENCY, ("--pattern", "put"), "says what was measured"),
        (OSU_LATENCY + OSU_LATENCY, (), "twice"),
        ("# OSU MPI Latency Test v7\n# Size    Latency (us)\n", (), "has no points"),
        ("hello\n", (), "no other known program prints this"),
        ("8 1 2\n", ("--size", "8"), "npout3 has the sizes"),
    ],
)
def test_an_import_that_cannot_be_is_refused(
    tmp_path: Path, text: str, words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "x.txt").write_text(text)
    done = call("import", tmp_path / "x.txt", *words)
    assert isinstance(done.exception, Failure)
    assert done.exception.exit_code == 2
    assert sentence in done.exception.sentence
    assert not (tmp_path / "x.jsonl").exists()


def test_an_exported_osu_table_comes_back(tmp_path: Path) -> None:
    run = written(made({"tcp": same}, 1), tmp_path / "run.jsonl")
    table = call("export", run, "--format", "osu").stdout
    ((one,), _) = read(table)
    ours = {point.size_bytes: point.median_ns for point in Run.read(run).points if point.launch == 0}
    assert {n.size_bytes for n in one.numbers} == set(ours)
    for n in one.numbers:
        assert n.time_ns == pytest.approx(ours[n.size_bytes], rel=0.05)
    (tmp_path / "osu.txt").write_text(table)
    assert call("import", tmp_path / "osu.txt", "--variant", "tcp").exception is None
