# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""PVM between two hosts, which are network namespaces: both routes, a daemon that does not start, a host that dies, and
no daemon left. A script stands in for ssh (test_hosts.py). More hosts, with an ssh of their own, are in
test_many_hosts.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import services
from conftest import Runner, parse, wait_for_samples
from machines import TwoHosts, clear, open_folder, pids_on, two_hosts, wait_until  # noqa: F401
from test_hosts import FAR, LIMIT_S, NEAR, Site, next_part, refused, site  # noqa: F401
from test_two_hosts import token, two_namespaces  # noqa: F401

from netpipe.libraries.daemons import FOLDERS

pytestmark = pytest.mark.module("pvm")

DAEMON, DIRECT, IN_PLACE = "pvm", "pvm:route=direct", "pvm:route=direct,encoding=inplace,wait=poll"
SIZES = (0, 1, 4081, 65537, 1048576)
NOT_STARTED = f"the PVM daemon on {FAR} did not start: "


@pytest.fixture(scope="module", autouse=True)
def _layer(listing: dict[str, Any]) -> None:
    services.skip_without(listing, "pvm")


@pytest.fixture(autouse=True)
def short_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In which the daemons of both hosts have their folders: names of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="pvm-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        for name in [name for name in os.environ if name.startswith("PVM")]:
            monkeypatch.delenv(name)
        yield Path(folder)


def left(folder: Path) -> list[Path]:
    return list(folder.glob(f"{FOLDERS}*"))


def daemons_on(name: str) -> list[int]:
    return [pid for pid in pids_on(name) if Path(f"/proc/{pid}/comm").read_text().strip() == "pvmd"]


def test_both_routes_deliver_every_byte_over_the_link_between_two_hosts(
    site: Site, short_folder: Path
) -> None:
    sizes = ",".join(map(str, SIZES))
    variants = (DAEMON, DIRECT, IN_PLACE)
    patterns = ("--pattern", "pingpong", "--pattern", "stream")
    done = site.run(*variants, *patterns, "--sizes", sizes, "--budget", "0.5", "--verify")
    assert done.code == 0, done.said
    assert {(p["variant"], p["pattern"], p["size_bytes"]) for p in done.of("point")} == {
        (variant, pattern, size)
        for variant in variants
        for pattern in ("pingpong", "stream")
        for size in SIZES
    }
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"])
    # One remote shell for the daemon, one for the rank.
    assert [call.split()[0] for call in site.calls] == [FAR, FAR]
    site.sees_nothing_left()
    assert left(short_folder) == []


def test_a_run_says_what_the_messages_went_over(site: Site) -> None:
    done = site.run(DAEMON, DIRECT, "--sizes", "8", "--budget", "0.1")
    assert done.code == 0, done.said
    expected = {DAEMON: ("udp", "3", "AF_UNIX"), DIRECT: ("tcp", "1", "AF_INET")}
    for opened in done.of("variant"):
        below, sockets, family = expected[opened["variant"]]
        assert opened["below"] == below
        settings = [rank["settings"] for rank in opened["ranks"]]
        assert {one["sockets_on_the_way"] for one in settings} == {sockets}
        assert {one["socket_family"] for one in settings} == {family}
        addresses = [(one["local_address"], one["peer_address"]) for one in settings]
        assert addresses == [(NEAR, FAR), (FAR, NEAR)]


@pytest.mark.deep
def test_ranks_of_one_host_and_of_two_talk_at_once(site: Site) -> None:
    done = site.run(
        *("pvm:ranks=4", "pvm:route=direct,ranks=4", DIRECT),
        *("--pattern", "incast", "--sizes", "0,8,65537", "--budget", "0.5", "--verify"),
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 9
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"])
    site.sees_nothing_left()


# ------------------------------------------------------------------------------------------------------ refusals


def test_a_host_without_pvm_is_named_with_what_to_do(site: Site, short_folder: Path) -> None:
    hidden = (
        'unshare -m sh -c \'mount --bind /dev/null "$(readlink -f /usr/lib/pvm3/lib/pvmd)" && exec "$@"\' sh'
    )
    site.ssh(hidden)
    said = refused(site, DAEMON, "--sizes", "8")
    assert f"{NOT_STARTED}it ended at once; it said: /usr/lib/pvm3/lib/pvmd does not exist on {FAR}; " in said
    assert "install PVM at the same path on all hosts" in said
    assert left(short_folder) == []


def test_a_host_that_is_not_reached_is_named_with_what_ssh_said(site: Site) -> None:
    site.ssh(text='#!/bin/sh\necho "ssh: connect to host $1 port 22: No route to host" >&2\nexit 255\n')
    said = refused(site, DAEMON, "--sizes", "8")
    assert f"{NOT_STARTED}it ended at once; it said: ssh: connect to host {FAR} port 22: No route" in said


def test_a_daemon_that_cannot_have_its_address_says_so(site: Site, short_folder: Path) -> None:
    elsewhere = "10.77.0.9"  # which the host that is reached by this name does not have
    said = refused(site, DAEMON, "--sizes", "8", code=4, hosts=f"{NEAR},{elsewhere}")
    assert f"the PVM daemon on {elsewhere} did not start: it ended at once; it said: " in said
    assert "Cannot assign requested address" in said
    assert left(short_folder) == []


def test_a_server_has_no_daemon_and_says_so(measure: Runner, token: Path) -> None:
    done = measure("host 127.0.0.1", "port 1", f"token-file {token}", "variant pvm", "sizes 8")
    assert done.code == 2, done.said
    assert (
        "module pvm needs daemons, which netpipe serve does not start; measure it with --hosts" in done.said
    )


# ------------------------------------------------------------------------------------------------------ faults


def under_way(site: Site, variant: str) -> subprocess.Popen[str]:
    settings = ("--sizes", "8,65536", "--budget", "60", "--target", "0.01%", "--timeout", "3")
    process = site.start(variant, *settings)
    wait_for_samples(next_part(site), 4)
    assert len(daemons_on(site.near)) == len(daemons_on(site.far)) == 1
    return process


def kill_the_host(site: Site) -> str:
    clear(site.far)
    return f"on {FAR}"


def cut_the_link(site: Site) -> str:
    """Packets leave to a card that nobody has, as after a cable is pulled out behind a switch."""
    for name, card in ((site.near, FAR), (site.far, NEAR)):
        link = f"v{name[2:]}"
        nobody = ("neigh", "replace", card, "lladdr", "02:00:00:00:00:99", "dev", link, "nud", "permanent")
        subprocess.run(["ip", "-n", name, *nobody], check=True, timeout=20)
    return f"rank 1 on {FAR}"


def kill_the_far_daemon(site: Site) -> str:
    os.kill(daemons_on(site.far)[0], signal.SIGKILL)
    return f"the PVM daemon ended during the run: the one on {FAR}"


def tell_the_far_daemon_to_end(site: Site) -> str:
    os.kill(daemons_on(site.far)[0], signal.SIGTERM)
    return f"the PVM daemon ended during the run: the one on {FAR} said: catch() caught signal 15"


def kill_the_near_daemon(site: Site) -> str:
    os.kill(daemons_on(site.near)[0], signal.SIGKILL)
    return "the PVM daemon ended during the run"


@pytest.mark.parametrize(
    ("variant", "fault"),
    [
        (DAEMON, kill_the_host),
        (DIRECT, kill_the_far_daemon),
        pytest.param(DIRECT, kill_the_host, marks=pytest.mark.deep),
        pytest.param(DIRECT, cut_the_link, marks=pytest.mark.deep),
        pytest.param(DAEMON, cut_the_link, marks=pytest.mark.deep),
        pytest.param(DAEMON, kill_the_far_daemon, marks=pytest.mark.deep),
        pytest.param(DAEMON, tell_the_far_daemon_to_end, marks=pytest.mark.deep),
        pytest.param(DAEMON, kill_the_near_daemon, marks=pytest.mark.deep),
        pytest.param(DIRECT, kill_the_near_daemon, marks=pytest.mark.deep),
    ],
)
def test_what_dies_during_the_run_fails_it_and_nothing_stays(
    site: Site, short_folder: Path, variant: str, fault: Callable[[Site], str]
) -> None:
    process = under_way(site, variant)
    says = fault(site)
    done = site.end(process)
    assert done.code == 4, done.said
    assert says in done.said
    assert done.of("error")
    assert done.of("sample"), "what was measured before is kept"
    site.sees_nothing_left()
    if fault is not kill_the_host:  # nobody is left there to remove it
        assert left(short_folder) == []


@pytest.mark.parametrize("variant", [DAEMON, pytest.param(DIRECT, marks=pytest.mark.deep)])
def test_an_interrupt_leaves_no_daemon_on_either_host(site: Site, short_folder: Path, variant: str) -> None:
    process = under_way(site, variant)
    process.send_signal(signal.SIGINT)
    done = site.end(process)
    assert done.code == 130, done.said
    site.sees_nothing_left()
    assert left(short_folder) == []


def test_a_netpipe_that_is_killed_leaves_no_daemon_on_either_host(site: Site) -> None:
    process = under_way(site, DAEMON)
    process.kill()
    site.end(process)
    site.sees_nothing_left()


# ------------------------------------------------------------------------------------------------------ a real ssh


def over_ssh(hosts: TwoHosts, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    run = (sys.executable, "-m", "netpipe", "run", "--launches", "1", DAEMON, DIRECT, *arguments)
    options = ("--hosts", f"{hosts.near},{hosts.far}", "--remote-shell", hosts.ssh)
    return subprocess.Popen(
        hosts.inside(*run, *options, "-o", str(folder / "run.jsonl")),
        cwd=folder,
        env={**os.environ, "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.deep
def test_ssh_starts_the_daemon_of_the_other_host(
    two_hosts: TwoHosts, tmp_path: Path, short_folder: Path
) -> None:
    before = two_hosts.carried_bytes()
    with over_ssh(two_hosts, tmp_path, "--verify", "--sizes", "1,8,65536", "--budget", "0.2") as process:
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    points = [one for one in parse((tmp_path / "run.jsonl").read_text()) if one["type"] == "point"]
    verified = sum(point["verified_bytes"] for point in points)
    assert len(points) == 6
    assert two_hosts.carried_bytes() - before > verified > 0
    wait_until(lambda: two_hosts.left() == [], "nothing is left", 20)
    assert left(short_folder) == []


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ssh_leaves_no_daemon_on_the_other_host(
    two_hosts: TwoHosts, tmp_path: Path, number: signal.Signals
) -> None:
    with over_ssh(two_hosts, tmp_path, "--sizes", "8", "--budget", "60", "--target", "0.01%") as process:
        wait_for_samples(next_part(Site("", "", tmp_path)))
        assert any("pvmd" in words for words in two_hosts.left() if two_hosts.far in words)
        process.send_signal(number)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode in (130, -signal.SIGKILL)
    wait_until(lambda: two_hosts.left() == [], "nothing is left", 20)
