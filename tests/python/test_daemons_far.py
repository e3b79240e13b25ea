# SPDX-License-Identifier: Apache-2.0
"""PVM's daemons on several hosts: each is reached as the user said, hears what the first one wants of it, and ends with
the run. One program pretends to be all of them, and a script stands in for the remote shell.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.libraries.daemons import HERE, Contact, Daemon, Site, kinds, pvm
from netpipe.libraries.daemons.pvm.addresses import LOOPBACK, addresses

# RFC 5737: nobody has these.
OWN, FIRST, SECOND = "198.51.100.9", "198.51.100.1", "198.51.100.2"
PROGRAM = """#!{python}
import os, sys, time
folder = os.environ["PVM_TMP"]
socket = folder + "/pvmtmp000001.0"
if "-S" in sys.argv:
    with open(folder + "/pvml.0", "w") as log:
        log.write("[t80080000] 11/23 17:12:38 ready Mon Nov 23 17:12:38 2026\\n")
        log.write("[t80080000] 11/23 17:12:39 the disk is full\\n")
    {far}
    open(folder + "/pid", "w").write(str(os.getpid()))
    open(folder + "/environment", "w").write(repr(dict(os.environ)))
    open(folder + "/pvmd.0", "w").write(socket)
    print("ddpro<2316> arch<X> ip<" + sys.argv[-1] + "> mtu<4080> dsig<1>", flush=True)
else:
    print(socket, flush=True)
    for number, line in enumerate(open(sys.argv[2])):
        host, manual = line.split()
        assert manual == "so=ms"
        print("*** Manual startup ***")
        print('Login to "' + host + '" and type:')
        print("$PVM_ROOT/lib/pvmd -S -d0x0 -n" + host + " 1 c0000209:1 4080 " + str(number + 2) + " c0000200:0")
        print("\\nType response: ", end="", flush=True)
        heard = sys.stdin.readline()
        print("Thanks", flush=True)
        with open(folder + "/heard", "a") as file:
            file.write(host + " " + heard)
time.sleep(60)
"""
# As a remote shell: the words after the host, to a shell as sshd does it.
SHELL = '#!/bin/sh\necho "$*" >>"$0.called"\nshift\nexec /bin/sh -c "$*"\n'


def never() -> bool:
    return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Far:
    """A run on two other hosts."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.folder = folder / "folder"
        self.shell = folder / "shell"
        (self.root / "lib").mkdir(parents=True)
        self.folder.mkdir()
        self.program()
        self.reached_by()
        self.daemon: Daemon = kinds()["pvm"]()

    def program(self, far: str = "pass") -> None:
        """What pvmd does on the other hosts before it is ready."""
        self._script(self.root / "lib" / "pvmd", PROGRAM.format(python=sys.executable, far=far))

    def reached_by(self, text: str = SHELL) -> None:
        self._script(self.shell, text)

    def start(self, given_up: Callable[[], bool] = never) -> Contact:
        return self.daemon.start(self.folder, given_up, Site((FIRST, SECOND), OWN, self.shell))

    @property
    def calls(self) -> list[str]:
        return Path(f"{self.shell}.called").read_text().splitlines()

    @staticmethod
    def _script(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    made = Far(tmp_path)
    monkeypatch.setenv("PVM_ROOT", str(made.root))
    monkeypatch.setenv("PVMSOCK", "/of/another/virtual/machine")
    yield made
    made.daemon.stop()


def test_each_host_is_reached_once_and_its_answer_reaches_the_first(far: Far) -> None:
    found = far.start()
    assert [call.split()[0] for call in far.calls] == [FIRST, SECOND]
    assert (far.folder / "hosts").read_text() == f"{FIRST} so=ms\n{SECOND} so=ms\n"
    heard = far.folder / "heard"
    until(lambda: heard.exists() and heard.read_text().count("\n") == 2)
    assert [line.split()[:2] for line in heard.read_text().splitlines()] == [
        [FIRST, "ddpro<2316>"],
        [SECOND, "ddpro<2316>"],
    ]
    for call, host, number in zip(far.calls, (FIRST, SECOND), (2, 3), strict=True):
        assert f"/lib/pvmd -f -S -d0x0 -n{host} 1 c0000209:1 4080 {number} c0000200:0" in call
    assert far.daemon.alive()
    assert set(found) == {HERE, FIRST, SECOND}


def test_ranks_find_the_daemon_of_their_host_and_know_how_many_there_are(far: Far) -> None:
    found = far.start()
    folders = [Path(found[host]["PVM_TMP"]) for host in (HERE, FIRST, SECOND)]
    assert folders[0] == far.folder
    assert len(set(folders)) == 3
    for variables, folder in zip((found[HERE], found[FIRST], found[SECOND]), folders, strict=True):
        assert variables["PVMSOCK"] == f"{folder}/pvmtmp000001.0"
        assert variables["PVM_ROOT"] == str(far.root)
        assert variables["NETPIPE_PVM_DAEMONS"] == "3"
    for folder in folders[1:]:
        assert folder.stat().st_mode & 0o077 == 0, "only its user may look into it"
        assert "another" not in (folder / "environment").read_text()


def test_all_of_them_end_with_the_run_and_leave_nothing(far: Far) -> None:
    found = far.start()
    folders = [Path(found[host]["PVM_TMP"]) for host in (FIRST, SECOND)]
    pids = [int((folder / "pid").read_text()) for folder in folders]
    far.daemon.stop()
    assert not far.daemon.alive()
    assert not any(folder.exists() for folder in folders)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_one_that_dies_is_noticed_and_says_why(far: Far) -> None:
    found = far.start()
    os.kill(int((Path(found[SECOND]["PVM_TMP"]) / "pid").read_text()), signal.SIGKILL)
    until(lambda: not far.daemon.alive())
    words = far.daemon.last_words()
    assert words.startswith(f"the one on {SECOND} said: ")
    assert words.endswith("the disk is full")


@pytest.mark.parametrize(
    ("shell", "program", "code", "said"),
    [
        (
            '#!/bin/sh\necho "ssh: connect to host $1 port 22: Connection refused" >&2\nexit 255\n',
            "pass",
            UNAVAILABLE,
            f"it ended at once; it said: ssh: connect to host {FIRST} port 22: Connection refused",
        ),
        (
            SHELL.replace('"$*"', '"$(echo "$*" | sed s,lib/pvmd,lib/none,)"'),
            "pass",
            UNAVAILABLE,
            f"/lib/none does not exist on {os.uname().nodename}; install PVM at the same path on all hosts",
        ),
        (SHELL, "sys.exit('pvmd: out of paper')", FAILED, "it ended at once; it said: pvmd: out of paper"),
    ],
)
def test_one_that_does_not_start_is_one_sentence(
    far: Far, shell: str, program: str, code: int, said: str
) -> None:
    far.reached_by(shell)
    far.program(program)
    with pytest.raises(Failure) as failure:
        far.start()
    assert failure.value.exit_code == code
    assert failure.value.sentence.startswith(f"the PVM daemon on {FIRST} did not start: ")
    assert said in failure.value.sentence
    assert "\n" not in failure.value.sentence
    far.daemon.stop()
    assert not far.daemon.alive()


def test_a_host_that_says_nothing_is_given_up(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pvm, "FAR_S", 0.1)
    far.reached_by('#!/bin/sh\necho $$ >"$0.pid"\nexec sleep 60\n')
    with pytest.raises(Failure, match=f"on {FIRST} did not start: it was not ready within") as failure:
        far.start()
    assert failure.value.exit_code == UNAVAILABLE
    monkeypatch.setattr(pvm, "END_S", 0.1)  # it does not heed the end of its input
    far.daemon.stop()
    pid = Path(f"{far.shell}.pid")
    assert not pid.exists() or not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_an_interrupt_ends_the_wait_for_a_host(far: Far) -> None:
    far.reached_by("#!/bin/sh\nexec cat\n")
    with pytest.raises(Failure) as failure:
        far.start((far.folder / f"said-{FIRST}").exists)
    assert failure.value.exit_code == INTERRUPTED


def test_srun_is_no_way_to_start_them(far: Far) -> None:
    with pytest.raises(Failure, match="use --launcher ssh, or leave pvm out") as failure:
        far.daemon.start(far.folder, never, Site((FIRST,), OWN, None, by_shell=False))
    assert failure.value.exit_code == USAGE
    assert not (far.folder / "said").exists(), "nothing was started"


# ------------------------------------------------------------------------------------------------------ addresses


def test_a_run_on_this_host_alone_stays_on_the_loopback_address() -> None:
    assert addresses(Site()) == (LOOPBACK, {})
    assert addresses(Site(("127.0.0.1", "localhost"))) == (LOOPBACK, {})


def test_other_hosts_have_the_addresses_that_the_user_named() -> None:
    assert addresses(Site((FIRST, SECOND), OWN)) == (OWN, {FIRST: FIRST, SECOND: SECOND})
    assert addresses(Site(("localhost", SECOND), OWN)) == (OWN, {SECOND: SECOND})


@pytest.mark.parametrize(
    ("site", "code", "says"),
    [
        (Site((FIRST,), LOOPBACK), USAGE, "cannot reach 127.0.0.1; name this host by another address"),
        (Site((FIRST,)), USAGE, "cannot reach 127.0.0.1"),
        (
            Site(("no-such-host.invalid",), OWN),
            UNAVAILABLE,
            "no IPv4 address of no-such-host.invalid was found",
        ),
        (Site(("[2001:db8::7]",), OWN), UNAVAILABLE, "no IPv4 address of 2001:db8::7 was found"),
    ],
)
def test_hosts_that_the_daemons_cannot_reach_are_refused(site: Site, code: int, says: str) -> None:
    with pytest.raises(Failure) as failure:
        addresses(site)
    assert failure.value.exit_code == code
    assert says in failure.value.sentence
