# SPDX-License-Identifier: Apache-2.0
"""A pvmd on another host: started through a remote shell, and ended with it, however netpipe or that host ends.

What PVM calls manual startup: the first pvmd prints a command for each other host, and wants the line that the pvmd
there answers with (pvmd(1), "so=ms"). netpipe carries both. With PVM's own way (PVM_RSH) the remote shell is lost once
the pvmd has answered, and only a log says why one did not.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from netpipe.libraries.daemons import FOLDERS
from netpipe.libraries.daemons.pvm.said import words
from netpipe.libraries.starting.own import on

# Variables that no pvmd of a run may see: what another one gives to tasks that it spawns (netpipe may be one), the name
# of the user's virtual machine, and what else it would start.
OF_ANOTHER = (
    *("PVMSOCK", "PVMEPID", "PVMTASKDEBUG", "PVMCTX", "PVM_VMID"),
    *("PVMHOSTFILE", "PVM_HOSTER", "PVM_TASKER", "PVM_TRACER", "PVM_RM"),
)
# The script is the first line of standard input: on a command line csh would take `$!` for a word of its history.
READ = 'IFS= read -r script && eval "$script"'
# The files of the pvmd lie in a folder that only the user can read. This shell ends the pvmd when the rest of its
# standard input ends, says where tasks find it, and repeats its last words if it ends by itself.
SCRIPT = (
    f"unset {' '.join(OF_ANOTHER)}; "
    '[ -x "$0" ] || { echo "$0 does not exist on $(uname -n); install PVM at the same path on all hosts" >&2; '
    "exit 3; }; "
    "place=${TMPDIR:-/tmp}; [ ${#place} -le 50 ] || place=/tmp; "  # sockets have short names
    f'PVM_TMP=$(mktemp -d "$place/{FOLDERS}XXXXXX") || exit 4; export PVM_TMP PVM_ALLOW_ROOT=1; '
    'echo "folder $PVM_TMP"; '
    'exec 3<&0; "$0" "$@" </dev/null 3<&- & daemon=$!; '
    "{ cat; kill $daemon; sleep 2; kill -9 $daemon; } <&3 3<&- >/dev/null 2>&1 & watch=$!; "
    'until socket=$(cat "$PVM_TMP"/pvmd.* 2>/dev/null) && [ "$socket" ]; do '
    "kill -0 $daemon 2>/dev/null || break; sleep 0.02; done; "
    'echo "socket $socket"; wait $daemon; words=$(tail -n 8 "$PVM_TMP"/pvml.* 2>/dev/null); rm -rf "$PVM_TMP"; '
    'kill $watch; echo "$words"; exit 4'
)
ANSWER = "ddpro<"  # how the line begins that the first pvmd wants


class FarPvmd:
    """The pvmd on one host, with that host's name for the remote shell, and its address. `said` is a file for what the
    pvmd and the remote shell write.
    """

    def __init__(self, host: str, address: str, said: Path) -> None:
        self.host = host
        self._address = address
        self._said = said
        self._shell: subprocess.Popen[bytes] | None = None

    def start(self, root: Path, arguments: Sequence[str], remote_shell: Path | None) -> None:
        """Does not wait. `root` is PVM_ROOT there, `arguments` are what the first pvmd wants this one to have. Raises
        Failure (3) where there is no ssh.
        """
        # -f: it stays the child that the shell waits for
        argv = ("/bin/sh", "-c", READ, str(root / "lib" / "pvmd"), "-f", *arguments)
        command = on(self.host, argv, remote_shell)
        with self._said.open("wb") as output:
            self._shell = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is noticed elsewhere
            self._shell.stdin.write(f"export PVM_ROOT={shlex.quote(str(root))}; {SCRIPT}\n".encode())
            self._shell.stdin.flush()

    def answer(self) -> str | None:
        """What the first pvmd wants to hear, once this one is ready for tasks."""
        return self._line(ANSWER) if self._line("socket /") else None

    def variables(self) -> Mapping[str, str]:
        """By which tasks of its host find it, once it is ready."""
        return {
            "PVM_TMP": (self._line("folder /") or "").removeprefix("folder "),
            "PVMSOCK": (self._line("socket /") or "").removeprefix("socket "),
            "PVM_ALLOW_ROOT": "1",  # who we are there is not known here
        }

    @property
    def reached(self) -> bool:
        """Whether the host was reached and has a pvmd."""
        return self._line("folder /") is not None

    def ended(self) -> bool:
        return self._shell is not None and self._shell.poll() is not None

    def last_words(self) -> str:
        """What it or the remote shell said of why it ended; one line, or nothing."""
        return words([self._text()], (ANSWER, "folder ", "socket ", f"{self._address} ", "ready "))

    def end(self) -> None:
        """Tells it to end, without waiting."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._shell.stdin.close()

    def wait(self, deadline_s: float) -> None:
        """Until it has ended, or until this time of time.monotonic(). Then the remote shell is killed, and the pvmd
        ends as soon as its host notices.
        """
        if self._shell is None:
            return
        try:
            self._shell.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
        self._shell = None

    def _line(self, beginning: str) -> str | None:
        whole = self._text().split("\n")[:-1]  # a last line may go on
        return next((line for line in whole if line.startswith(beginning)), None)

    def _text(self) -> str:
        return self._said.read_text(errors="replace") if self._said.is_file() else ""
