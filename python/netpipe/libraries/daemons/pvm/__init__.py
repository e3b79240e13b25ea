# SPDX-License-Identifier: Apache-2.0
"""pvmd, the daemon of PVM 3: one for each run on this host, with its files in a folder of the run, and one on each
other host that the run names (far.py). With ranks on this host alone it has the loopback address alone.

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
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.libraries.daemons import HERE, Contact, Daemon, Site, daemon
from netpipe.libraries.daemons.pvm.addresses import LOOPBACK, addresses
from netpipe.libraries.daemons.pvm.far import OF_ANOTHER, FarPvmd
from netpipe.libraries.daemons.pvm.said import words

ROOT = Path("/usr/lib/pvm3")  # of Debian's package, unless PVM_ROOT says otherwise
BOOT_S = 10.0
FAR_S = 60.0  # for the one on another host, as long as the worker waits for ranks there
END_S = 3.0
# Says which process the daemon is, and ends it when this standard input ends, as it does however netpipe ends; with it
# the copy of itself that waits for the answers of other hosts.
GUARD = '"$0" "$@" <"$PVM_TMP/answers" & echo "pid $!"; cat >/dev/null; kill -TERM $!; wait; kill -KILL 0'
# How the copy asks for a pvmd on another host, on the output of the first one.
MANUAL = "*** Manual startup ***"
ASKED = re.compile(r'^Login to "[^"]+" and type:\n\S+ (.+)\n', re.MULTILINE)
# How many daemons a rank waits for: the module (src/modules/pvm/pvm_task.cpp) sends nothing before its own knows them.
COUNT = "NETPIPE_PVM_DAEMONS"


@daemon
class Pvmd(Daemon):
    """The first pvmd, a shell that ends it with netpipe, and those of other hosts."""

    title = "the PVM daemon"
    longest_folder = 80  # libpvm copies names of sockets into 108 bytes, and adds up to 24 of its own

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._answers = -1
        self._folder = Path()
        self._address = LOOPBACK
        self._far: list[FarPvmd] = []

    def start(self, folder: Path, given_up: Callable[[], bool], site: Site) -> Contact:
        self._folder = folder
        root = Path(os.environ.get("PVM_ROOT") or ROOT)
        program = root / "lib" / "pvmd"
        if not os.access(program, os.X_OK):
            raise Failure(
                UNAVAILABLE,
                f"the PVM daemon, {program}, is not there; apt install pvm, or correct PVM_ROOT",
            )
        self._address, far = addresses(site)
        others: dict[str, str] = {}  # each address once, with a name by which the user reaches it
        for name, address in far.items():
            others.setdefault(address, name.strip("[]"))
        if others and not site.by_shell:
            raise Failure(
                USAGE,
                "srun starts the ranks, and PVM's daemons on other hosts need a remote shell; use --launcher ssh, or "
                "leave pvm out",
            )
        ours = {"PVM_ROOT": str(root), "PVM_TMP": str(folder)}
        if os.geteuid() == 0:
            ours["PVM_ALLOW_ROOT"] = "1"  # it refuses root, because of what it could start on other hosts
        self._boot(program, ours, others)
        common = {"PVM_ROOT": str(root)} | ({COUNT: str(1 + len(others))} if others else {})
        here = {**common, **ours, "PVMSOCK": self._socket(given_up)}
        there: dict[str, Mapping[str, str]] = {}
        for address, name in others.items():
            found = FarPvmd(name, address, self._folder / f"said-{address}")
            self._far.append(found)
            self._start_far(found, len(there), root, site.remote_shell, given_up)
            there[address] = {**common, **found.variables()}
        return {HERE: here} | {name: there[far[name]] if name in far else here for name in site.hosts}

    def _boot(self, program: Path, ours: Mapping[str, str], others: Collection[str]) -> None:
        """Starts the first one, which asks for those at the addresses `others`, in their order, when it is ready."""
        argv = ["/bin/sh", "-c", GUARD, str(program), f"-n{self._address}"]
        if others:
            hosts = self._folder / "hosts"
            hosts.write_text("".join(f"{address} so=ms\n" for address in others))
            argv.append(str(hosts))
        answers = self._folder / "answers"
        os.mkfifo(answers, 0o600)
        self._answers = os.open(answers, os.O_RDWR)  # so that nobody waits for the other end
        kept = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER}
        with self._said.open("wb") as output:  # not a pipe: the daemon keeps it open
            self._guard = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**kept, **ours},
                cwd="/",
                start_new_session=True,
            )

    def _socket(self, given_up: Callable[[], bool]) -> str:
        """The address for tasks of this host."""
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            self._not_given_up(given_up)
            lines = self._said.read_text(errors="replace").split("\n")[:-1]
            pids = [line.removeprefix("pid ") for line in lines if line.startswith("pid ")]
            if self._pidfd < 0 and pids:
                try:
                    self._pidfd = os.pidfd_open(int(pids[0]))
                except ProcessLookupError:
                    break
            address = next((line for line in lines if line.startswith(str(self._folder))), None)
            if address is not None and self._pidfd >= 0:
                return address
            if self._pidfd >= 0 and not self._first_lives():
                break
            time.sleep(0.005)
        waited = (
            "it ended at once" if time.monotonic() < deadline else f"it was not ready within {BOOT_S:.0f} s"
        )
        raise Failure(FAILED, f"the PVM daemon did not start: {waited}{_quoted(self._words())}")

    def _start_far(
        self, far: FarPvmd, place: int, root: Path, remote_shell: Path | None, given_up: Callable[[], bool]
    ) -> None:
        """Starts the one that the first one asks for in this place, and waits until it is ready."""
        far.start(root, self._asked_for(far.host, place, given_up).split(), remote_shell)
        deadline = time.monotonic() + FAR_S
        while (answer := far.answer()) is None:
            self._not_given_up(given_up)
            ended = far.ended()
            if ended or time.monotonic() >= deadline:
                waited = "it ended at once" if ended else f"it was not ready within {FAR_S:.0f} s"
                raise Failure(
                    FAILED if far.reached else UNAVAILABLE,
                    f"the PVM daemon on {far.host} did not start: {waited}{_quoted(far.last_words())}",
                )
            time.sleep(0.01)
        os.write(self._answers, f"{answer}\n".encode())

    def _asked_for(self, host: str, place: int, given_up: Callable[[], bool]) -> str:
        """The arguments that the first one wants the one on this host to have."""
        deadline = time.monotonic() + BOOT_S
        while len(found := ASKED.findall(self._said.read_text(errors="replace"))) <= place:
            self._not_given_up(given_up)
            if not self._first_lives() or time.monotonic() >= deadline:
                raise Failure(
                    FAILED,
                    f"the PVM daemon of this host did not ask for the one on {host}{_quoted(self._words())}",
                )
            time.sleep(0.005)
        return str(found[place])

    @staticmethod
    def _not_given_up(given_up: Callable[[], bool]) -> None:
        if given_up():
            raise Failure(INTERRUPTED, "interrupted while starting the PVM daemon")

    @property
    def _said(self) -> Path:
        return self._folder / "said"

    def _first_lives(self) -> bool:
        return self._pidfd >= 0 and not select.select([self._pidfd], [], [], 0)[0]

    def alive(self) -> bool:
        return self._first_lives() and not any(far.ended() for far in self._far)

    def last_words(self) -> str:
        gone = next((far for far in self._far if far.ended()), None)
        if gone is None or not self._first_lives():
            return self._words()
        return f"the one on {gone.host}{_quoted(gone.last_words(), ' said: ')}"

    def _words(self) -> str:
        """Of the first one."""
        said = self._said.read_text(errors="replace") if self._said.is_file() else ""
        logs = [path.read_text(errors="replace") for path in sorted(self._folder.glob("pvml.*"))]
        expected = ("pid ", f"{self._address} ", "ready ", str(self._folder))
        return words([said.partition(MANUAL)[0], *logs], expected)

    def stop(self) -> None:
        deadline = time.monotonic() + END_S
        for far in self._far:
            far.end()
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
        for far in self._far:
            far.wait(deadline)
        for fd in (self._pidfd, self._answers):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._answers = -1


def _quoted(said: str, before: str = "; it said: ") -> str:
    return f"{before}{said}" if said else ""
