# SPDX-License-Identifier: Apache-2.0
"""Somebody between a client and a server: forwards their handshake (docs/reference/protocol.md), and does to the frames
that follow whatever a test wants. With the token it can open them and make new ones; without it can only move bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

HEADER = 8
ACCEPT = 6
REFUSE = 7
TAG = 16
LABELS = {"client": b"netpipe client frames", "server": b"netpipe server frames"}

# One frame as it stands on the wire, and what is forwarded in its place.
OnWire = Callable[[str, bytes], bytes]
# What a frame carries, and what is forwarded in its place, with a tag of its own.
Opened = Callable[[str, bytes], bytes]


@dataclass
class Command:
    """What a client sends: src/engine/commands.h."""

    verb: int
    variant: int
    pattern: int
    size_bytes: int
    samples: int
    rounds: int
    visit: int
    deadline_ns: int

    FORM = struct.Struct("<iIIIQQQQq")
    VISIT = 3

    @classmethod
    def of(cls, payload: bytes) -> Command | None:
        if len(payload) != cls.FORM.size:
            return None
        verb, variant, pattern, _, *rest = cls.FORM.unpack(payload)
        return cls(verb, variant, pattern, *rest)

    def bytes(self) -> bytes:
        mask = (1 << 64) - 1
        return self.FORM.pack(
            self.verb,
            self.variant,
            self.pattern,
            0,
            self.size_bytes & mask,
            self.samples & mask,
            self.rounds & mask,
            self.visit,
            self.deadline_ns,
        )


REPORT_BYTES = 424


@dataclass
class Between:
    """Listens on its own port, and takes one client to the server's."""

    server: tuple[str, int]
    token: bytes = b""
    on_wire: OnWire = lambda _, frame: frame
    opened: Opened = lambda _, payload: payload
    # handshake payloads
    said: dict[str, list[bytes]] = field(default_factory=lambda: {"client": [], "server": []})

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(30)
        self.port: int = self.listener.getsockname()[1]
        self.accepted = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.listener.close()
        self.thread.join(30)
        assert not self.thread.is_alive()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            near, _ = self.listener.accept()
            with near, socket.create_connection(self.server, timeout=30) as far:
                near.settimeout(60)
                back = threading.Thread(target=self.pump, args=("server", far, near), daemon=True)
                back.start()
                self.pump("client", near, far)
                back.join(60)

    def pump(self, who: str, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            for message in self.handshake(who, source):
                target.sendall(message)
            seals = [Seal(self.key(who)), Seal(self.key(who))]
            while True:
                header = exactly(source, 4)
                payload = exactly(source, int.from_bytes(header, "big"))
                tag = exactly(source, TAG)
                if self.token:
                    assert tag == seals[0].next(payload)
                    payload = self.opened(who, payload)
                    frame = len(payload).to_bytes(4, "big") + payload + seals[1].next(payload)
                else:
                    frame = header + payload + tag
                target.sendall(self.on_wire(who, frame))
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def handshake(self, who: str, source: socket.socket) -> Iterator[bytes]:
        """The messages of one side; the client's end when the server has accepted it."""
        while True:
            if who == "client" and len(self.said["client"]) == 3:
                assert self.accepted.wait(30)
                return
            header = exactly(source, HEADER)
            payload = exactly(source, int.from_bytes(header[4:], "big"))
            self.said[who].append(payload)
            yield header + payload
            if header[3] == ACCEPT:
                self.accepted.set()
                return
            if header[3] == REFUSE:
                raise EOFError

    def key(self, who: str) -> bytes:
        hello, proof = self.said["client"][:2]
        transcript = hashlib.sha256(hello + self.said["server"][0] + proof[:32]).digest()
        return hmac.digest(self.token, LABELS[who] + transcript, "sha256")


class Seal:
    def __init__(self, key: bytes) -> None:
        self.key = key
        self.frames = 0

    def next(self, payload: bytes) -> bytes:
        numbers = struct.pack(">QI", self.frames, len(payload))
        self.frames += 1
        return hmac.digest(self.key, numbers + payload, "sha256")[:TAG]


def exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
