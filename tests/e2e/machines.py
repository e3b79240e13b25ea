# SPDX-License-Identifier: Apache-2.0
"""A cluster on one machine: two hosts that are network namespaces with a real sshd each, and a Slurm of one node. Both
live in a folder of their own and end with the tests; what is missing is installed where that is possible.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


def needs(*tools: str, packages: str) -> None:
    """Skips where a tool is missing and cannot be installed."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if all(shutil.which(tool) for tool in tools):
        return
    if shutil.which("apt-get"):
        install = [
            "apt-get",
            "-qq",
            "-y",
            "-o",
            "DPkg::Lock::Timeout=300",
            "install",
            "--no-install-recommends",
        ]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            [*install, *packages.split()],
            ["apt-get", "-qq", "update"],
            [*install, *packages.split()],
        ):
            subprocess.run(command, env=quiet, capture_output=True, timeout=600, check=False)
            if all(shutil.which(tool) for tool in tools):
                return
    pytest.skip(f"needs {', '.join(tools)} (apt install {packages})")


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """Where other users may read: pytest's own folders are closed to them, and LAM runs as one."""
    folder = Path(tempfile.mkdtemp(prefix="netpipe-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


def may_lock(limit_kib: int) -> tuple[str, ...]:
    """What a command is started with that may lock so much memory. root may lock as much as it likes, until it has
    dropped that.
    """
    user = ("setpriv", "--bounding-set=-ipc_lock") if os.geteuid() == 0 else ()
    return ("sh", "-c", f'ulimit -l {limit_kib}; exec "$@"', "sh", *user)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what} within {limit_s:.0f} s")
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes]) -> None:
    """And all of its group: it was started as the leader of one."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)


# ------------------------------------------------------------------------------------------------------ two hosts

ADDRESSES = ("10.78.0.1", "10.78.0.2")


@dataclass(frozen=True)
class TwoHosts:
    near: str  # their names, which are those of the namespaces too
    far: str
    ssh: str  # the command that reaches them
    user: str  # an ordinary one, for LAM
    daemons: tuple[int, ...]

    def inside(self, *command: str) -> list[str]:
        """A command as it runs on the near one."""
        return on(self.near, *command)

    @property
    def options(self) -> tuple[str, ...]:
        """With which netpipe starts processes on both."""
        hosts = f"{self.near},{self.far}"
        return ("--hosts", hosts, "--launcher", "ssh", "--remote-shell", self.ssh)

    def with_ranks(self, each: int) -> tuple[str, ...]:
        """The same, with so many processes on each."""
        return ("--hosts", f"{self.near}:{each},{self.far}:{each}", *self.options[2:])

    @contextlib.contextmanager
    def link(self, mtu: int, bits_per_s: int, bucket: int) -> Iterator[None]:
        """Another link between them for a while: packets of up to `mtu` bytes, and in each direction `bits_per_s`
        and what is in a bucket of `bucket` bytes.
        """
        needs("tc", "ethtool", packages="iproute2 ethtool")
        limit = ("tbf", "rate", f"{bits_per_s}bit", "burst", str(bucket), "latency", "100ms")
        # What is handed over at once would pass the link as one packet, whatever its MTU.
        joined = ("tso", "gso", "gro")
        with contextlib.ExitStack() as stack:
            for name in (self.near, self.far):
                here = ("ip", "netns", "exec", name)
                link = f"v{name}"
                stack.callback(run, *here, "ip", "link", "set", link, "mtu", "1500")
                run(*here, "ip", "link", "set", link, "mtu", str(mtu))
                stack.callback(
                    run, *here, "ethtool", "-K", link, *(word for one in joined for word in (one, "on"))
                )
                run(*here, "ethtool", "-K", link, *(word for one in joined for word in (one, "off")))
                stack.callback(run, *here, "tc", "qdisc", "del", "dev", link, "root")
                run(*here, "tc", "qdisc", "replace", "dev", link, "root", *limit)
            yield

    def carried_bytes(self) -> int:
        """By the link so far, in both directions."""
        carried = 0
        for name in (self.near, self.far):
            file = f"/sys/class/net/v{name}/statistics/tx_bytes"
            said = subprocess.run(
                ["ip", "netns", "exec", name, "cat", file],
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            )
            carried += int(said.stdout)
        return carried

    def left(self) -> list[str]:
        """What runs on them besides their sshd."""
        found = []
        for name in (self.near, self.far):
            for pid in pids_on(name):
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    if words and pid not in self.daemons and not words.startswith("sshd:"):
                        found.append(f"{name}: {words}")
        return found


def pids_on(name: str) -> list[int]:
    said = subprocess.run(
        ["ip", "netns", "pids", name], capture_output=True, text=True, timeout=20, check=True
    )
    return [int(pid) for pid in said.stdout.split()]


def clear(name: str) -> None:
    """What a failed test has left in this namespace, which is ours alone: it would outlive it."""
    for pid in pids_on(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def on(name: str, *command: str) -> list[str]:
    """With the host's name: an MPI that sees two of one name takes them for one host, and uses shared memory."""
    named = f"hostname {name} && exec {shlex.join(command)}"
    return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", named]


@pytest.fixture(scope="session")
def two_hosts(open_folder: Path) -> Iterator[TwoHosts]:
    needs("ip", "sshd", "ssh", "ssh-keygen", packages="iproute2 openssh-server openssh-client")
    tag = secrets.token_hex(3)
    names = (f"npa{tag}", f"npb{tag}")
    user = f"np{tag}"
    folder = open_folder / "ssh"
    folder.mkdir(mode=0o755)
    port = free_port()
    with contextlib.ExitStack() as stack:
        try:
            for name in names:
                run("ip", "netns", "add", name)
                stack.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True, check=False)
                stack.callback(clear, name)
        except subprocess.CalledProcessError:
            pytest.skip("network namespaces need a kernel that lets us make them")
        links = tuple(f"v{name}" for name in names)
        run(
            "ip",
            "link",
            "add",
            links[0],
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            links[1],
            "netns",
            names[1],
        )
        hosts = "127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for a, n in zip(ADDRESSES, names, strict=True))
        for name, link, address in zip(names, links, ADDRESSES, strict=True):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
            run("ip", "-n", name, "link", "set", link, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            etc = Path("/etc/netns") / name  # ip shows it to what it starts there in the place of /etc
            etc.mkdir(parents=True)
            stack.callback(shutil.rmtree, etc, ignore_errors=True)
            (etc / "hosts").write_text(hosts)
        run(
            "useradd",
            "--no-create-home",
            "--home-dir",
            str(folder),
            "--shell",
            "/bin/sh",
            "--password",
            "*",
            user,
        )
        stack.callback(subprocess.run, ["userdel", user], capture_output=True, check=False)
        ssh = write_ssh(folder, port, user)
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        daemons = []
        for name, address in zip(names, ADDRESSES, strict=True):
            command = [shutil.which("sshd") or "sshd", "-D", "-e", "-f", str(folder / "sshd_config")]
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            daemon = subprocess.Popen(
                on(name, *command, "-o", f"ListenAddress={address}"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            stack.callback(end, daemon)
            daemons.append(daemon.pid)
        made = TwoHosts(*names, ssh, user, tuple(daemons))
        for name in names:
            hello = made.inside(*shlex.split(ssh), name, "true")
            wait_until(
                lambda hello=hello: subprocess.run(hello, capture_output=True, check=False).returncode == 0,  # type: ignore[misc]
                f"sshd of {name} answers",
            )
        yield made


def write_ssh(folder: Path, port: int, user: str) -> str:
    """Keys and settings of both sides; the command that uses them."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host_key"))
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
    shutil.copy(folder / "key", folder / "user_key")  # ssh takes no key that others may read
    shutil.chown(folder / "user_key", user)
    (folder / "sshd_config").write_text(
        f"Port {port}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/key.pub\nStrictModes no\nUsePAM no\n"
        f"PidFile none\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxStartups 100\n"
    )
    (folder / "ssh_config").write_text(
        f"Port {port}\nIdentityFile {folder}/key\nIdentityFile {folder}/user_key\nIdentitiesOnly yes\nBatchMode yes\n"
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\nLogLevel ERROR\n"
    )
    return f"ssh -F {folder}/ssh_config"


# ---------------------------------------------------------------------------------------------------------- Slurm

SLURM = """ClusterName=netpipe
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=2
FirstJobId={first}
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


@pytest.fixture(scope="session")
def slurm(open_folder: Path) -> Iterator[Path]:
    """The SLURM_CONF of a cluster of this one machine."""
    needs(
        *("munged", "slurmctld", "slurmd", "srun"),
        packages="munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins libpmi2-0",
    )
    folder = open_folder / "slurm"
    for name in ("", "state", "spool"):
        (folder / name).mkdir(mode=0o755)
    conf = folder / "slurm.conf"
    conf.write_text(
        SLURM.format(
            host=socket.gethostname(),
            folder=folder,
            controller=free_port(),
            daemon=free_port(),
            cpus=os.cpu_count(),
            first=secrets.randbelow(1 << 24) + 1,  # libraries name what they leave after it
        )
    )
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(os.urandom(1024))
    munge = [f"--{what}={folder}/munged.{what[:4]}" for what in ("pid-file", "log-file", "seed-file")]
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))

        def start(*command: str) -> None:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            stack.callback(end, process)

        def idle() -> bool:
            said = subprocess.run(
                ["sinfo", "-h", "-o", "%T"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            return said.stdout.strip() == "idle"

        start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={folder}/munge.socket",
            *munge,
        )
        wait_until((folder / "munge.socket").exists, "munged listens")
        start("slurmctld", "-D", "-c", "-f", str(conf))
        start("slurmd", "-D", "-c", "-f", str(conf))
        wait_until(idle, "Slurm is ready")
        yield conf


def jobs_of(conf: Path) -> set[str]:
    """The numbers of all that this Slurm was ever asked for."""
    command = ("squeue", "--noheader", "--states=all", "--format=%i")
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())
