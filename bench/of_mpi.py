# SPDX-License-Identifier: Apache-2.0
"""Every MPI that was added beside what anybody would write by hand over it (bench/mpi), and the packaged NetPIPE."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from measured import (
    LIMIT_S,
    ROOT,
    MissingError,
    Result,
    best_trials_ns,
    interval,
    shown,
    through_the_command,
)
from slices import (
    MEASURE_S,
    Program,
    Speed,
    Start,
    compared,
    from_measure,
    from_numbers,
    from_records,
    in_the_middle,
    netpipe,
    of_the_fast,
    usual,
    within,
)

from netpipe.libraries import Command, Job, find_launcher
from netpipe.libraries.adding import added
from netpipe.libraries.starting import description

UNITS = {8: "8 B", 1 << 20: "1 MiB"}
ALL_UNITS = {**UNITS, 65536: "64 KiB"}
PROCESSORS_OF_THREADS = 4  # two ranks, each with two threads
PAIRS_OF_CLASSIC = 8
CLASSIC = {"Open MPI 4.1": "NPopenmpi", "MPICH 4.0": "NPmpich2"}  # what Debian's packages are built for


class Library:
    """An MPI that was added; its programs are started as netpipe starts its own, with what the module has set."""

    def __init__(self, module: str, setting: str, folder: Path) -> None:
        self.added = added.one(module)
        self.variant = f"{module}:{setting}"
        self.setting = setting
        self.description = description.read(self.added.path)
        self.version = self.description.version
        self.folder = folder
        (opened,) = [
            r
            for r in through_the_command(self.variant, "--sizes", "8", "--pattern", "window")
            if r["type"] == "variant"
        ]
        words = str(opened["ranks"][0]["settings"].get("environment", "")).split()
        self.environment = {
            **self.description.environment,
            **dict(word.split("=", 1) for word in words if "=" in word),
        }

    def start(self, *program: str) -> Command:
        job = Job(self.description, program, 2, (), self.environment, (), None, self.folder)
        return find_launcher(self.description, None)().command(job)

    def by_hand(self, name: str, size: int, words: Sequence[str], speed: Speed, batch: int = 0) -> Start:
        """One of bench/mpi, built by the library's own compiler. batch: samples of an output line; 0: as it says."""
        built = self.folder / f"{name}-{batch}"
        if not built.exists():
            subprocess.run(
                [
                    str(self.added.compiler),
                    "-O3",
                    "-pthread",
                    *([f"-DSAMPLES_IN_A_LINE={batch}"] if batch else []),
                    "-o",
                    str(built),
                    str(ROOT / f"bench/mpi/{name}.c"),
                ],
                env={**os.environ, **self.description.environment},
                check=True,
                timeout=LIMIT_S,
            )

        def program(output: Path) -> Program:
            command = self.start(str(built), str(output), str(MEASURE_S), str(size), *words)
            return Program(command.argv, output, from_numbers, command.whole_environment(), speed)

        return program


# The kernel tunes the buffers of a socket by the traffic that its connection has carried and by the pauses in it. A
# loop by hand over MPICH 5.0.2 takes 5 % longer when it pauses as netpipe does. Buffers that are set are not tuned.
SET_BUFFERS = ",sndbuf=512k,rcvbuf=512k"


def speed_of(pattern: str, size: int) -> Speed:
    """What a slice of samples comes to."""
    if size < 65536 and pattern == "bidirectional":
        return of_the_fast  # bench/mpi/samples.h
    if size < 65536 and pattern == "collective:what=bcast":
        return in_the_middle  # 250 and 480 ns in turn over Open MPI 5.0.11
    return usual


def rows(
    rounds: int,
    comparison: str,
    library: Library,
    program: str,
    shapes: Sequence[tuple[str, Sequence[str], int, str]],
    target: float = 0.02,
    values: Callable[[str], list[float]] = from_records,
) -> list[Result]:
    """Patterns beside a program of bench/mpi. A shape is the pattern, the program's words, the size in bytes, and what
    it is. Each round starts both anew. values: what counts of netpipe's samples.
    """
    results = []
    for pattern, words, size, shape in shapes:
        speed = speed_of(pattern, size)
        ours = netpipe(library.variant, size, pattern, speed, values)
        # A batch of as many as a visit of netpipe has: the first ones take longer.
        peer = library.by_hand(program, size, words, speed, 256 if speed is in_the_middle else 0)
        what = f"{shape}, {ALL_UNITS[size]} over {library.version}, {library.setting}: netpipe / by hand"
        results.append(compared(comparison, what, rounds, ours, peer, within(target)))
    return results


def of_classic(rounds: int, library: Library) -> list[Result]:
    """Two sizes by the packaged NetPIPE, where there is one for this library, and by netpipe, each by the best of three
    trials, which is what that NetPIPE prints.
    """
    name = next((name for start, name in CLASSIC.items() if library.version.startswith(start)), "")
    program = shutil.which(name)
    if program is None:
        return []
    mine: dict[int, list[float]] = {size: [] for size in UNITS}
    theirs: dict[int, list[float]] = {size: [] for size in UNITS}
    for _ in range(min(rounds, PAIRS_OF_CLASSIC)):
        for size in UNITS:
            records = through_the_command(
                library.variant, "--sizes", str(size), "--target", "0.01%", "--budget", "0.7"
            )
            mine[size].append(best_trials_ns(records)["pingpong", size])
            out = library.folder / "np.out"
            start = library.start(program, "-o", str(out), "-l", str(size), "-u", str(size))
            subprocess.run(
                start.argv,
                env=start.whole_environment(),
                cwd=library.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=LIMIT_S,
            )
            rows_of = [line.split() for line in out.read_text().splitlines()]  # of the sizes beside it too
            theirs[size] += [float(seconds) * 1e9 for of, _, seconds in rows_of if int(of) == size]
    results = []
    for size, text in UNITS.items():
        ratios = [a / b for a, b in zip(mine[size], theirs[size], strict=True)]
        results.append(
            Result(
                "mpi",
                f"{text} over {library.version}, {library.setting}: netpipe / {name}",
                shown(mine[size], 0, " ns"),
                shown(theirs[size], 0, " ns"),
                shown(ratios),
                "<= 1.0 or within the noise",
                interval(ratios)[1] <= 1.0,
            )
        )
    return results


def with_peers() -> list[str]:
    """Every Open MPI and MPICH that was added, or those of them that NETPIPE_BENCH_MPI names (mpi@mpich,mpi@openmpi),
    where there is no time for all. Raises MissingError if there are none.
    """
    there = [one.name for one in added.all_() if one.version.startswith(("Open MPI", "MPICH"))]
    if not there:
        raise MissingError("no MPI was added: netpipe modules add")
    asked = os.environ.get("NETPIPE_BENCH_MPI", ",".join(there)).split(",")
    unknown = [name for name in asked if name not in there]
    if unknown:
        raise MissingError(f"NETPIPE_BENCH_MPI names {', '.join(unknown)}, and there are {', '.join(there)}")
    return asked


def mpi(rounds: int) -> list[Result]:
    """Ping-pong over every Open MPI and MPICH that was added."""
    results = []
    for name in with_peers():
        for transport in ("shm", "tcp"):
            with tempfile.TemporaryDirectory() as folder:
                library = Library(name, f"transport={transport}", Path(folder))
                shapes = [("pingpong", (), size, "ping-pong") for size in UNITS]
                results += rows(rounds, "mpi", library, "pingpong", shapes, 0.01)
                results += of_classic(rounds, library)
        results += with_set_buffers(rounds, name)
    return results


def with_set_buffers(rounds: int, name: str) -> list[Result]:
    """Large messages over TCP, where the library lets its sockets' buffers be set."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = Library(name, f"transport=tcp{SET_BUFFERS}", Path(folder))
        except RuntimeError as refused:
            if "cannot take" not in str(refused):
                raise
            return []
        return rows(rounds, "mpi", library, "pingpong", [("pingpong", (), 1 << 20, "ping-pong")], 0.01)


def over_open_mpi(
    rounds: int,
    comparison: str,
    program: str,
    shapes: Sequence[tuple[str, Sequence[str], int, str]],
    settings: Sequence[str] = ("transport=shm", f"transport=tcp{SET_BUFFERS}"),
) -> list[Result]:
    """Over the first Open MPI that was added, with each of these settings."""
    module = next((one.name for one in added.all_() if one.version.startswith("Open MPI")), None)
    if module is None:
        raise MissingError("no Open MPI was added: netpipe modules add")
    results = []
    for setting in settings:
        with tempfile.TemporaryDirectory() as folder:
            results += rows(rounds, comparison, Library(module, setting, Path(folder)), program, shapes)
    return results


def mpi_patterns(rounds: int) -> list[Result]:
    """Many messages at once."""
    return over_open_mpi(
        rounds,
        "mpi-patterns",
        "window",
        [
            ("window", ("window", "16"), 8, "message rate, 16 in flight"),
            ("window:in_flight=64", ("window", "64"), 8, "message rate, 64 in flight"),
            ("window", ("window", "16"), 1 << 20, "throughput, 16 in flight"),
            ("bidirectional", ("bidirectional",), 8, "both directions"),
            ("bidirectional", ("bidirectional",), 1 << 20, "both directions"),
        ],
    )


def mpi_peers(rounds: int) -> list[Result]:
    """A peer's number in the peer's way: the loops of the OSU and Intel MPI benchmarks over every Open MPI and MPICH in
    shared memory, beside the options that docs/how-to/compare-with-osu-and-imb.md names for them.
    """
    chosen = with_peers()
    window = "window:in_flight=64,places=one"
    latencies = [
        ("pingpong:buffers=apart", ("latency",), size, "osu_latency") for size in (8, 65536, 1 << 20)
    ]
    windows = [
        *((window, ("bw", "64"), size, "osu_bw") for size in (8, 65536, 1 << 20)),
        (f"{window},directions=both", ("bibw", "64"), 1 << 20, "osu_bibw"),
    ]
    # The rates of IMB are 2 or 4 x size / time, netpipe's of two ranks are the same: so is the ratio of the times.
    rings = [
        (f"{pattern}buffers=apart", (word,), size, f"IMB {word.capitalize()}")
        for pattern, word in (("ring:call=sendrecv,", "sendrecv"), ("exchange:call=recv,", "exchange"))
        for size in (8, 65536, 1 << 20)
    ]
    results = []
    for name in chosen:
        for setting, shapes in (("transport=shm", latencies + rings), ("transport=shm,waitall=yes", windows)):
            with tempfile.TemporaryDirectory() as folder:
                results += rows(rounds, "mpi-peers", Library(name, setting, Path(folder)), "osu", shapes)
    return results


def mpi_means(rounds: int) -> list[Result]:
    """OSU's number of a collective operation over the same libraries: the mean over the ranks, each from its own start
    after a barrier.
    """
    chosen = with_peers()
    means = [
        (
            f"collective:what={what}{more},start=barrier",
            (what, "own"),
            size,
            f"osu_{what}, mean over the ranks",
        )
        for what, more in (("allreduce", ",datatype=float"), ("bcast", ""), ("alltoall", ""))
        for size in UNITS
    ]
    mean = from_measure("rank_mean")
    results = []
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            library = Library(name, "transport=shm", Path(folder))
            results += rows(rounds, "mpi-means", library, "collective", means, values=mean)
    return results


def mpi_collectives(rounds: int) -> list[Result]:
    """The slowest rank of a collective operation."""
    return over_open_mpi(
        rounds,
        "mpi-collectives",
        "collective",
        [
            (f"collective:what={what}", (what,), size, what)
            for what in ("allreduce", "alltoall", "bcast")
            for size in UNITS
        ],
    )


def mpi_put(rounds: int) -> list[Result]:
    """A put and a flush, beside MPI_Put and MPI_Win_flush, in both kinds of window."""
    return [
        result
        for window in ("allocate", "create")
        for result in over_open_mpi(
            rounds,
            "mpi-put",
            "put",
            [("put", (window,), size, "put and flush") for size in UNITS],
            (f"window={window},transport=shm",),
        )
    ]


def mpi_threads(rounds: int) -> list[Result]:
    """Two threads of each rank that send at once, in the way of osu_latency_mt and osu_mbw_mr, over every Open MPI and
    MPICH in shared memory. Threads that take turns on a processor would measure the turns.
    """
    chosen = with_peers()
    processors = len(os.sched_getaffinity(0))
    if processors < PROCESSORS_OF_THREADS:
        raise MissingError(f"two threads of two ranks need four processors, and there are {processors}")
    shapes = [
        *(("threads", ("pingpong", "2"), size, "ping-pong of 2 threads") for size in UNITS),
        *(
            ("threads:traffic=window", ("window", "2", "16"), size, "16 in flight of 2 threads")
            for size in UNITS
        ),
    ]
    results = []
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            library = Library(name, "transport=shm,thread=multiple", Path(folder))
            results += rows(rounds, "mpi-threads", library, "threads", shapes)
    return results


def mpi_all(_: int) -> list[Result]:
    """The whole command over every MPI that was added, shared memory and TCP, with the sizes of a default run."""
    begin = time.monotonic()
    records = through_the_command("mpi", "--timeout", "5")
    seconds = time.monotonic() - begin
    measured = {r["variant"] for r in records if r["type"] == "point"}
    libraries = {variant.partition(":")[0] for variant in measured}
    if not measured:
        raise MissingError("no MPI was added: netpipe modules add")
    count = sum(r["type"] == "point" for r in records)
    return [
        Result(
            "mpi-all",
            f"{len(libraries)} MPIs, {len(measured)} variants, {count} points in one run",
            f"{seconds:.0f} s",
            "-",
            f"{seconds:.0f} s",
            "< 180 s for six",
            seconds < 180 and len(libraries) >= 6 and not any(r["type"] == "error" for r in records),
        )
    ]


def mpi_many(_: int) -> list[Result]:
    """64 ranks on the processors that there are, in 32 pairs, and 1024 on a simulated machine."""
    results = []
    there = {one.name for one in added.all_()}
    shapes = [
        ("mpi@openmpi", ":transport=shm", 64),
        ("mpi@mpich", ":transport=shm", 64),
        ("mpi@simgrid", "", 1024),
    ]
    for name, setting, ranks in shapes:
        if name not in there:
            continue
        begin = time.monotonic()
        records = through_the_command(
            name + setting, "--ranks", str(ranks), "--pin", "auto", "--sizes", "8,1k", "--budget", "2"
        )
        seconds = time.monotonic() - begin
        (launch,) = [r for r in records if r["type"] == "launch"]
        beyond = (launch["rss_bytes"] - launch["buffer_bytes"]) / 2**20
        done = sum(r["type"] == "point" for r in records)
        simulated = name == "mpi@simgrid"
        results.append(
            Result(
                "mpi-many",
                f"{ranks} ranks of {name} in {ranks // 2} pairs on "
                + ("a simulated machine" if simulated else f"{os.cpu_count()} processors"),
                f"{seconds:.0f} s",
                f"{beyond:.2g} MiB a rank beyond its buffers, the library's own included",
                f"{done} of 2 sizes",
                "completes" + (", < 8 MiB" if simulated else ""),
                done == 2 and (not simulated or beyond < 8),
            )
        )
    if not results:
        raise MissingError("no MPI was added: netpipe modules add")
    return results


COMPARISONS = {
    "mpi": mpi,
    "mpi-patterns": mpi_patterns,
    "mpi-peers": mpi_peers,
    "mpi-means": mpi_means,
    "mpi-collectives": mpi_collectives,
    "mpi-put": mpi_put,
    "mpi-threads": mpi_threads,
    "mpi-all": mpi_all,
    "mpi-many": mpi_many,
}
