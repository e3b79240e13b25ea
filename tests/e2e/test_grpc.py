# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""grpc: its interfaces and settings, what is refused, who may come in, and what becomes of a rank that is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import services
from conftest import WORKER, Runner, Starter
from test_hosts import Site, site  # noqa: F401
from test_two_hosts import serve, token, two_namespaces  # noqa: F401

pytestmark = pytest.mark.module("grpc")

WAYS = ("pingpong", "stream", "window")
ALONE = ("pingpong",)


@pytest.fixture(scope="module", autouse=True)
def _layer(listing: dict[str, Any]) -> None:
    services.skip_without(listing, "grpc")


@pytest.mark.parametrize(
    ("variant", "patterns"),
    [
        pytest.param("grpc:wait=hybrid", WAYS, marks=pytest.mark.deep),
        ("grpc:transport=unix,wait=poll", WAYS),
        pytest.param("grpc:window=64k,frame=1M", WAYS, marks=pytest.mark.deep),
        pytest.param("grpc:api=unary,wait=poll", ALONE, marks=pytest.mark.deep),
        ("grpc:api=unary,transport=unix", ALONE),
        ("grpc:security=tls", WAYS),
        pytest.param("grpc:security=tls,api=unary,transport=unix", ALONE, marks=pytest.mark.deep),
        pytest.param("grpc:security=tls,wait=poll,window=64k,frame=1M", WAYS, marks=pytest.mark.deep),
    ],
)
def test_every_byte_arrives(measure: Runner, variant: str, patterns: tuple[str, ...]) -> None:
    services.check_all_arrives(measure, variant, patterns=patterns)


def test_messages_above_the_library_s_usual_limit_arrive(measure: Runner) -> None:
    """gRPC takes 4 MiB at most, unless it is told otherwise."""
    done = measure(
        "variant grpc:api=stream",
        "variant grpc:api=unary",
        "schedule list",
        "sizes 4194304,4194305",
        "verify yes",
        "budget 0.1",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 4
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_both_ranks_may_send_what_no_buffer_holds_at_the_same_time(measure: Runner) -> None:
    done = measure(
        "variant grpc",
        "pattern bidirectional",
        "schedule list",
        "sizes 16777216",
        "verify yes",
        "budget 0.1",
    )
    assert done.code == 0, done.said
    assert done.of("point")[0]["verified_bytes"] > 0


@pytest.mark.parametrize("api", ["stream", pytest.param("unary", marks=pytest.mark.deep)])
def test_four_ranks_reach_each_other(measure: Runner, api: str) -> None:
    patterns = ("pairs", "incast") if api == "stream" else ALONE
    services.check_all_arrives(measure, f"grpc:api={api},transport=unix", "ranks 4", patterns=patterns)


def test_what_calls_cannot_carry_is_left_out_and_the_rest_is_measured(measure: Runner) -> None:
    done = services.one_size(
        measure, "grpc:api=unary", "pattern stream", "pattern window", "pattern pingpong"
    )
    assert done.code == 0, done.said
    (stream,) = done.of("skipped", pattern="stream")
    assert "with api=unary each request is followed by its reply" in stream["reason"]
    (window,) = done.of("skipped", pattern="window")
    assert "no two messages are on their way" in window["reason"]
    assert len(done.of("point", pattern="pingpong")) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("frame=16k", "gRPC then adapts the frame size as well, so give a window too"),
        ("frame=16383,window=64k", "frame=16383: HTTP/2 asks for 16384 bytes at least"),
        ("frame=16777216,window=64k", "outside"),
        ("transport=ipc", "'ipc' is not one of its choices"),
        ("spin_us=7", "only wait=hybrid polls for a time"),
    ],
)
def test_what_would_have_no_effect_is_refused(measure: Runner, settings: str, says: str) -> None:
    done = services.one_size(measure, f"grpc:{settings}")
    assert done.code == 2
    assert says in done.said
    assert not done.of("sample")


def test_settings_are_recorded_as_they_are(measure: Runner) -> None:
    done = services.one_size(measure, "grpc:window=256k,frame=32k", "pin 0,0")
    assert done.code == 0, done.said
    for rank in services.settings_of(done):
        assert rank["http2_bdp_probes"] == "no"
        assert rank["http2_window_bytes"] == str(256 << 10)
        assert rank["http2_max_frame_bytes"] == str(32 << 10)
        assert rank["library_version"]
        assert rank["wait"] == "block"


@pytest.mark.parametrize(("transport", "below"), [("tcp", "tcp"), ("unix", "unix")])
def test_the_layer_below_is_that_of_the_transport(measure: Runner, transport: str, below: str) -> None:
    done = services.one_size(measure, f"grpc:transport={transport}")
    (variant,) = done.of("variant")
    assert variant["below"] == below
    assert variant["version"].startswith("gRPC core ")


@pytest.mark.parametrize(("wait", "said"), [("poll", "yield"), ("block", "block"), ("hybrid", "hybrid")])
def test_how_it_waits_is_said(measure: Runner, wait: str, said: str) -> None:
    done = services.one_size(measure, f"grpc:wait={wait}", "pin 0,0")
    assert done.code == 0, done.said
    assert {rank["wait"] for rank in services.settings_of(done)} == {said}
    (point,) = done.of("point")
    looked = point["counters"].get("empty_polls", 0) > 0
    assert looked == (wait != "block")


def test_the_library_says_that_a_secure_connection_is_one(measure: Runner) -> None:
    done = services.one_size(measure, "grpc:security=tls", "ranks 3", "pattern ring")
    assert done.code == 0, done.said
    assert done.said == ""
    for rank in services.settings_of(done):
        assert rank["security"] == "tls"
        assert rank["security_level"] == "TSI_PRIVACY_AND_INTEGRITY"


@pytest.mark.deep
@pytest.mark.parametrize("security", ["insecure", "tls"])
def test_nobody_reads_a_message_that_is_encrypted(measure: Runner, tmp_path: Path, security: str) -> None:
    """What a rank hands to the kernel, as strace shows it: its token is there in the clear, or it is not."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    log = tmp_path / "calls"
    text = f"netpipe-plan 1\nrecord -\nvariant grpc:security={security}\nschedule list\nsizes 8\nbudget 0.05\nend\n"
    done = subprocess.run(
        ["strace", "-f", "-e", "trace=sendmsg,sendto,write", "-s", "512", "-o", log, WORKER, "run"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sent = [line for line in log.read_text(errors="replace").splitlines() if "sendmsg(" in line]
    assert sent
    assert any("netpipe-token" in line for line in sent) == (security == "insecure")


def test_nothing_is_printed(measure: Runner) -> None:
    done = services.one_size(measure, "grpc")
    assert done.code == 0
    assert done.said == ""


def test_the_library_is_not_loaded_by_who_lists_the_layers(tmp_path: Path) -> None:
    """It brings fifty others along, which whoever asks for help would wait for."""
    loader = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(tmp_path / "process")}
    subprocess.run(
        [WORKER, "list"], capture_output=True, timeout=60, check=True, env={**os.environ, **loader}
    )
    said = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "/grpc.so" in said  # the module
    assert "libgrpc.so" not in said


@pytest.mark.parametrize(
    "variant", ["grpc", "grpc:api=unary,wait=poll", pytest.param("grpc:api=unary", marks=pytest.mark.deep)]
)
def test_a_rank_that_is_killed_ends_the_run_and_names_it(started: Starter, variant: str) -> None:
    process, _ = services.endless(started, variant)
    (peer,) = services.peers_of(process)
    os.kill(peer, signal.SIGKILL)
    code, said = services.ended(process)
    assert code == 4
    assert "rank 1" in said


@pytest.mark.parametrize(
    "variant", ["grpc", pytest.param("grpc:api=unary,wait=poll", marks=pytest.mark.deep)]
)
def test_an_interrupt_ends_it_and_keeps_what_was_measured(started: Starter, variant: str) -> None:
    process, path = services.endless(started, variant, 1 << 20)
    process.send_signal(signal.SIGINT)
    code, _ = services.ended(process)
    assert code == 130
    assert '"type":"sample"' in path.read_text()


def test_two_hosts_are_joined_over_their_own_link(site: Site) -> None:
    done = services.between_hosts(site, "grpc", "pingpong", "stream")
    services.check_both_hosts(done, 2 * 5)


@pytest.mark.deep
def test_sockets_of_one_host_are_refused_between_two(site: Site) -> None:
    done = services.between_hosts(site, "grpc:transport=unix")
    assert done.code == 2
    assert "transport=unix joins processes of one host and network namespace" in done.said
    assert not done.of("sample")


@pytest.mark.deep
def test_a_served_rank_is_refused_in_a_sentence(
    serve: Callable[..., Any], two_namespaces: tuple[str, str], tmp_path: Path
) -> None:
    code, said, records = services.over_serve(serve, two_namespaces, tmp_path, "grpc")
    assert code == 3, said
    assert "netpipe serve lets a module open no files, so measure with --hosts" in said
    assert not [one for one in records if one["type"] == "sample"]
