# SPDX-License-Identifier: Apache-2.0
"""One host serves, the other measures: over loopback, and between two network namespaces with a link of their own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import WORKER, Outcome, Runner, Starter, parse, wait_for_samples


@dataclass
class Server:
    process: subprocess.Popen[str]
    port: int
    host: str
    token: Path
    log: Path

    def said(self) -> str:
        return self.log.read_text()

    def waits_to_say(self, words: str) -> None:
        for _ in range(200):
            if words in self.said():
                return
            time.sleep(0.05)
        raise AssertionError(f"the server never said {words!r} but: {self.said()}")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(secrets.token_hex(16))
    return path


Serve = Callable[..., Server]


@pytest.fixture
def serve(worker: Path, token: Path, tmp_path: Path) -> Iterator[Serve]:
    with contextlib.ExitStack() as stack:

        def start(*options: str, inside: tuple[str, ...] = ()) -> Server:
            log = tmp_path / f"server-{secrets.token_hex(4)}.log"
            errors = stack.enter_context(log.open("w"))
            process = subprocess.Popen(
                [*inside, worker, "serve", "--port", "0", "--token-file", token, *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

            def end() -> None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait(10)
                assert process.stdout is not None
                process.stdout.close()

            stack.callback(end)
            assert process.stdout is not None
            listening = json.loads(process.stdout.readline())
            return Server(process, listening["port"], listening["host"], token, log)

        yield start


def plan(server: Server, *lines: str, token: Path | None = None) -> list[str]:
    return [f"host {server.host}", f"port {server.port}", f"token-file {token or server.token}", *lines]


def quick(server: Server, measure: Runner, *lines: str) -> Outcome:
    return measure(*plan(server, "variant tcp", "schedule list", "sizes 1,8,65536", "budget 0.2", *lines))


def wait_until_it_serves(server: Server, measure: Runner) -> None:
    """It may take a moment to notice that a client has gone."""
    for _ in range(100):
        done = quick(server, measure)
        if done.code == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"the server did not come back: {done.said} / {server.said()}")


def test_two_hosts_measure_and_check_every_byte(serve: Serve, measure: Runner) -> None:
    server = serve()
    for pattern in ("pingpong", "stream"):
        done = quick(server, measure, f"pattern {pattern}", "verify yes")
        assert done.code == 0, done.said
        assert len(done.of("point", pattern=pattern)) == 3
        assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    (variant,) = done.of("variant")
    assert [rank["rank"] for rank in variant["ranks"]] == [0, 1]
    assert [e["rank"] for e in done.of("environment")] == [0, 1]


def test_a_wrong_token_is_refused_and_the_server_goes_on(
    serve: Serve, measure: Runner, tmp_path: Path
) -> None:
    server = serve()
    wrong = tmp_path / "wrong"
    wrong.touch(0o600)
    wrong.write_text(secrets.token_hex(16))
    done = measure(*plan(server, "variant tcp", "budget 0.1", token=wrong))
    assert done.code == 2
    assert "token" in done.said
    assert not done.of("sample")
    assert quick(server, measure).code == 0


def test_the_token_is_never_on_the_wire(serve: Serve, token: Path) -> None:
    """What a listener in the middle sees of a whole handshake contains neither the token nor its hex."""
    server = serve()
    relay = socket.create_server(("127.0.0.1", 0))
    seen = bytearray()
    client = subprocess.Popen(
        [WORKER, "run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert client.stdin is not None
    port = relay.getsockname()[1]
    client.stdin.write(
        f"netpipe-plan 1\nhost 127.0.0.1\nport {port}\ntoken-file {token}\n"
        "variant tcp\nschedule list\nsizes 8\nbudget 0.1\nend\n"
    )
    client.stdin.flush()
    relay.settimeout(10)
    with relay, relay.accept()[0] as near, socket.create_connection(("127.0.0.1", server.port)) as far:
        for one in (near, far):
            one.settimeout(0.02)
        deadline = time.monotonic() + 20
        while client.poll() is None and time.monotonic() < deadline:
            for source, target in ((near, far), (far, near)):
                with contextlib.suppress(TimeoutError, OSError):
                    data = source.recv(65536)
                    seen += data
                    target.sendall(data)
    client.kill()
    client.wait(10)
    client.stdin.close()
    secret = token.read_text().strip().encode()
    assert len(seen) > 200
    assert secret not in seen
    assert bytes.fromhex(secret.decode()) not in seen


def test_a_second_client_is_told_busy_at_once(serve: Serve, measure: Runner, started: Starter) -> None:
    server = serve()
    first, path = started(*plan(server, "variant tcp", "budget 20"))
    wait_for_samples(path)
    done = quick(server, measure)
    assert done.code == 3
    assert "busy" in done.said
    assert first.poll() is None


def test_a_client_that_is_killed_leaves_the_server_serving(
    serve: Serve, measure: Runner, started: Starter
) -> None:
    server = serve()
    client, path = started(*plan(server, "variant tcp", "budget 20", "timeout 1"))
    wait_for_samples(path)
    client.kill()
    client.wait(10)
    wait_until_it_serves(server, measure)


def test_a_server_that_is_killed_ends_the_client_in_a_sentence(serve: Serve, started: Starter) -> None:
    server = serve()
    client, path = started(*plan(server, "variant tcp", "budget 20", "timeout 2"))
    wait_for_samples(path)
    os.killpg(server.process.pid, signal.SIGKILL)
    for child in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if child.read_text().rsplit(")", 1)[1].split()[1] == str(server.process.pid):
                os.kill(int(child.parent.name), signal.SIGKILL)
    assert client.wait(20) == 4
    errors = [r for r in parse(path.read_text()) if r["type"] == "error"]
    # In the middle of a visit its layer says so, between two visits the worker.
    assert any(re.search(r"rank 1( on \S+)? has gone", e["message"]) for e in errors), errors


def test_what_a_client_may_ask_for_is_bounded(serve: Serve, measure: Runner) -> None:
    server = serve("--max-size", "1M", "--max-memory", "64M")
    done = measure(*plan(server, "variant tcp", "schedule list", "sizes 2M", "budget 0.1"))
    assert done.code == 2
    assert "above this server's limit" in done.said
    assert quick(server, measure).code == 0


@pytest.mark.deep
def test_a_measurement_that_takes_too_long_is_ended_by_the_server(serve: Serve, measure: Runner) -> None:
    server = serve("--max-seconds", "2")
    done = measure(*plan(server, "variant tcp", "budget 60", "timeout 2"))
    assert done.code == 4
    assert done.of("sample")
    wait_until_it_serves(server, measure)


def test_strangers_and_garbage_do_not_stop_the_server(serve: Serve, measure: Runner) -> None:
    server = serve()
    held = []
    for i in range(40):
        one = socket.create_connection((server.host, server.port), timeout=5)
        with contextlib.suppress(OSError):
            one.sendall([b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\xff" * 100000][i % 4])
        held.append(one)
    for one in held[::2]:
        one.close()
    wait_until_it_serves(server, measure)
    for one in held:
        one.close()
    assert server.process.poll() is None


def test_a_port_that_is_taken_is_said(worker: Path, token: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [worker, "serve", "--port", str(port), "--token-file", token],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 3
    assert str(port) in done.stderr
    assert "--port" in done.stderr


def test_a_token_that_cannot_be_read_is_said_before_anything_else(worker: Path, tmp_path: Path) -> None:
    """`netpipe serve` asks with --check before it prints what to do on the other host. A pipe gives a token once."""

    def check(file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [worker, "serve", "--check", "--port", "0", "--token-file", file],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    missing = check(tmp_path / "missing")
    assert missing.returncode == 2
    assert f"the token file {tmp_path / 'missing'} cannot be read" in missing.stderr
    short = tmp_path / "short"
    short.write_text("secret")
    short.chmod(0o600)
    assert "has 6 characters" in check(short).stderr
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert check(pipe).returncode == 0


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [("host no-such-host.invalid", 3, "no-such-host.invalid"), ("port 1", 3, "127.0.0.1")],
)
def test_a_host_that_does_not_answer_is_said(
    measure: Runner, token: Path, line: str, code: int, says: str
) -> None:
    done = measure("host 127.0.0.1", line, f"token-file {token}", "variant tcp", "timeout 5")
    assert done.code == code, done.said
    assert says in done.said


def test_a_module_that_stays_on_one_host_is_refused(serve: Serve, measure: Runner) -> None:
    server = serve()
    done = measure(*plan(server, "variant shm", "budget 0.1"))
    assert done.code == 2
    assert "stays on one host" in done.said


def namespaces_work() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"np{secrets.token_hex(3)}"
    if (
        subprocess.run(["ip", "netns", "add", name], capture_output=True, timeout=20, check=False).returncode
        != 0
    ):
        return False
    subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20, check=False)
    return True


@pytest.fixture
def two_namespaces() -> Iterator[tuple[str, str]]:
    """Two hosts of their own with a link between them: 10.77.0.1 and 10.77.0.2."""
    if not namespaces_work():
        pytest.skip("network namespaces need root, iproute2 and a kernel that lets us make them")
    tag = secrets.token_hex(3)
    a, b = f"npa{tag}", f"npb{tag}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)

    try:
        ip("netns", "add", a)
        ip("netns", "add", b)
        ip("link", "add", f"va{tag}", "netns", a, "type", "veth", "peer", "name", f"vb{tag}", "netns", b)
        for name, link, address in ((a, f"va{tag}", "10.77.0.1/24"), (b, f"vb{tag}", "10.77.0.2/24")):
            ip("-n", name, "addr", "add", address, "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield a, b
    finally:
        for name in (a, b):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20, check=False)


@pytest.mark.gate
def test_two_namespaces_measure_over_their_own_link(
    serve: Serve, two_namespaces: tuple[str, str], tmp_path: Path
) -> None:
    near, far = two_namespaces
    server = serve("--bind", "10.77.0.2", inside=("ip", "netns", "exec", far))
    path = tmp_path / "two.jsonl"
    text = "\n".join(
        [
            "netpipe-plan 1",
            f"record {path}",
            *plan(server, "variant tcp", "variant tcp:streams=3", "pattern pingpong", "pattern stream"),
            "schedule list",
            "sizes 1,8,1500,65536,1048576",
            "verify yes",
            "budget 0.5",
            "end",
            "",
        ]
    )
    done = subprocess.run(
        ["ip", "netns", "exec", near, WORKER, "run"],
        input=text,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = parse(path.read_text())
    points = [r for r in records if r["type"] == "point"]
    assert len(points) == 2 * 2 * 5
    assert all(p["verified_bytes"] > 0 for p in points)
    settings = [rank["settings"] for r in records if r["type"] == "variant" for rank in r["ranks"]]
    assert any("10.77.0.1" in json.dumps(s) for s in settings)


def test_hosts_whose_clocks_are_hours_apart_are_compared_before_they_time_one_way(
    serve: Serve, measure: Runner
) -> None:
    """The server lives in a time namespace of its own, so its monotonic clock shows another time. Latencies from one
    clock to the other are one way, and would be off by all of it.
    """
    hours_s = 12345
    elsewhere = ("unshare", "--time", "--monotonic", str(hours_s), "--fork")
    if os.geteuid() != 0 or subprocess.run([*elsewhere, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root and time namespaces (Linux 5.6, unshare of util-linux 2.36)")
    server = serve(inside=elsewhere)
    done = quick(server, measure, "pattern offered:rate=2000")
    assert done.code == 0, done.said
    for point in done.of("point"):
        if point["type"] != "point":
            continue
        measures = {one["name"]: one["median"] for one in point["measures"]}
        assert 0 < measures["clock_error"] < 1e9
        # No message arrives before it has left, but for the error of the clocks.
        assert -measures["clock_error"] <= point["median_ns"] < hours_s * 1e9 / 100


def test_a_client_that_falls_silent_is_given_up_after_the_deadline(
    serve: Serve, measure: Runner, started: Starter
) -> None:
    server = serve()
    client, path = started(*plan(server, "variant tcp", "budget 20", "timeout 1"))
    wait_for_samples(path)
    client.send_signal(signal.SIGSTOP)  # its kernel still answers, the process does not
    server.waits_to_say("silent")
    assert quick(server, measure).code == 0
