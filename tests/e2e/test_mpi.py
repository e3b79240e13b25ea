# SPDX-License-Identifier: Apache-2.0
"""Every MPI library through the whole of netpipe: each setting of its table, with real bytes that are checked, and what
a run says of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Netpipe
from every_pattern import check_defaults, check_every_pattern, listed
from mpi import SIX, Mpis

from netpipe import native
from netpipe.findings import judge
from netpipe.launch.variants import refusal
from netpipe.reading import Reading
from netpipe.records import Run
from thresholds import around

SIZES = "1,9,4097,300001"
EAGER = 8000  # no default of a library

# Faults of libraries. A buffer of MPI_Bsend that was full once never empties, as ten lines of MPI show as well; and
# LAM's daemons do not deliver every large message.
HANGS = {
    ("openmpi", "op=bsend", "stream"),
    ("openmpi4", "op=bsend", "stream"),
    ("lam", "rpi=lamd", "pingpong"),
    ("lam", "rpi=lamd", "stream"),
}


def settings_of(module: dict[str, Any]) -> list[str]:
    """Each value of each choice and switch, one at a time."""
    found = []
    for option in module["options"]:
        values = {"choice": option["choices"], "bool": ["yes", "no"]}.get(option["type"], [])
        found += [f"{option['name']}={value}" for value in values if value != option["default"]]
    return found


@pytest.mark.deep
@pytest.mark.parametrize("library", SIX)
def test_every_byte_arrives_with_every_setting_or_the_reason_why_not_is_named(
    netpipe: Netpipe, with_mpis: Mpis, library: str
) -> None:
    with_mpis.need(library)
    name = f"mpi@{library}"
    (module,) = [one for one in native.list_()["modules"] if one["name"] == name]
    wanted = [name, *(f"{name}:{setting}" for setting in settings_of(module))]
    refused = {variant: why for variant in wanted if (why := refusal(variant))}
    assert all("cannot take" in why for why in refused.values()), refused
    asked = [variant for variant in wanted if variant not in refused]
    sizes = {int(size) for size in SIZES.split(",")}
    errors = {}
    hanging = {
        variant: [p for p in ("pingpong", "stream") if (library, variant.partition(":")[2], p) in HANGS]
        for variant in asked
    }
    for patterns in (("pingpong", "stream"), ("pingpong",), ("stream",)):
        left_out = {"pingpong", "stream"} - set(patterns)
        variants = [variant for variant in asked if set(hanging[variant]) == left_out]
        if not variants:
            continue
        options = [word for pattern in patterns for word in ("--pattern", pattern)]
        done = netpipe(*variants, *options, "--sizes", SIZES, "--verify", "--budget", "0.03")
        errors |= {error["variant"]: error for error in done.of("error")}
        for variant in variants:
            if variant in errors:  # what was opened works
                assert errors[variant]["size_bytes"] is None, errors[variant]
                continue
            for pattern in patterns:
                skipped = done.of("skipped", variant=variant, pattern=pattern)
                unsteady = {one["size_bytes"] for one in skipped}
                if None in unsteady:
                    continue
                points = done.of("point", variant=variant, pattern=pattern)
                assert {point["size_bytes"] for point in points} | unsteady == sizes, (
                    f"{variant}: {done.said}"
                )
                assert all(point["verified_bytes"] > 0 for point in points)
    works = {
        "",
        "transport=shm",
        "transport=tcp",
        "op=isend",
        "op=persistent",
        "op=ssend",
        "op=bsend",
        "type=vector",
    }
    failed = {variant.partition(":")[2] for variant in [*errors, *refused]}
    assert not works & failed, {variant: error["message"] for variant, error in errors.items()}


@pytest.mark.check
@pytest.mark.parametrize("library", SIX)
def test_each_pattern_with_its_defaults(
    netpipe: Netpipe, with_mpis: Mpis, request: pytest.FixtureRequest, library: str
) -> None:
    (added,) = with_mpis.need(library)
    check_defaults(netpipe, request, listed(added.name))


@pytest.mark.deep
@pytest.mark.parametrize("library", ["openmpi", pytest.param("mpich", marks=pytest.mark.row)])
def test_every_byte_arrives_under_every_pattern_or_the_reason_why_not_is_named(
    netpipe: Netpipe, with_mpis: Mpis, request: pytest.FixtureRequest, library: str
) -> None:
    (added,) = with_mpis.need(library)
    ran = check_every_pattern(netpipe, request, listed(added.name), {"cast", "partitioned", "threads"})
    assert {"accumulate", "atomic", "collective:what=alltoallw", "halo:dims=3", "itself", "strided"} <= ran


@pytest.mark.deep
@pytest.mark.parametrize("library", SIX)
def test_every_byte_arrives_around_the_size_from_which_receivers_are_asked_first(
    netpipe: Netpipe, with_mpis: Mpis, library: str
) -> None:
    with_mpis.need(library)
    # Open MPI counts its header (docs/bench.md, thresholds).
    sizes = around({"eager": EAGER, "behind a header": EAGER - 56}, EAGER)
    variants = [f"mpi@{library}:transport={transport},eager={EAGER}" for transport in ("shm", "tcp")]
    refused = {variant: why for variant in variants if (why := refusal(variant))}
    # Before 5, MPICH's shared memory has cells for messages of every size.
    assert set(refused) <= ({variants[0]} if library == "mpich4" else set()), refused
    patterns = ("pingpong", "stream", "window")
    asked = [word for pattern in patterns for word in ("--pattern", pattern)]
    variants = [variant for variant in variants if variant not in refused]
    done = netpipe(*variants, *asked, "--sizes", ",".join(map(str, sizes)), "--verify", "--budget", "0.5")
    assert done.code == 0, done.said
    for variant in variants:
        for pattern in patterns:
            points = done.of("point", variant=variant, pattern=pattern)
            assert sorted(one["size_bytes"] for one in points) == sizes, (variant, pattern, done.said)
            assert all(one["verified_bytes"] > 0 for one in points)


@pytest.mark.deep
def test_an_eager_size_with_which_lam_delivers_wrong_bytes_is_refused(
    netpipe: Netpipe, with_mpis: Mpis
) -> None:
    with_mpis.need("lam")
    for setting in ("transport=shm", "rpi=usysv"):
        done = netpipe(f"mpi@lam:{setting},eager=8193", "--sizes", "8")
        assert done.code == 2, done.said
        assert "cannot take eager=8193 with rpi=usysv" in " ".join(done.said.split())
    done = netpipe(
        "mpi@lam:rpi=sysv,eager=10000", "--sizes", "8224,8225,10000", "--verify", "--budget", "0.1"
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 3


@pytest.mark.deep
@pytest.mark.parametrize(
    ("library", "setting"),
    [
        *((library, setting) for library in SIX for setting in ("transport=shm", "transport=tcp")),
        *((library, setting) for library in SIX[:-1] for setting in ("window=allocate", "flush=local")),
    ],
)
def test_every_block_of_a_strided_transfer_arrives(
    netpipe: Netpipe, with_mpis: Mpis, library: str, setting: str
) -> None:
    with_mpis.need(library)
    shapes = (
        "block=64,stride=200",
        "direction=get,stride=8",
        "in_flight=5",
        "sync=fence,direction=get,block=3,stride=7",
    )
    patterns = [f"strided:{shape}" for shape in shapes if setting != "flush=local" or "sync" not in shape]
    variant = f"mpi@{library}:{setting}"
    asked = [word for pattern in patterns for word in ("--pattern", pattern)]
    # Open MPI over TCP sends each block by itself.
    done = netpipe(variant, *asked, "--sizes", "192,3072", "--verify", "--budget", "0.2")
    if library == "lam":  # which has neither of the other settings
        assert "has no put_strided and get_strided, which pattern strided needs" in " ".join(
            done.said.split()
        )
        return
    assert done.code == 0, done.said
    for pattern in patterns:
        assert len(done.of("point", variant=variant, pattern=pattern)) == 2, (pattern, done.said)


@pytest.mark.every_library
@pytest.mark.gate
def test_one_command_measures_all_of_them_and_says_what_they_lose(netpipe: Netpipe, with_mpis: Mpis) -> None:
    libraries = [added.name for added in with_mpis.some()]
    done = netpipe("memcpy", "shm", "tcp:wait=poll", "mpi", "--sizes", "8,64k", "--budget", "0.3")
    assert done.code == 0, done.said
    for name in libraries:
        for transport, below in (("shm", "shm"), ("tcp", "tcp")):
            variant = f"{name}:transport={transport}"
            assert len(done.of("point", variant=variant)) == 2
            (opened,) = done.of("variant", variant=variant)
            settings = opened["ranks"][0]["settings"]
            assert settings.get("below_stands_on", opened["below"]) == below
            assert opened["version"]
            assert settings["wait"] in ("poll", "block", "hybrid", "yield"), settings
            assert f"\n{variant} " in done.said
    assert re.search(r"pingpong +8 B +adds ", done.said)


@pytest.mark.parametrize("library", SIX)
def test_every_byte_of_many_messages_at_once_arrives(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    variants = [f"mpi@{library}:{setting}" for setting in ("transport=shm", "transport=tcp", "waitall=yes")]
    patterns = ("bidirectional", "burst", "itself", "window", "window:in_flight=64,directions=both")
    asked = [word for pattern in patterns for word in ("--pattern", pattern)]
    done = netpipe(*variants, *asked, "--sizes", SIZES, "--verify", "--budget", "0.1")
    assert done.code == 0, done.said
    for variant in variants:
        for pattern in patterns:
            points = done.of("point", variant=variant, pattern=pattern)
            unsteady = done.of("skipped", variant=variant, pattern=pattern)
            assert {str(one["size_bytes"]) for one in [*points, *unsteady]} == set(SIZES.split(",")), pattern
            assert all(point["verified_bytes"] > 0 for point in points)


def test_eight_ranks_on_two_processors_are_four_pairs(netpipe: Netpipe, with_mpis: Mpis) -> None:
    libraries = [f"{added.name}:transport=shm" for added in with_mpis.need("openmpi", "mpich")]
    done = netpipe(*libraries, "--ranks", "8", "--sizes", "1,4097", "--verify", "--budget", "0.5")
    assert done.code == 0, done.said
    for variant in libraries:
        assert [len(one["ranks"]) for one in done.of("variant", variant=variant)] == [8]
        points = done.of("point", variant=variant)
        assert len(points) == 2
        assert all(point["verified_bytes"] > 0 for point in points)


@pytest.mark.deep
@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_sixty_four_ranks_on_two_processors_come_to_an_end(
    netpipe: Netpipe, with_mpis: Mpis, library: str
) -> None:
    with_mpis.need(library)
    variant = f"mpi@{library}:transport=shm"
    done = netpipe(variant, "--ranks", "64", "--sizes", "4097", "--verify", "--budget", "0.5")
    assert done.code == 0, done.said
    assert [len(one["ranks"]) for one in done.of("variant")] == [64]
    (point,) = done.of("point", variant=variant)
    assert point["verified_bytes"] >= 64 * 4097  # all of them got something


def test_the_record_names_the_library_that_answered_and_the_one_that_the_module_was_added_for(
    netpipe: Netpipe, with_mpis: Mpis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade leaves a description that is older than what the ranks load."""
    (added,) = with_mpis.need("mpich")
    text = re.sub(r"^version .*$", "version MPICH 4.9.9", added.path.read_text(), flags=re.MULTILINE)
    (tmp_path / "mpi@older.module").write_text(text.replace("name mpi@mpich", "name mpi@older"))
    monkeypatch.setenv("NETPIPE_MODULE_PATH", f"{tmp_path}:{os.environ['NETPIPE_MODULE_PATH']}")
    done = netpipe("mpi@mpich:transport=shm", "mpi@older:transport=shm", "--sizes", "8", "--budget", "0.05")
    assert done.code == 0, done.said
    opened = {one["module"]: (one["version"], one["added_for"]) for one in done.of("variant")}
    assert opened == {"mpi@mpich": (added.version, None), "mpi@older": (added.version, "MPICH 4.9.9")}
    told = f"mpi@older was added for MPICH 4.9.9, and {added.version} answered."
    assert told in " ".join(done.said.split())
    findings = judge(Reading(Run.read(tmp_path / "run.jsonl"))).findings
    (found,) = (one for one in findings if one.rule == "another-library")
    assert found.what == told
    assert found.remedy.startswith("netpipe modules add mpi --mpicc PATH --name older, ")


def test_an_odd_number_of_ranks_makes_no_pairs(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    done = netpipe("mpi@mpich", "--ranks", "3", "--sizes", "8")
    (skipped,) = done.of("skipped")
    assert skipped["reason"] == "pattern pingpong needs a multiple of 2 ranks, there are 3"


@pytest.mark.deep
def test_a_hang_ends_in_a_sentence_and_the_smaller_sizes_are_measured(
    netpipe: Netpipe, with_mpis: Mpis
) -> None:
    """MPICH 4.0 over UCX's TCP hangs at large messages with socket buffers of 8 KiB."""
    with_mpis.need("mpich4", "openmpi4")
    hanging = "mpi@mpich4:transport=tcp,sndbuf=8k,rcvbuf=8k"
    # a slow size may take 4 s: that ends as a hang
    wait = ("--timeout", "2", "--budget", "8", "--target", "30%")
    done = netpipe(hanging, "mpi@openmpi4:transport=tcp", "--sizes", "8,1k,64k,1M", *wait)
    assert done.code == 4, done.said
    error = done.of("error")[0]
    assert error["variant"] == hanging
    assert error["size_bytes"] in (65536, 1 << 20), error
    assert "rank " in error["message"]
    measured = {point["size_bytes"] for point in done.of("point", variant=hanging)}
    assert {8, 1024} <= measured
    assert error["size_bytes"] not in measured
    assert len(done.of("point", variant="mpi@openmpi4:transport=tcp")) == 4
