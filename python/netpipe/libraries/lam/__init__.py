# SPDX-License-Identifier: Apache-2.0
"""LAM/MPI: its launcher needs daemons that are booted first, and refuses root."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.libraries import Command, Family, Header, Job, Launcher, Route, family, launcher
from netpipe.libraries.lam import modules
from netpipe.libraries.settings import SHARED, TCP, Setting
from netpipe.libraries.starting.condense import condense
from netpipe.libraries.starting.description import Description
from netpipe.libraries.starting.processes import end_all_with
from netpipe.libraries.tunables import Tunables

USER = "NETPIPE_LAM_USER"
SSI = "LAM_MPI_SSI_"  # of variables: prefix of its parameters
BOOT_S = 30.0
HALT_S = 10.0
# Halts the daemons when its standard input ends, as it does however netpipe ends.
GUARD = 'cat >/dev/null; exec "$0" >/dev/null 2>&1'
# LAM 7.1 sends its empty messages from an address that it never sets, so what an earlier call left on the stack decides
# whether MPI_Init fails ("Bad address"). Lazy binding leaves vector registers there, which at some lengths of the
# environment hold a piece of it.
BOUND = {"LD_BIND_NOW": "1"}
UNREADABLE = re.compile(r"[,\s'\"\\]")  # what mpirun does not understand in a value behind -x
# Options of mpirun with words behind them, and how many (mpirun(1)).
TAKE_WORDS = {"-c": 1, "-np": 1, "-p": 1, "-s": 1, "-ssi": 2, "-wd": 1, "-x": 1}


@launcher
class Lam(Launcher):
    """mpirun of LAM/MPI"""

    name = "lam"
    title = "LAM/MPI"
    says = r"\bLAM\b"
    precedence = -1  # its sign is a short word
    programs = ("mpirun",)
    ranks_option = "-np"

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._session = f"np{secrets.token_hex(6)}"
        self._environment: dict[str, str] = {}
        self._user: pwd.struct_passwd | None = None

    def check(self, description: Description, program: tuple[str, ...]) -> None:
        super().check(description, program)
        if os.geteuid() == 0:
            may_read(ordinary_user(), program[0], str(description.file))

    def command(self, job: Job) -> Command:
        variables = {
            name: value for name, value in job.variables.items() if name != "TMPDIR"
        } | BOUND  # TMPDIR is not LAM's user's
        names = ",".join(variables)
        argv = [str(job.description.launcher), "-x", names, *job.extra]
        environment = {**variables, **self._environment}
        if not job.hosts:
            argv += ["-np", str(job.ranks), *job.program]
            return Command(tuple(argv), environment, self._user, Path("/"))
        # A line for each rank: by -np LAM would count the processors that the hosts had when they were booted.
        words = shlex.join(job.program)
        schema = job.file("lam-ranks", "".join(f"n{place} {words}\n" for place in job.order))
        return Command((*argv, str(schema)), environment, self._user, Path("/"))

    @classmethod
    def passing(cls, variables: Mapping[str, str]) -> list[str]:
        """Ranks get the environment of the daemons, and of mpirun's own what -x names. A value that mpirun cannot read
        is not in these words, so it has to be in mpirun's environment.
        """
        words = [name if UNREADABLE.search(value) else f"{name}={value}" for name, value in variables.items()]
        return ["-x", ",".join(words)] if words else []

    @classmethod
    def with_variables(cls, words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
        """Of several -x mpirun reads the first alone, so ours is added to the user's."""
        at = 0
        while at + 1 < len(words) and words[at].startswith("-"):
            if words[at] == "-x":
                own = ",".join([words[at + 1], *cls.passing(variables)[1:]])
                return [*words[:at], "-x", own, *words[at + 2 :]]
            at += 1 + TAKE_WORDS.get(words[at], 0)
        return [*cls.passing(variables), *words]

    def user(self) -> pwd.struct_passwd | None:
        return ordinary_user() if os.geteuid() == 0 else None

    def boot(self, job: Job, given_up: Callable[[], bool]) -> None:
        self._user = self.user()
        # A session of our own leaves daemons alone that the user has booted.
        self._environment = {**job.description.environment, **BOUND, "LAM_MPI_SESSION_SUFFIX": self._session}
        if self._user is not None:
            home = job.scratch / "lam-home"
            home.mkdir(mode=0o700, exist_ok=True)
            os.chown(home, self._user.pw_uid, self._user.pw_gid)
            name = self._user.pw_name
            self._environment |= {"HOME": str(home), "USER": name, "LOGNAME": name}
        if job.remote_shell is not None:
            self._environment["LAMRSH"] = str(job.remote_shell)
        # a greeting or warning of ssh is not a failure
        self._environment[f"{SSI}boot_rsh_ignore_stderr"] = "1"
        lines = [f"{host.name} cpu={host.ranks}\n" for host in job.hosts] or [f"localhost cpu={job.ranks}\n"]
        hosts = job.file("lam-hosts", "".join(lines))
        # The daemon keeps lamboot's output open, so it is a file and never a pipe.
        log = job.scratch / "lamboot.log"
        folder = job.description.launcher.parent
        boot = Command((str(folder / "lamboot"), str(hosts)), self._environment, self._user, Path("/"))
        # tkill ends the daemon of this host; lamhalt asks all hosts, and sleeps three seconds to be sure of them.
        halting = "lamhalt" if job.hosts else "tkill"
        halt = Command(
            ("/bin/sh", "-c", GUARD, str(folder / halting)), self._environment, self._user, Path("/")
        )
        with log.open("wb") as output:
            self._guard = halt.popen(subprocess.PIPE, subprocess.DEVNULL)
            process = boot.popen(subprocess.DEVNULL, output)
        try:
            self._wait(process, log, given_up)
        except Failure:
            self.halt()
            raise

    def _wait(self, process: subprocess.Popen[bytes], log: Path, given_up: Callable[[], bool]) -> None:
        deadline = time.monotonic() + BOOT_S
        while process.poll() is None and time.monotonic() < deadline and not given_up():
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()
            process.wait()
            if given_up():
                raise Failure(INTERRUPTED, "interrupted while booting LAM's daemons")
            raise Failure(FAILED, f"lamboot did not boot LAM's daemons within {BOOT_S:.0f} s; {_words(log)}")
        if process.returncode != 0:
            raise Failure(FAILED, f"lamboot ended with exit code {process.returncode}: {_words(log)}")

    def gone(self) -> bool:
        return self._guard is not None and self._guard.poll() is not None

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
        # A daemon that was killed leaves its folder.
        for folder in Path(tempfile.gettempdir()).glob(f"lam-*-{self._session}"):
            shutil.rmtree(folder, ignore_errors=True)


def may_read(user: pwd.struct_passwd, program: str, module: str) -> None:
    """Another user cannot read a checkout below a closed home directory. Raises Failure (3)."""
    for path, what in ((program, "-x"), (module, "-r")):
        look = Command(("/usr/bin/test", what, path), {}, user, Path("/"))
        if look.popen(subprocess.DEVNULL, subprocess.DEVNULL).wait() != 0:
            raise Failure(
                UNAVAILABLE,
                f"LAM refuses root, and user {user.pw_name}, who runs it instead, cannot read {path}; "
                f"make it readable, name another user in {USER}, or do not run as root",
            )


def _words(log: Path) -> str:
    with contextlib.suppress(OSError):
        return condense(log.read_bytes()[: 1 << 16].decode(errors="replace"))
    return ""


def ordinary_user() -> pwd.struct_passwd:
    """Who runs LAM instead of root: NETPIPE_LAM_USER, or nobody. Raises Failure."""
    name = os.environ.get(USER) or "nobody"
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Failure(
            USAGE if os.environ.get(USER) else UNAVAILABLE,
            f"LAM refuses root, and user '{name}' does not exist; name an ordinary user in {USER}",
        ) from None
    if found.pw_uid == 0:
        raise Failure(USAGE, f"LAM refuses root, and {USER} names root; name an ordinary user")
    return found


def settings(one: Setting) -> Mapping[str, str]:
    """As family.h has them; which of its two kinds of shared memory a run used, the run does not say."""
    if one.said == SHARED:
        return {f"{SSI}rpi": "usysv"}
    names = {"eager": f"{SSI}rpi_tcp_short", "sndbuf": f"{SSI}rpi_tcp_sockbuf"}
    return {names[one.name]: one.value} if one.below == TCP and one.name in names else {}


family(
    Family(
        name="lam",
        title="LAM/MPI",
        headers=(Header("LAM_MPI", ("LAM_MAJOR_VERSION", "LAM_MINOR_VERSION", "LAM_RELEASE_VERSION")),),
        launcher=Lam,
        settings=settings,
        route=Route("rpi", ("lamd",), "lamd", "usysv"),
        tunables=Tunables(
            prefix=SSI,
            known=modules.COLLECTIVES,
            ask=modules.ask,
            read_back=modules.read_back,
            algorithm=lambda _: modules.COLLECTIVES,
        ),
        remedies={
            "oversubscribed-job": "rpi=sysv (mpirun -ssi rpi sysv), whose ranks sleep on semaphores",
            "daemon-route": "rpi=usysv within a host, rpi=tcp between hosts (mpirun -ssi rpi usysv)",
        },
    )
)
