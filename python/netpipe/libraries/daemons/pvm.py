# SPDX-License-Identifier: Apache-2.0
"""pvmd, the daemon of PVM 3: one for each run, on the loopback address alone, with its files in a folder of the run.

Another pvmd of the same user, and what one has left behind in /tmp, is neither used nor touched: all that ranks need to
know is PVMSOCK, the address that the daemon prints when it is ready.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, Failure
from netpipe.libraries.daemons import Daemon, daemon
from netpipe.libraries.starting.condense import condense

ROOT = Path("/usr/lib/pvm3")  # of Debian's package, unless PVM_ROOT says otherwise
BOOT_S = 10.0
END_S = 3.0
# Says which process the daemon is, and ends it when this standard input ends, as it does however netpipe ends.
GUARD = '"$0" -n127.0.0.1 </dev/null & echo "pid $!"; cat >/dev/null; kill -TERM $!; wait'
STAMP = re.compile(r"^\[\S+\] (?:\S+ )?\d\d/\d\d \d\d:\d\d:\d\d ")  # before each line of its log
# What a pvmd gives to tasks that it spawns: netpipe may be one. And the name of the user's virtual machine.
OF_ANOTHER = ("PVMSOCK", "PVMEPID", "PVMTASKDEBUG", "PVMCTX", "PVM_VMID")


@daemon
class Pvmd(Daemon):
    """One pvmd, and a shell that ends it with netpipe."""

    title = "the PVM daemon"
    longest_folder = 80  # libpvm copies names of sockets into 108 bytes, and adds up to 24 of its own

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._folder = Path()

    def start(self, folder: Path, given_up: Callable[[], bool]) -> Mapping[str, str]:
        self._folder = folder
        root = Path(os.environ.get("PVM_ROOT") or ROOT)
        program = root / "lib" / "pvmd"
        if not os.access(program, os.X_OK):
            raise Failure(
                UNAVAILABLE,
                f"the PVM daemon, {program}, is not there; apt install pvm, or correct PVM_ROOT",
            )
        ours = {"PVM_ROOT": str(root), "PVM_TMP": str(folder)}
        if os.geteuid() == 0:
            ours["PVM_ALLOW_ROOT"] = "1"  # it refuses root, because of what it could start on other hosts
        others = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER}
        said = folder / "said"
        with said.open("wb") as output:  # not a pipe: the daemon keeps it open
            self._guard = subprocess.Popen(
                ("/bin/sh", "-c", GUARD, str(program)),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**others, **ours},
                cwd="/",
                start_new_session=True,
            )
        return {**ours, "PVMSOCK": self._address(said, given_up)}

    def _address(self, said: Path, given_up: Callable[[], bool]) -> str:
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            if given_up():
                raise Failure(INTERRUPTED, "interrupted while starting the PVM daemon")
            lines = said.read_text(errors="replace").split("\n")[:-1]
            pids = [line.removeprefix("pid ") for line in lines if line.startswith("pid ")]
            if self._pidfd < 0 and pids:
                try:
                    self._pidfd = os.pidfd_open(int(pids[0]))
                except ProcessLookupError:
                    break
            address = next((line for line in lines if line.startswith(str(self._folder))), None)
            if address is not None and self._pidfd >= 0:
                return address
            if self._pidfd >= 0 and not self.alive():
                break
            time.sleep(0.005)
        waited = (
            "it ended at once" if time.monotonic() < deadline else f"it was not ready within {BOOT_S:.0f} s"
        )
        words = self.last_words()
        raise Failure(
            FAILED, f"the PVM daemon did not start: {waited}" + (f"; it said: {words}" if words else "")
        )

    def alive(self) -> bool:
        return self._pidfd >= 0 and not select.select([self._pidfd], [], [], 0)[0]

    def last_words(self) -> str:
        files = (self._folder / "said", *sorted(self._folder.glob("pvml.*")))
        texts = [path.read_text(errors="replace") for path in files if path.is_file()]
        lines = [STAMP.sub("", line) for text in texts for line in text.splitlines()]
        expected = ("pid ", "127.0.0.1 ", "ready ", str(self._folder))  # of one that started well
        return condense("\n".join([line for line in lines if not line.startswith(expected)][-8:]))

    def stop(self) -> None:
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            try:
                self._guard.wait(END_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._guard.pid, signal.SIGKILL)  # the guard, and a daemon that did not heed it
                self._guard.wait()
            self._guard = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
