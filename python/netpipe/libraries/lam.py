# SPDX-License-Identifier: Apache-2.0
"""mpirun of LAM/MPI: it needs a universe of daemons that is booted before, and refuses root."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.launch.condense import condense
from netpipe.launch.description import Description
from netpipe.launch.processes import end_all_with
from netpipe.libraries import Family, Start, Task, family

USER = "NETPIPE_LAM_USER"
BOOT_S = 30.0
HALT_S = 10.0
# Halts the universe when netpipe has gone, however it went: then its standard input ends.
GUARD = 'cat >/dev/null; exec "$0" >/dev/null 2>&1'
# Where LAM 7.1 has nothing to send it sends from an address that it never set, so that what an earlier call has left on
# the stack decides whether MPI_Init fails ("Bad address"). The resolver of lazily bound functions leaves vector
# registers there, and in them, at some lengths of the environment, a piece of that.
BOUND = {"LD_BIND_NOW": "1"}


@family("lam")
class Lam(Family):
    """mpirun of LAM/MPI"""

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._session = f"np{secrets.token_hex(6)}"
        self._environment: dict[str, str] = {}
        self._user: pwd.struct_passwd | None = None

    def check(self, description: Description, program: tuple[str, ...]) -> None:
        super().check(description, program)
        if os.geteuid() == 0:
            may_read(ordinary_user(), program[0], str(description.file))

    def command(self, task: Task) -> Start:
        variables = {
            name: value for name, value in task.variables.items() if name != "TMPDIR"
        } | BOUND  # not his
        names = ",".join(variables)
        argv = [str(task.description.launcher), "-np", str(task.ranks), "-x", names, *task.extra]
        return Start((*argv, *task.program), {**variables, **self._environment}, self._user, Path("/"))

    def boot(self, task: Task, given_up: Callable[[], bool]) -> None:
        self._user = ordinary_user() if os.geteuid() == 0 else None
        # A session of our own: a universe that the user has booted is left alone.
        self._environment = {**task.description.environment, **BOUND, "LAM_MPI_SESSION_SUFFIX": self._session}
        if self._user is not None:
            home = task.scratch / "lam-home"
            home.mkdir(mode=0o700, exist_ok=True)
            os.chown(home, self._user.pw_uid, self._user.pw_gid)
            name = self._user.pw_name
            self._environment |= {"HOME": str(home), "USER": name, "LOGNAME": name}
        if task.remote_shell is not None:
            self._environment["LAMRSH"] = str(task.remote_shell)
        self._environment["LAM_MPI_SSI_boot_rsh_ignore_stderr"] = (
            "1"  # a greeting or warning of ssh is no failure
        )
        lines = [f"{host.name} cpu={host.ranks}\n" for host in task.hosts] or [
            f"localhost cpu={task.ranks}\n"
        ]
        hosts = task.file("lam-hosts", "".join(lines))
        # The daemon keeps what lamboot was given as output, so that is a file and never a pipe.
        log = task.scratch / "lamboot.log"
        folder = task.description.launcher.parent
        start = Start((str(folder / "lamboot"), str(hosts)), self._environment, self._user, Path("/"))
        # tkill ends what is here; lamhalt asks all hosts, and sleeps three seconds to be sure of them.
        halting = "lamhalt" if task.hosts else "tkill"
        halt = Start(
            ("/bin/sh", "-c", GUARD, str(folder / halting)), self._environment, self._user, Path("/")
        )
        with log.open("wb") as output:
            self._guard = halt.popen(subprocess.PIPE, subprocess.DEVNULL)
            process = start.popen(subprocess.DEVNULL, output)
        deadline = time.monotonic() + BOOT_S
        while process.poll() is None and time.monotonic() < deadline and not given_up():
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()
            process.wait()
            if given_up():
                raise Failure(INTERRUPTED, "interrupted while LAM's daemons were booted")
            raise Failure(FAILED, f"lamboot did not boot LAM's daemons within {BOOT_S:.0f} s; {_words(log)}")
        if process.returncode != 0:
            raise Failure(FAILED, f"lamboot ended with exit code {process.returncode}: {_words(log)}")

    def halt(self) -> None:
        if self._guard is None:
            return
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        try:
            self._guard.wait(HALT_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._guard = None
        end_all_with(self._session)


def may_read(user: pwd.struct_passwd, program: str, module: str) -> None:
    """A checkout below a closed home directory is not there for another user. Raises Failure (3)."""
    for path, what in ((program, "-x"), (module, "-r")):
        look = Start(("/usr/bin/test", what, path), {}, user, Path("/"))
        if look.popen(subprocess.DEVNULL, subprocess.DEVNULL).wait() != 0:
            raise Failure(
                UNAVAILABLE,
                f"LAM refuses root, and user {user.pw_name}, as whom it is run instead, cannot read {path}; "
                f"let others read it, name another user in {USER}, or do not run as root",
            )


def _words(log: Path) -> str:
    with contextlib.suppress(OSError):
        return condense(log.read_bytes()[: 1 << 16].decode(errors="replace"))
    return ""


def ordinary_user() -> pwd.struct_passwd:
    """As whom LAM is run in root's place: NETPIPE_LAM_USER, or nobody. Raises Failure."""
    name = os.environ.get(USER) or "nobody"
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Failure(
            USAGE if os.environ.get(USER) else UNAVAILABLE,
            f"LAM refuses root, and there is no user '{name}'; name an ordinary user in {USER}",
        ) from None
    if found.pw_uid == 0:
        raise Failure(USAGE, f"LAM refuses root, and {USER} names it; name an ordinary user")
    return found
