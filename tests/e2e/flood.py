# SPDX-License-Identifier: Apache-2.0
"""Wrong proofs at a steady rate from one address of loopback or many, until standard input closes: what a stranger does
who guesses the token. At the end it prints how many calls it made, and how many of them were heard to their end.

    flood.py HOST PORT HELLO RATE FIRST_ADDRESS ADDRESSES        HELLO in hexadecimal, RATE in calls a second
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import socket
import struct
import sys
import threading
import time

CALLERS = 16
PROOF = b"NPR\x03" + struct.pack(">I", 64)
REFUSE = b"NPR\x07"
IP_BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>: or the ports of one address run out
RESET = struct.pack("ii", 1, 0)  # no TIME_WAIT


class Flood:
    def __init__(
        self, server: tuple[str, int], hello: bytes, rate: float, first: str, addresses: int
    ) -> None:
        self.server, self.hello, self.rate = server, hello, rate
        start = int(ipaddress.ip_address(first))
        self.sources = [str(ipaddress.ip_address(start + i)) for i in range(addresses)]
        self.over = False
        self.calls = self.heard = 0

    def call(self, source: str) -> bool:
        with socket.socket() as one:
            one.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            one.settimeout(1)
            one.bind((source, 0))
            one.connect(self.server)
            one.sendall(self.hello)
            if not one.recv(512):
                return False
            one.sendall(PROOF + os.urandom(64))
            return one.recv(512).startswith(REFUSE)

    def calls_of(self, number: int) -> None:
        began = time.monotonic()
        for i in itertools.count():
            time.sleep(max(0.0, began + i * CALLERS / self.rate - time.monotonic()))
            if self.over:
                return
            self.calls += 1
            with contextlib.suppress(OSError):
                if self.call(self.sources[(i * CALLERS + number) % len(self.sources)]):
                    self.heard += 1


def main() -> None:
    host, port, hello, rate, first, addresses = sys.argv[1:]
    flood = Flood((host, int(port)), bytes.fromhex(hello), float(rate), first, int(addresses))
    callers = [threading.Thread(target=flood.calls_of, args=(i,)) for i in range(CALLERS)]
    began = time.monotonic()
    for one in callers:
        one.start()
    sys.stdin.read()
    flood.over = True
    for one in callers:
        one.join(10)
    seconds = time.monotonic() - began
    print(json.dumps({"calls": flood.calls, "heard": flood.heard, "seconds": round(seconds, 2)}))


if __name__ == "__main__":
    main()
