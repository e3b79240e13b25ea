# SPDX-License-Identifier: Apache-2.0
"""What follows ACCEPT between a client and a server: what somebody on the path can do, what somebody who knows the
token can do, and what the process that serves could do if it were taken over.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from between import REPORT_BYTES, Between, Command
from conftest import WORKER, Outcome, Runner, Starter, wait_for_samples
from test_two_hosts import Serve, Server, plan, quick, serve, token, wait_until_it_serves

__all__ = ["serve", "token"]  # fixtures

QUICK = ("variant tcp", "schedule list", "sizes 1,8,65536", "budget 0.2")


@contextlib.contextmanager
def between(server: Server, **what: object) -> Iterator[Between]:
    relay = Between((server.host, server.port), **what)  # type: ignore[arg-type]
    try:
        yield relay
    finally:
        relay.close()


def through(relay: Between, server: Server, measure: Runner, *lines: str) -> Outcome:
    return measure("host 127.0.0.1", f"port {relay.port}", f"token-file {server.token}", *QUICK, *lines)


def secret(server: Server) -> bytes:
    return server.token.read_text().strip().encode()


class Nth:
    """Of the frames of one side, one is treated in another way than all others."""

    def __init__(self, who: str, number: int, change: Callable[[bytes], bytes]) -> None:
        self.who, self.number, self.change = who, number, change
        self.seen = 0

    def __call__(self, who: str, frame: bytes) -> bytes:
        if who != self.who:
            return frame
        self.seen += 1
        return self.change(frame) if self.seen == self.number else frame


# ------------------------------------------------------------------------------------------------ without the token


def injected(frame: bytes) -> bytes:
    """Before an honest frame, a command to visit a size that the plan does not have."""
    command = Command(Command.VISIT, 0, 0, 5 << 20, 1, 1, 1, 1_000_000_000).bytes()
    return len(command).to_bytes(4, "big") + command + bytes(16) + frame


ATTACKS: dict[str, Callable[[bytes], bytes]] = {
    "forwarded": lambda frame: frame,
    "injected": injected,
    "injected in the clear": lambda frame: (
        Command(Command.VISIT, 0, 0, 5 << 20, 1, 1, 1, 10**9).bytes() + frame
    ),
    "altered": lambda frame: frame[:8] + bytes([frame[8] ^ 1]) + frame[9:],
    "altered tag": lambda frame: frame[:-1] + bytes([frame[-1] ^ 0x80]),
    "replayed": lambda frame: frame + frame,
    "dropped": lambda _: b"",
    "longer": lambda frame: b"\xff\xff\xff\xff" + frame[4:],
    "empty": lambda frame: bytes(4) + frame[4:],
}


@pytest.mark.parametrize(
    "attack",
    # it waits
    [pytest.param(name, marks=pytest.mark.deep) if name == "dropped" else name for name in ATTACKS],
)
@pytest.mark.parametrize("who", ["client", "server"])
def test_somebody_on_the_path_without_the_token_only_ends_it(
    serve: Serve, measure: Runner, who: str, attack: str
) -> None:
    server = serve()
    # The frames of a client: open, two texts of each step. Those of a server: its facts, its answers to these.
    with between(server, on_wire=Nth(who, 7, ATTACKS[attack])) as relay:
        # nothing but time tells that something is missing
        patience = "timeout 2" if attack == "dropped" else "timeout 5"
        done = through(relay, server, measure, patience)
    if attack == "forwarded":
        assert done.code == 0, done.said
        return
    assert done.code == 4, done.said
    wait_until_it_serves(server, measure)
    said = done.said if who == "server" else server.said()
    name = "rank 1 on 127.0.0.1" if who == "server" else "the client 127.0.0.1"
    assert f"what arrived from {name} does not carry the tag of this conversation" in said
    assert "signal" not in server.said()


def test_what_one_side_said_is_not_taken_from_the_other(serve: Serve, measure: Runner) -> None:
    server = serve()
    kept: list[bytes] = []

    def reflect(who: str, frame: bytes) -> bytes:
        if who == "client":
            kept.append(frame)
        elif len(kept) > 2:
            return kept.pop()
        return frame

    with between(server, on_wire=reflect) as relay:
        done = through(relay, server, measure)
    assert done.code == 4
    assert "does not carry the tag of this conversation" in done.said
    wait_until_it_serves(server, measure)


# ------------------------------------------------------------------------------------------------- with the token


def changed(**fields: int) -> Callable[[str, bytes], bytes]:
    """The fields of the third visit."""
    visits = 0

    def change(who: str, payload: bytes) -> bytes:
        nonlocal visits
        command = Command.of(payload) if who == "client" else None
        if command is None or command.verb != Command.VISIT:
            return payload
        visits += 1
        if visits == 3:
            for name, value in fields.items():
                setattr(command, name, value)
        return command.bytes()

    return change


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("size_bytes", 5 << 20, "messages of 5242880 bytes"),
        ("variant", 1, "variant 1 of 1"),
        ("pattern", 1, "pattern 1 of 1"),
        ("samples", 1 << 40, "1099511627776 samples in a visit"),
        ("rounds", 1 << 62, "4611686018427387904 rounds in a sample"),
        ("deadline_ns", -1, "a deadline of -1 ns"),
        ("verb", -5, "verb -5"),
        ("verb", 2, "variant tcp is open already"),
    ],
)
def test_a_command_that_the_plan_does_not_have_ends_the_rank_in_a_sentence(
    serve: Serve, measure: Runner, field: str, value: int, says: str
) -> None:
    server = serve()
    with between(server, token=secret(server), opened=changed(**{field: value})) as relay:
        done = through(relay, server, measure)
    assert done.code == 4, done.said
    server.waits_to_say(f"the client 127.0.0.1 sent a command that the plan does not have: {says}")
    assert "signal" not in server.said()
    assert quick(server, measure).code == 0


def report(change: Callable[[bytes], bytes]) -> Callable[[str, bytes], bytes]:
    """Changes the reports of a server, from the third on."""
    seen = 0

    def changes(who: str, payload: bytes) -> bytes:
        nonlocal seen
        if who != "server" or len(payload) != REPORT_BYTES:
            return payload
        seen += 1
        return change(payload) if seen >= 3 else payload

    return changes


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: b"\x63" + r[1:], "sent a report with the status 99"),
        (lambda r: r[:4] + b"\x09" + r[5:], "sent a report with the cause 9"),
        (lambda r: r[:20] + b"\xff\xff\xff\xff" + r[24:], "4294967295 counters"),
        (lambda r: r[:24] + b"\xff\xff\xff\xff" + r[28:], "4294967295 losses"),
        (lambda r: b"\x04" + r[1:40] + b"\x1b]0;owned\x07" * 34 + b"xxxxxxxxxx", "?]0;owned?"),
    ],
)
def test_a_report_that_cannot_be_is_refused_and_names_the_server(
    serve: Serve, measure: Runner, change: Callable[[bytes], bytes], says: str
) -> None:
    server = serve()
    with between(server, token=secret(server), opened=report(change)) as relay:
        done = through(relay, server, measure)
    assert done.code == 4, done.said
    assert says in done.said
    assert "\x1b" not in done.said
    if "owned" not in says:
        assert "rank 1 on 127.0.0.1" in done.said


FORGED = '{"type":"point","launch":0,"variant":"tcp","pattern":"pingpong","size_bytes":1,"median_ns":1}'


def facts(new: bytes) -> Callable[[str, bytes], bytes]:
    """Another text in the place of the server's facts: its length, then the text."""
    frames = 0

    def change(who: str, payload: bytes) -> bytes:
        nonlocal frames
        if who != "server":
            return payload
        frames += 1
        if frames == 1:
            return len(new).to_bytes(4, "little")
        return new if frames == 2 else payload

    return change


@pytest.mark.parametrize(
    "text",
    [
        f'{{"cpu":1}}\n{FORGED}',
        f'{{"cpu":1}}}}\n{FORGED}\n{{"a":{{"b":1}}',
        "no JSON at all \x1b[2J",
        '{"a":' + "[" * 60_000,
        " ",
    ],
)
def test_facts_that_are_not_json_fail_and_name_the_server(serve: Serve, measure: Runner, text: str) -> None:
    server = serve()
    with between(server, token=secret(server), opened=facts(text.encode())) as relay:
        done = through(relay, server, measure)
    assert done.code == 4
    assert "rank 1 on 127.0.0.1 sent facts about its host that are not a JSON object" in done.said
    assert not done.of("point")
    wait_until_it_serves(server, measure)


def test_facts_can_forge_no_line_of_a_run_file(serve: Serve, measure: Runner) -> None:
    server = serve()
    sly = {"type": "point", "note": f"x\n{FORGED}\n", "esc": "\x1b[2J\x9b31m", "\n" + FORGED: 1}
    text = json.dumps(sly, ensure_ascii=False).encode()
    with between(server, token=secret(server), opened=facts(text)) as relay:
        done = through(relay, server, measure)
    assert done.code == 0, done.said
    assert len(done.of("point")) == 3
    assert all(point["median_ns"] > 1 for point in done.of("point"))
    (theirs,) = done.of("environment", rank=1)
    assert theirs["facts"] == sly, "as a text it is still all there"


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        (b'"retransmits"', "rank 1 sent malformed counters"),
        (b'"settings"', "rank 1 sent malformed facts about its endpoint"),
    ],
)
def test_other_texts_of_a_server_can_forge_no_line_either(
    serve: Serve, measure: Runner, mark: bytes, says: str
) -> None:
    def change(who: str, payload: bytes) -> bytes:
        if who != "server" or mark not in payload:
            return payload
        keep = payload[: payload.rindex(b"\n") + 1] if b"\n" in payload else b""
        return (keep + f"{{}}\n{FORGED}\n".encode() + b" " * len(payload))[: len(payload)]

    server = serve()
    with between(server, token=secret(server), opened=change) as relay:
        done = through(relay, server, measure)
    assert done.code in (3, 4), done.said
    assert says in done.said
    assert all(point["median_ns"] > 1 for point in done.of("point"))


# -------------------------------------------------------------------------------------- the process that serves


def serving(server: Server) -> int:
    (child,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return int(child)


def status(pid: int, name: str) -> str:
    match = re.search(rf"^{name}:\s*(\S+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def addresses(pid: int) -> set[str]:
    """Where the program and its stack begin."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {next(one for one in lines if name in one).split("-")[0] for name in ("netpipe-worker", "[stack]")}


def holds(pid: int, text: bytes) -> bool:
    """Does its memory have this text anywhere?"""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end = (int(one, 16) for one in line.split()[0].split("-"))
            if "r" not in line.split()[1] or "[v" in line or end - begin > 1 << 28:
                continue
            memory.seek(begin)
            with contextlib.suppress(OSError):
                if text in memory.read(end - begin):
                    return True
    return False


def test_the_process_that_serves_has_nothing_to_lose(serve: Serve, started: Starter) -> None:
    server = serve()
    client, path = started(*plan(server, "variant tcp", "budget 30"))
    wait_for_samples(path)
    pid = serving(server)
    if "no filter" not in server.said():
        assert status(pid, "Seccomp") == "2"
    assert status(pid, "NoNewPrivs") == "1"
    assert int(status(pid, "CapEff"), 16) == 0
    where = {name.name: str(name.resolve()) for name in Path(f"/proc/{pid}/fd").iterdir()}
    sanitized = b"__asan_" in WORKER.read_bytes()  # it writes its findings to standard error
    assert {where[std] for std in ("0", "1", "2")[: 2 if sanitized else 3]} == {"/dev/null"}
    del where["2"]
    files = [name for name in where.values() if "socket:" not in name and "pipe:" not in name]
    assert all(
        name == "/dev/null" or name.startswith("/proc/") or not name.startswith("/") for name in files
    ), where
    assert holds(server.process.pid, secret(server)), "else the next line proves nothing"
    assert not holds(pid, secret(server)), "the token is in the process of a client"
    assert b"NETPIPE_TOKEN" not in Path(f"/proc/{pid}/environ").read_bytes()
    client.terminate()


# Refuses seccomp itself, as some containers do, and becomes the program that is named.
WITHOUT_SECCOMP = """
import ctypes, os, struct, sys
call = 317 if os.uname().machine == "x86_64" else 277
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in steps))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None)
zero, one, two = ctypes.c_ulong(0), ctypes.c_ulong(1), ctypes.c_ulong(2)
assert libc.prctl(38, one, zero, zero, zero) == 0
assert libc.prctl(22, two, ctypes.byref(program)) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_kernel_without_filters_is_said_once_and_measures(serve: Serve, measure: Runner) -> None:
    server = serve(inside=(sys.executable, "-c", WITHOUT_SECCOMP))
    for _ in range(2):
        assert quick(server, measure).code == 0
    assert server.said().count("measurements for clients run with all rights of this user") == 1


def test_every_client_meets_another_address_layout(serve: Serve, started: Starter) -> None:
    if Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0":
        pytest.skip("this host does not randomize addresses")
    server = serve()
    seen = [addresses(server.process.pid)]
    for _ in range(2):
        client, path = started(*plan(server, "variant tcp", "budget 30"))
        wait_for_samples(path)
        seen.append(addresses(serving(server)))
        client.terminate()
        client.wait(20)
        path.unlink()
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]


def test_the_server_measures_its_own_memory_although_it_opens_nothing(serve: Serve, measure: Runner) -> None:
    server = serve()
    done = quick(server, measure)
    (variant,) = done.of("variant")
    assert [rank["open_s"] is not None for rank in variant["ranks"]] == [True, True]
    assert [rank["resident_bytes"] is not None for rank in variant["ranks"]] == [True, True]
    assert variant["ranks"][1]["settings"].keys() == variant["ranks"][0]["settings"].keys()
