# SPDX-License-Identifier: Apache-2.0
"""A server that is flooded, short of descriptors or asked for what it cannot do; and a client of a server that falls
silent, whenever it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import WORKER, Outcome, Runner
from test_two_hosts import Serve, Server, plan, serve, token, wait_until_it_serves

__all__ = ["serve", "token"]  # fixtures

HERE = Path(__file__).parent
OPEN_ALONE = ("variant tcp", "pattern none", "schedule list", "sizes 8")  # nothing is measured


# ----------------------------------------------------------------------------------------------- floods


def hello_of_a_client(token: Path) -> bytes:
    """The first message that a client sends: the same for all but for its nonce."""
    text = ["netpipe-plan 1", "host 127.0.0.1", f"token-file {token}", "variant tcp", "end", ""]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        text.insert(1, f"port {listener.getsockname()[1]}")
        client = subprocess.Popen(
            [WORKER, "run"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert client.stdin is not None
        client.stdin.write("\n".join(text).encode())
        client.stdin.close()
        with listener.accept()[0] as caller:
            header = caller.recv(8, socket.MSG_WAITALL)
            hello = header + caller.recv(int.from_bytes(header[4:], "big"), socket.MSG_WAITALL)
        client.kill()
        client.wait(10)
    return hello


@contextlib.contextmanager
def flooded(server: Server, rate: int, first: str, addresses: int) -> Iterator[None]:
    hello = hello_of_a_client(server.token).hex()
    words = [server.host, server.port, hello, rate, first, addresses]
    flood = subprocess.Popen(
        [sys.executable, str(HERE / "flood.py"), *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        server.waits_to_say("refused: the token")
        yield
        assert flood.poll() is None
    finally:
        said, _ = flood.communicate(timeout=60)
        print(f"{rate} calls a second from {addresses} from {first}: {said}")


def assert_clients_get_in(server: Server, measure: Runner, clients: int, pause_s: float = 0) -> None:
    """One after the other, none refused. How fast is printed: on a busy machine it says nothing about the server."""
    seconds = []
    refusals = []
    for _ in range(clients):
        began = time.monotonic()
        done = measure(*plan(server, *OPEN_ALONE, "timeout 20"))
        if done.code == 0:
            seconds.append(round(time.monotonic() - began, 2))
        else:
            refusals.append(done.said)
        time.sleep(pause_s)
    print(f"{len(seconds)} of {clients} got in, {sum(one < 2 for one in seconds)} within 2 s: {seconds}")
    assert not refusals


@pytest.mark.parametrize(("rate", "addresses"), [(1000, 1), (200, 250)])
def test_honest_clients_get_in_under_a_flood_of_wrong_proofs(
    serve: Serve,
    measure: Runner,
    tmp_path: Path,
    rate: int,
    addresses: int,
) -> None:
    server = serve()
    with flooded(server, rate, "127.1.0.1", addresses):
        assert_clients_get_in(server, measure, 2)
        where = ("--host", server.host, "--port", str(server.port), "--token-file", str(server.token))
        short = ("--sizes", "8", "--budget", "0.1", "-o", str(tmp_path / "two.jsonl"))
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", "run", "--launches", "1", "tcp", *where, *short],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.deep
@pytest.mark.parametrize(
    ("rate", "first", "addresses"),
    [
        (20, "127.1.0.1", 1),
        (200, "127.1.0.1", 1),
        (1000, "127.1.0.1", 1),
        (200, "127.1.0.1", 250),
        (1000, "127.1.0.1", 250),
        (1000, "127.0.0.1", 1),  # the clients' own address
    ],
)
def test_twelve_honest_clients_get_in_under_any_flood(
    serve: Serve,
    measure: Runner,
    rate: int,
    first: str,
    addresses: int,
) -> None:
    server = serve()
    with flooded(server, rate, first, addresses):
        assert_clients_get_in(server, measure, 12, 0.4)


# ----------------------------------------------------------------------------------------------- descriptors


def refused(*words: str, config: Path, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "NETPIPE_TOKEN"}
    return subprocess.run(
        [*under, *words],
        env={**environment, "XDG_CONFIG_HOME": str(config)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--port", "99999"), 2, "--port: '99999' is not a port"),
        (("--bind", "999.1.1.1"), 2, "'999.1.1.1' is not an address to listen on"),
        (("--bind", "192.0.2.77"), 2, "192.0.2.77 is not an address of this host"),
        (("--bind", "x" * 100_000), 2, "--bind: a host name has at most 253 characters, this one 100000"),
        (("--max-size", "8Q"), 2, "--max-size: '8Q' is not a size"),
    ],
    ids=["port", "no address", "another host", "long name", "size"],
)
def test_a_server_that_cannot_start_says_so_and_makes_no_token(
    worker: Path, tmp_path: Path, options: tuple[str, ...], code: int, says: str
) -> None:
    config = tmp_path / "config"
    done = refused(sys.executable, "-m", "netpipe", "serve", *options, config=config)
    assert done.returncode == code
    assert done.stderr.startswith(f"netpipe: {says}")
    assert done.stderr.count("\n") == 1
    assert not config.exists()


def test_a_server_does_not_start_without_the_descriptors_that_it_needs(worker: Path, tmp_path: Path) -> None:
    few = ("prlimit", "--nofile=64:64")
    done = refused(str(worker), "serve", "--port", "0", config=tmp_path, under=few)
    assert done.returncode == 3
    assert "a server needs more open files than the 64 that this system gives a program" in done.stderr


# SIGPIPE was held back while it served, and ended it in the place of SIGTERM.
def test_a_server_whose_messages_nobody_reads_ends_as_it_should(worker: Path, token: Path) -> None:
    process = subprocess.Popen(
        [worker, "serve", "--port", "0", "--token-file", token],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    port = json.loads(process.stdout.readline())["port"]
    process.stderr.close()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
            stranger.sendall(b"no HELLO")
            assert stranger.recv(1) == b""
    process.terminate()
    assert process.wait(10) == 0
    process.stdout.close()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("left", [0, 8, 40])
def test_a_server_whose_descriptors_run_out_waits_and_goes_on(
    serve: Serve, measure: Runner, left: int
) -> None:
    server = serve()
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (left, before[1]))
    with contextlib.ExitStack() as strangers:
        for _ in range(60):
            strangers.enter_context(socket.create_connection((server.host, server.port), timeout=5))
        began = cpu_s(pid)
        time.sleep(1)
        assert cpu_s(pid) - began < 0.5
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    wait_until_it_serves(server, measure)


# ----------------------------------------------------------------------------------------------- silence

ACCEPT = 3  # it is the server's third answer; the first two are CHALLENGE and SERVER_PROOF


class Relay:
    """Between a client and a server, until the server is to be silent: then nothing comes through any more, and both
    connections stand. So many answers come through (None: all), `cut`: of the last one only its first message.
    """

    def __init__(self, server: Server, answers: int | None, cut: bool) -> None:
        self._server = server
        self._most = answers
        self._cut = cut
        self.answers = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        self._listener.settimeout(20)
        with (
            contextlib.suppress(OSError),  # nobody called, or a connection broke: the client says so
            self._listener.accept()[0] as near,
            socket.create_connection((self._server.host, self._server.port)) as far,
        ):
            near.setblocking(False)
            far.setblocking(False)
            self._pass_on(near, far)
            self._over.wait()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        asked = False
        while not self._over.wait(0.0005):
            with contextlib.suppress(BlockingIOError):
                words = near.recv(1 << 20)
                if not words:
                    return
                asked = True
                far.sendall(words)
            with contextlib.suppress(BlockingIOError):
                words = far.recv(1 << 20)
                if not words:
                    return
                self.answers += asked
                asked = False
                if self._most is not None and self.answers > self._most:
                    return
                if self._cut and self.answers == self._most:
                    near.sendall(words[: 8 + int.from_bytes(words[4:8], "big")])
                    return
                near.sendall(words)


def relayed(
    server: Server, measure: Runner, answers: int | None, *lines: str, cut: bool = False
) -> tuple[Outcome, int]:
    """A run against a server that falls silent after so many answers; how it ended and how many answers it got."""
    relay = Relay(server, answers, cut)
    began = time.monotonic()
    try:
        done = measure(*plan(server, f"port {relay.port}", *lines), limit_s=40)
    finally:
        relay.close()
    seconds = time.monotonic() - began
    print(f"silent after {answers} answers{' (cut)' if cut else ''}: exit {done.code} in {seconds:.1f} s")
    return done, relay.answers


@pytest.mark.parametrize(
    ("answers", "code"),
    [(0, 3), pytest.param(1, 3, marks=pytest.mark.deep), pytest.param(2, 3, marks=pytest.mark.deep)],
)
def test_a_server_that_falls_silent_in_the_handshake_costs_the_timeout(
    serve: Serve,
    measure: Runner,
    answers: int,
    code: int,
) -> None:
    done, _ = relayed(serve(), measure, answers, *OPEN_ALONE, "timeout 1")
    assert done.code == code
    assert "said nothing" in done.said


# Before it has told its environment, and while it opens the variants.
@pytest.mark.parametrize("cut", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_server_that_falls_silent_after_it_has_accepted_is_given_up(
    serve: Serve,
    measure: Runner,
    cut: bool,
) -> None:
    variants = ("variant tcp", "variant tcp:nodelay=no", "variant tcp:streams=2")  # it is waited for once
    done, _ = relayed(serve(), measure, ACCEPT, *variants, *OPEN_ALONE[1:], "timeout 1", cut=cut)
    assert done.code == 4
    assert done.said.count("gave up waiting for rank 1") == 1


@pytest.mark.deep
@pytest.mark.parametrize("pattern", ["none", "pingpong", "offered"])
def test_a_server_that_falls_silent_at_any_moment_is_given_up(
    serve: Serve,
    measure: Runner,
    pattern: str,
) -> None:
    lines = ("variant tcp", f"pattern {pattern}", *OPEN_ALONE[2:], "budget 0.1", "timeout 1")
    server = serve()
    whole, most = relayed(server, measure, None, *lines)
    assert whole.code == 0
    points = sorted({*range(ACCEPT + 1, min(ACCEPT + 5, most)), most - 2, most - 1})
    for answers in points:
        wait_until_it_serves(server, measure)
        done, heard = relayed(server, measure, answers, *lines)
        # What is silent at the very end has said all that was asked for; and a run may need fewer answers than another.
        assert done.code == 4 or (done.code == 0 and (heard < answers or heard >= most - 3)), (
            answers,
            done.said,
        )


@pytest.mark.deep
def test_a_server_that_is_stopped_at_any_moment_is_given_up(serve: Serve, measure: Runner) -> None:
    """Its measuring process, that is: the connections of the module are silent too."""
    server = serve()
    for i in range(12):
        wait_until_it_serves(server, measure)
        stopped = threading.Timer(0.2 + 0.15 * i, stop_children_of, [server.process.pid])
        stopped.start()
        began = time.monotonic()
        done = measure(
            *plan(
                server,
                "variant tcp",
                "pattern offered",
                "sizes 8,1k",
                "schedule list",
                "budget 2",
                "timeout 1",
            ),
            limit_s=40,
        )
        stopped.join()
        print(
            f"stopped after {0.2 + 0.15 * i:.2f} s: exit {done.code} after {time.monotonic() - began:.1f} s"
        )
        assert done.code in (3, 4), done.said


def stop_children_of(pid: int) -> None:
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        os.kill(int(child), signal.SIGSTOP)
