# SPDX-License-Identifier: Apache-2.0
"""What the guest boots: Debian's kernel, which is fetched and unpacked and never installed, and an initramfs with
busybox, the kernel modules that are needed, and init.sh. Both lie in one folder and are made only once.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

INIT = Path(__file__).with_name("init.sh")
PACKAGE = "linux-image-amd64"  # its dependency is the kernel
# Folders and files of kernel modules, below lib/modules/VERSION/kernel: those that init.sh loads and what they need.
MODULES = (
    "crypto/crc32*",
    "crypto/cryptd.ko",
    "crypto/crypto_simd.ko",
    "crypto/ctr.ko",
    "crypto/gcm.ko",
    "crypto/gf128mul.ko",
    "crypto/ghash-generic.ko",
    "arch/x86/crypto/aesni-intel.ko",
    "arch/x86/crypto/ghash-clmulni-intel.ko",
    "lib/*",
    "arch/x86/crypto/crc32*",
    "drivers/virtio/*",
    "drivers/net/virtio_net.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/dummy.ko",
    "drivers/net/veth.ko",
    "net/core/*",
    "net/9p/9pnet.ko",
    "net/9p/9pnet_virtio.ko",
    "net/ipv4/udp_tunnel.ko",
    "net/ipv6/ip6_udp_tunnel.ko",
    "net/sched/sch_netem.ko",
    "net/sctp/*",
    "net/tls/*",
    "fs/9p/*",
    "fs/netfs/*",
    "fs/fscache/*",
    "fs/overlayfs/*",
    "fs/configfs/*",
    "drivers/infiniband/core/*",
    "drivers/infiniband/sw/rxe/*",
)
FETCH_S = 300
STEP_S = 120


class BuildError(Exception):
    """What is missing to build it, in one sentence."""


def program(name: str, package: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        raise BuildError(f"{name} is not installed: apt install {package}")
    return found


def run(*words: str | Path, cwd: Path, limit_s: float = STEP_S) -> bytes:
    done = subprocess.run(words, cwd=cwd, capture_output=True, check=False, timeout=limit_s)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise BuildError(f"{' '.join(map(str, words))}: {said or f'exit code {done.returncode}'}")
    return done.stdout


def kernel_package(folder: Path) -> Path:
    """Fetches the package of the kernel that Debian's name for the newest one stands for."""
    depends = run(program("apt-cache", "apt"), "depends", PACKAGE, cwd=folder).decode()
    name = re.search(r"Depends: (linux-image-\S+)", depends)
    if name is None:
        raise BuildError(f"apt knows no kernel behind {PACKAGE}: is this Debian, and did apt-get update run?")
    run("apt-get", "download", name[1], cwd=folder, limit_s=FETCH_S)
    return next(folder.glob("linux-image-*.deb"))


def unpack(package: Path, into: Path) -> None:
    """The kernel and the modules above, which are a tenth of all."""
    tree = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    wanted = ["./boot/vmlinuz-*", "./lib/modules/*/modules.*"]
    wanted += [f"./lib/modules/*/kernel/{one}" for one in MODULES]
    done = subprocess.run(
        ["tar", "-x", "--wildcards", "-C", into, *wanted],
        stdin=tree.stdout,
        capture_output=True,
        text=True,
        check=False,
        timeout=STEP_S,
    )
    if tree.stdout is not None:
        tree.stdout.close()
    tree.wait(STEP_S)
    # tar fails when a pattern fits nothing: what another kernel has built in. What is missing the guest names.
    if not any(into.glob("boot/vmlinuz-*")):
        raise BuildError(f"{package.name} holds no kernel: {done.stderr.strip()}")


def initramfs(tree: Path, busybox: str) -> bytes:
    """An archive of the modules, busybox and init."""
    (tree / "bin").mkdir()
    shutil.copy(busybox, tree / "bin/busybox")
    shutil.copy(INIT, tree / "init")
    (tree / "init").chmod(0o755)
    (version,) = [one.name for one in (tree / "lib/modules").iterdir()]
    run(busybox, "depmod", "-b", tree, version, cwd=tree)
    names = "\n".join(str(one.relative_to(tree)) for one in sorted(tree.rglob("*"))).encode()
    done = subprocess.run(
        [busybox, "cpio", "-o", "-H", "newc"], cwd=tree, input=names, capture_output=True, check=True, timeout=STEP_S
    )
    return gzip.compress(done.stdout, compresslevel=1)


def build(folder: Path) -> tuple[Path, Path]:
    """The kernel and the initramfs in this folder, made if they are not there or if init.sh is newer."""
    kernel, initrd = folder / "vmlinuz", folder / "initramfs"
    newest = max(INIT.stat().st_mtime, Path(__file__).stat().st_mtime)
    if kernel.is_file() and initrd.is_file() and initrd.stat().st_mtime > newest:
        return kernel, initrd
    busybox = program("busybox", "busybox-static")
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "tree").mkdir(parents=True)
    packages = sorted(folder.glob("linux-image-*.deb"))
    package = packages[-1] if packages else kernel_package(folder)
    unpack(package, work / "tree")
    shutil.copy(next((work / "tree/boot").iterdir()), kernel)
    shutil.rmtree(work / "tree/boot")
    part = folder / "initramfs.part"
    part.write_bytes(initramfs(work / "tree", busybox))
    part.replace(initrd)
    shutil.rmtree(work)
    return kernel, initrd
