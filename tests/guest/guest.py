#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one command in an emulated guest that has RDMA devices (soft-RoCE), on machines that have none.

    python tests/guest/guest.py -- netpipe-worker list
    python tests/guest/guest.py --limit 600 -- python -m pytest tests/e2e/test_verbs.py

The guest sees the files of this host as they are; what it writes is gone when it ends, except what --keep names. It
has three devices: rxe0; rxe1, which has no link; rxe2, whose packets are small. The command finds NETPIPE_IN_GUEST
set. What it prints is passed on, and its exit code is that of this program. 125: there was no guest, and the last lines
of its console say why. 124: the command did not end in time.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from build import BuildError, build, program

ROOT = Path(__file__).resolve().parents[2]
NATIVE = Path(os.environ.get("NETPIPE_NATIVE", ROOT / "build"))
FOLDER = NATIVE / "guest"
BOOT_S = 120
LIMIT_S = 600
NO_GUEST = 125
TIMED_OUT = 124
# What the command finds of this environment, besides NETPIPE_...
KEPT = ("PATH", "PYTHONPATH", "LANG", "COLUMNS", "VIRTUAL_ENV")
ADDRESS = "10.0.2.15/24"
PR_SET_PDEATHSIG = 1  # of linux/prctl.h


class GuestError(Exception):
    """Why there was no guest, or no end of its command."""


def accelerators() -> list[str]:
    """What to try, the fastest first. Under some hypervisors /dev/kvm is there and boots nothing: remembered."""
    asked = os.environ.get("NETPIPE_GUEST_ACCEL")
    if asked:
        return [asked]
    works = os.access("/dev/kvm", os.R_OK | os.W_OK) and not (FOLDER / "no-kvm").exists()
    return ["kvm", "tcg"] if works else ["tcg"]


def words(accelerator: str, kernel: Path, initrd: Path, share: Path, memory: str) -> list[str]:
    folders = {"host": (Path("/"), ",readonly=on"), "share": (share, "")}
    files = []
    for name, (path, more) in folders.items():
        files += ["-virtfs", f"local,path={path},mount_tag={name},security_model=none,multidevs=remap{more}"]
    return [
        program("qemu-system-x86_64", "qemu-system-x86"),
        *("-accel", f"{accelerator},thread=multi" if accelerator == "tcg" else accelerator),
        *("-cpu", "max" if accelerator == "tcg" else "host"),
        *("-smp", "2", "-m", memory, "-nodefaults", "-no-reboot", "-display", "none"),
        *("-kernel", str(kernel), "-initrd", str(initrd)),
        # no_timer_check: where the host is busy, an emulated timer is too late for the kernel's trial of it.
        *("-append", "console=ttyS0 panic=-1 quiet rdinit=/init mitigations=off no_timer_check tsc=reliable"),
        *("-serial", f"file:{share / 'console'}"),
        *("-netdev", "hubport,id=net,hubid=0", "-device", "virtio-net-pci,netdev=net"),
        *files,
    ]


def script(command: list[str]) -> str:
    """What the guest runs: the command with this environment, in this folder."""
    kept = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith("NETPIPE_")}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in kept.items()]
    lines = [
        *exports,
        "export HOME=/root NETPIPE_IN_GUEST=1",
        f"cd {shlex.quote(str(Path.cwd()))}",
        f"exec {shlex.join(command)}",
    ]
    return "\n".join(lines) + "\n"


def console(share: Path, lines: int = 15) -> str:
    path = share / "console"
    text = path.read_text(errors="replace") if path.is_file() else ""
    last = [line for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(last) if last else "(its console is empty)"


def pass_on(path: Path, at: int, to: int) -> int:
    """Writes what has been added to this file since byte `at`; the new position."""
    if not path.is_file():
        return at
    with path.open("rb") as file:
        file.seek(at)
        added = file.read()
    with contextlib.suppress(BrokenPipeError):
        os.write(to, added)
    return at + len(added)


def dies_with(parent: int, libc: ctypes.CDLL) -> None:
    """In the new process: the kernel ends it when this program ends, however that happens."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(NO_GUEST)


@contextlib.contextmanager
def booted(accelerator: str, share: Path, memory: str) -> Iterator[subprocess.Popen[bytes]]:
    """A guest that has come up; it is ended on leaving."""
    kernel, initrd = build(FOLDER)
    parent, libc = os.getpid(), ctypes.CDLL(None)
    with (share / "qemu").open("wb") as said:
        guest = subprocess.Popen(
            words(accelerator, kernel, initrd, share, memory),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            preexec_fn=lambda: dies_with(parent, libc),  # noqa: PLW1509  (there are no threads)
        )
    try:
        deadline = time.monotonic() + (20 if accelerator == "kvm" else BOOT_S)
        while not (share / "booted").exists():
            if guest.poll() is not None or time.monotonic() > deadline:
                why = "ended" if guest.poll() is not None else "did not come up in time"
                said_by_qemu = (share / "qemu").read_text(errors="replace").strip()
                raise GuestError(f"the guest ({accelerator}) {why}: {said_by_qemu}\n{console(share)}")
            time.sleep(0.1)
        yield guest
    finally:
        if guest.poll() is None:
            guest.send_signal(signal.SIGKILL)
        guest.wait(10)


def follow(guest: subprocess.Popen[bytes], share: Path, limit_s: float) -> int:
    """Passes on what the command writes, until it has ended; its exit code."""
    at = {"stdout": 0, "stderr": 0}
    to = {"stdout": 1, "stderr": 2}
    deadline = time.monotonic() + limit_s
    while True:
        ended = (share / "rc").exists() or guest.poll() is not None
        late = time.monotonic() > deadline
        at = {name: pass_on(share / name, seen, to[name]) for name, seen in at.items()}
        if (share / "rc").exists():
            return int((share / "rc").read_text())
        if ended:
            raise GuestError(f"the guest ended before its command:\n{console(share)}")
        if late:
            print(f"guest: no end after {limit_s:g} s; it was ended", file=sys.stderr)
            return TIMED_OUT
        time.sleep(0.1)


def keep(share: Path, wanted: list[str]) -> None:
    """Copies what the command left in /share: NAME=PATH each."""
    for one in wanted:
        name, _, path = one.partition("=")
        if (share / name).is_file():
            shutil.copy(share / name, path)


def run(command: list[str], limit_s: float, memory: str, kept: list[str]) -> int:
    """Boots, runs the command, and ends the guest. Raises GuestError or BuildError, with a reason."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    reasons = []
    for accelerator in accelerators():
        with tempfile.TemporaryDirectory(prefix="guest-") as folder:
            share = Path(folder)
            (share / "command").write_text(script(command))
            (share / "address").write_text(ADDRESS)
            try:
                with booted(accelerator, share, memory) as guest:
                    code = follow(guest, share, limit_s)
                    keep(share, kept)
                    return code
            except GuestError as error:
                reasons.append(str(error))
                if (share / "booted").exists():
                    break
                if accelerator == "kvm":
                    (FOLDER / "no-kvm").write_text(str(error))
            finally:
                with contextlib.suppress(OSError):
                    shutil.copy(share / "console", FOLDER / "console")
    raise GuestError("\n".join(reasons))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="of the command; then exit code 124"
    )
    parser.add_argument("--memory", default="3G", help="of the guest")
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="copy /share/NAME of the guest to this path",
    )
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the guest is ended with us
    try:
        return run(arguments.command, arguments.limit, arguments.memory, arguments.keep)
    except (GuestError, BuildError) as error:
        print(f"guest: {error}", file=sys.stderr)
        return NO_GUEST


if __name__ == "__main__":
    sys.exit(main())
