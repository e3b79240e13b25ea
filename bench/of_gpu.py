# SPDX-License-Identifier: Apache-2.0
"""Memory of an NVIDIA GPU: copies of the driver beside a loop by hand (bench/gpu), and UCX beside ucx_perftest. They
are skipped where there is no device.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from measured import LIMIT_S, ROOT, WORKER, MissingError, Result
from of_ucx import Way, compare
from slices import MEASURE_S, Program, Start, at_most, compared, from_numbers, netpipe

SIZES = ((8, "8 B"), (65536, "64 KiB"), (16 << 20, "16 MiB"))
WAYS = {
    "h2d": "from pinned memory of the host to the device",
    "d2h": "from the device to pinned memory of the host",
    "d2d": "within the device",
}
PACKAGES = Path(sysconfig.get_path("purelib")) / "nvidia"
HEADERS = (PACKAGES / "cuda_runtime/include", PACKAGES / "cu13/include", Path("/usr/local/cuda/include"))


def need_device() -> None:
    """What netpipe itself says of the module, without which there is nothing to compare."""
    said = subprocess.run(
        [WORKER, "list"], capture_output=True, text=True, check=True, timeout=LIMIT_S
    ).stdout
    found = [one for one in json.loads(said)["modules"] if one["name"] == "cuda"]
    reason = found[0].get("reason") if found else "the module cuda is not built"
    if reason is not None:
        raise MissingError(reason)


def built(folder: Path) -> Path:
    """bench/gpu/copies.c."""
    compiler = shutil.which("cc")
    headers = next((folder for folder in HEADERS if (folder / "cuda.h").exists()), None)
    if compiler is None or headers is None:
        raise MissingError("a C compiler and cuda.h are needed (make setup-deep brings the header)")
    program = folder / "copies"
    places = [f"-I{place}" for place in (headers, ROOT / "include", ROOT / "src/modules")]
    words: list[str | Path] = [
        "-std=gnu17",
        "-O2",
        *places,
        "-o",
        program,
        ROOT / "bench/gpu/copies.c",
        "-ldl",
    ]
    subprocess.run([compiler, *words], check=True, timeout=LIMIT_S)
    return program


def by_hand(program: Path, way: str, size: int) -> Start:
    def start(output: Path) -> Program:
        return Program([str(program), way, str(size), str(output), str(MEASURE_S)], output, from_numbers)

    return start


def copies(way: str) -> Callable[[int], list[Result]]:
    """Copies of one direction."""

    def run(rounds: int) -> list[Result]:
        """A put of `cuda` and its flush: a copy that is handed to a stream, which is asked until it is empty."""
        need_device()
        results = []
        with tempfile.TemporaryDirectory() as folder:
            program = built(Path(folder))
            for size, text in SIZES:
                ours, peer = netpipe(f"cuda:kind={way}", size, "put"), by_hand(program, way, size)
                what = f"{text} {WAYS[way]}: cuda / a loop over the driver"
                results.append(compared(f"cuda-{way}", what, min(rounds, 6), ours, peer, at_most(1.02)))
        return results

    return run


# Both sides have their messages on the same device.
LATENCY = Way("tag_lat", "pingpong:buffers=apart", "memory=cuda", more=("-m", "cuda"))
RATE = Way("tag_bw", "stream", "memory=cuda", more=("-m", "cuda", "-O", "1"), throughput=True)


def over_ucx(way: Way, sizes: tuple[int, ...]) -> Callable[[int], list[Result]]:
    """One way of UCX with its messages in memory of the device."""

    def run(rounds: int) -> list[Result]:
        """Messages from memory of the device to memory of the device, beside ucx_perftest."""
        need_device()
        return compare("UCX from device to device", [way], ("posix,cma,cuda",), sizes)(rounds)

    return run


COMPARISONS = {
    **{f"cuda-{way}": copies(way) for way in WAYS},
    "ucx-gpu-latency": over_ucx(LATENCY, (8, 65536, 1 << 20)),
    "ucx-gpu-rate": over_ucx(RATE, (65536, 1 << 20)),
}
