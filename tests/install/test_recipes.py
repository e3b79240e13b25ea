# SPDX-License-Identifier: Apache-2.0
"""The recipes in packaging/ in the hands of the programs that they are for: ReFrame runs its test, EasyBuild finds all
that its recipe needs, Debian's tools build the package and look it over, buildah builds the container, cibuildwheel
reads its rules. Spack itself cannot be had from a registry: its recipe is followed by hand.
tests/python/test_packages.py holds what they say to pyproject.toml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import BUILT_IN, ROOT, copy_sources, quick_wheel, run

from spack_recipe import Recipe

PACKAGING = ROOT / "packaging"
VERSION = (ROOT / "VERSION").read_text().strip()
WHEELHOUSE = ROOT / ".venv" / "wheelhouse"
LMOD = Path("/usr/share/lmod/lmod/libexec/lmod")
SUITE = """summary = "What ReFrame is to read"
source = "this test"
[[run]]
name = "both"
variants = ["tcp", "unix"]
sizes = "8,64k"
budget = 0.2
launches = 1
[[table]]
title = "Points"
run = "both"
"""

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `reframe`, `eb` and `cibuildwheel`, in an environment of their own."""
    folder = tmp_path_factory.mktemp("recipes")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "--disable-pip-version-check")
    wanted = ("--requirement", ROOT / "requirements" / "recipes.txt", "--find-links", WHEELHOUSE)
    done = subprocess.run(
        [*pip, "install", "--quiet", "--retries", "1", *wanted], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"requirements/recipes.txt cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    return folder / "venv" / "bin"


# ----------------------------------------------------------------------------------------------------------- ReFrame


def reframe(programs: Path, folder: Path, *words: str, code: int = 0) -> str:
    """In a folder of its own, with the netpipe of this checkout, for a suite that lies there."""
    netpipe = Path(sys.executable).parent / "netpipe"
    given = (f"NetpipeSuite.suite={folder / 'mine.toml'}", f"NetpipeSuite.netpipe={netpipe}")
    settings = [word for one in given for word in ("-S", one)]
    recipe = ("--nocolor", "--prefix", folder / "reframe", "-c", PACKAGING / "reframe" / "netpipe_suite.py")
    return run(programs / "reframe", *recipe, *settings, *words, cwd=folder, code=code, TMPDIR=str(folder))


def test_reframe_lists_the_test_and_not_its_base(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    said = reframe(programs, tmp_path, "--list")
    assert re.findall(r"^- (\w+)", said, re.MULTILINE) == ["NetpipeSuite"]


def test_reframe_runs_a_suite_and_reads_its_numbers(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    report = tmp_path / "report.json"
    reframe(programs, tmp_path, "--run", "--keep-stage-files", "--report-file", str(report))
    (one,) = json.loads(report.read_text())["runs"][0]["testcases"]
    assert one["result"] == "pass"
    read = {name.split(":")[-1]: value[0] for name, value in one["perfvalues"].items()}
    (record,) = (tmp_path / "reframe").rglob("both.jsonl")
    points = [json.loads(line) for line in record.read_text().splitlines() if '"type":"point"' in line]
    wanted = {}
    for point in points:
        curve = f"{point['variant']}/{point['pattern']}"
        if point["size_bytes"] == 8:
            wanted[f"{curve}/latency"] = point["median_ns"] / 1e3  # us
        else:
            wanted[f"{curve}/rate"] = point["bytes_per_s"] * 8 / 1e6  # Mbps
    assert len(wanted) == 4
    assert read == pytest.approx(wanted)


def test_a_suite_that_fails_fails_the_test_of_reframe(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE.replace("budget", "budged"))
    said = reframe(programs, tmp_path, "--run", code=1)
    assert "netpipe ended with exit code 2" in said
    assert "has an unknown key 'budged'" in said


# ---------------------------------------------------------------------------------------------------------- EasyBuild


def eb(programs: Path, folder: Path, *words: str) -> str:
    if not LMOD.exists():
        pytest.skip("Lmod, without which EasyBuild does nothing, is not installed (apt install lmod)")
    (recipe,) = (PACKAGING / "easybuild").glob("*.eb")
    (folder / "temporary").mkdir()
    places = ("--prefix", folder / "easybuild", "--tmpdir", folder / "temporary")
    given = ("--allow-use-as-root-and-accept-consequences", "--modules-tool", "Lmod", *places)
    found = {"EB_PYTHON": str(programs / "python"), "LMOD_CMD": str(LMOD)}
    return run(programs / "eb", recipe, *given, *words, cwd=folder, **found)


def test_easybuild_finds_no_fault_with_the_style_of_its_recipe(programs: Path, tmp_path: Path) -> None:
    assert "All style checks PASSed" in eb(programs, tmp_path, "--check-style")


def test_easybuild_finds_every_dependency(programs: Path, tmp_path: Path) -> None:
    said = eb(programs, tmp_path, "--dry-run", "--robot")
    planned = re.findall(r"^ \* \[.\] .*\(module: ([^)]+)\)$", said, re.MULTILINE)
    assert planned[-1] == f"netpipe/{VERSION}-gfbf-2024a"
    for needed in ("UCX/1.16.0-", "libfabric/1.21.0-", "polars/1.28.1-", "plotly.py/5.24.1-", "OpenSSL/3"):
        assert [one for one in planned if one.startswith(needed)], (needed, planned)


# ------------------------------------------------------------------------------------------------------------- Debian


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with the packaging where Debian's tools look for it, beside the archive that they begin with."""
    if shutil.which("dpkg-source") is None:
        pytest.skip("dpkg-source is not installed (apt install dpkg-dev)")
    folder = tmp_path_factory.mktemp("debian")
    sources = copy_sources(folder / f"netpipe-worker-{VERSION}")
    with tarfile.open(folder / f"netpipe-worker_{VERSION}.orig.tar.gz", "w:gz") as archive:
        archive.add(sources, sources.name)
    shutil.copytree(PACKAGING / "debian", sources / "debian")
    return sources


def test_dpkg_source_makes_a_source_package(debian: Path) -> None:
    run("dpkg-source", "--build", debian.name, cwd=debian.parent)
    (description,) = debian.parent.glob("*.dsc")
    assert "Binary: netpipe-worker\n" in description.read_text()
    run("dpkg-source", "--extract", description.name, "again", cwd=debian.parent)
    assert (debian.parent / "again/debian/rules").stat().st_mode & 0o111
    assert (debian.parent / "again/CMakeLists.txt").read_bytes() == (ROOT / "CMakeLists.txt").read_bytes()


@pytest.fixture(scope="module")
def package(debian: Path) -> Path:
    if shutil.which("dh") is None:
        pytest.skip("debhelper is not installed (apt install debhelper)")
    lacking = subprocess.run(["dpkg-checkbuilddeps"], cwd=debian, capture_output=True, text=True, check=False)
    if lacking.returncode != 0:
        pytest.skip(lacking.stderr.strip())
    # As the other installations here: quickly, and with the compiler's cache.
    quick = {
        "DEB_BUILD_OPTIONS": f"noopt parallel={os.cpu_count()}",
        "DEB_CFLAGS_APPEND": "-g0",
        "DEB_CXXFLAGS_APPEND": "-g0",
    }
    run("dpkg-buildpackage", "-us", "-uc", "-b", cwd=debian, **quick)
    (made,) = (one for one in debian.parent.glob("netpipe-worker_*.deb"))
    return made


def test_the_worker_of_the_debian_package_measures(package: Path, tmp_path: Path) -> None:
    run("dpkg-deb", "--extract", package, tmp_path / "root", cwd=tmp_path)
    native = tmp_path / "root" / "usr"
    listing = json.loads(run(native / "bin/netpipe-worker", "list", cwd=tmp_path))
    assert {"memcpy", "shm", "tcp", "ucx", "libfabric", "verbs", "zmq", "nng", "grpc", "pvm"} <= {
        one["name"] for one in listing["modules"]
    }
    # The command of a wheel with this worker, as docs/how-to/install.md says.
    layers = ("memcpy", "shm", "tcp", "tcp:tls=openssl")
    command = ("run", *layers, "--sizes", "8,64k", "--budget", "0.2", "--launches", "1", "--verify")
    netpipe = Path(sys.executable).parent / "netpipe"
    run(netpipe, *command, "--quiet", cwd=tmp_path, NETPIPE_NATIVE=str(native))
    assert (tmp_path / "run.jsonl").read_text().count('"type":"point"') == 2 * len(layers)


def test_lintian_finds_no_error_in_the_debian_package(package: Path) -> None:
    """But the maintainer's address, which is for whoever uploads the package to write."""
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed (apt install lintian)")
    address = "bogus-mail-host,bogus-mail-host-in-debian-changelog"
    run(
        "lintian",
        "--allow-root",
        "--fail-on",
        "error",
        "--suppress-tags",
        address,
        package,
        cwd=package.parent,
    )


# ---------------------------------------------------------------------------------------------------------- container


def test_every_package_of_the_container_is_one_of_debian_12() -> None:
    system = Path("/etc/os-release")
    if not system.exists() or not re.search(r'^VERSION_ID="12"$', system.read_text(), re.MULTILINE):
        pytest.skip("this is not Debian 12, from which the container is made")
    text = (PACKAGING / "container" / "Containerfile").read_text().replace("\\\n", " ")
    named = re.findall(r"apt-get install -y --no-install-recommends +([^&]+)", text)
    assert len(named) == 2
    wanted = {*" ".join(named).split()}
    known = subprocess.run(
        ["apt-cache", "show", *sorted(wanted)], capture_output=True, text=True, check=False
    )
    found = {*re.findall(r"^Package: (\S+)$", known.stdout, re.MULTILINE)}
    if not found:
        pytest.skip("apt has no list of packages (apt-get update)")
    assert wanted - found == set(), "Debian 12 has no such packages"


# Whom this machine trusts, which pip in the container is told.
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")


@dataclass
class Buildah:
    """With images of its own, and processes that share the network of this machine."""

    folder: Path

    def __call__(self, command: str, *words: str | Path, **more: str) -> str:
        storage = ("--root", self.folder / "images", "--runroot", self.folder / "run")
        return run("buildah", *storage, command, *words, cwd=self.folder, **more)

    @property
    def as_here(self) -> list[str]:
        """Options of `build` and `run`: no runtime of containers is needed, and packages come from where this machine
        has them. Nothing of it is in the image.
        """
        if not TRUSTED.exists():
            return ["--isolation=chroot", "--network=host"]
        conf = self.folder / "pip.conf"
        conf.write_text("[global]\ncert = /run/trusted.pem\n")
        volumes = (f"--volume={conf}:/etc/pip.conf:ro", f"--volume={TRUSTED}:/run/trusted.pem:ro")
        return ["--isolation=chroot", "--network=host", *volumes]


@pytest.fixture(scope="module")
def image(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """The image `netpipe`. The one that it begins with is made of Debian's packages: no registry of images is asked."""
    for tool in ("buildah", "mmdebstrap"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (apt install {tool})")
    if os.geteuid() != 0:
        pytest.skip("only root builds images here")
    buildah = Buildah(tmp_path_factory.mktemp("image"))
    debian = buildah.folder / "debian.tar"
    where = (SOURCES,) if SOURCES.exists() else ()
    run("mmdebstrap", "--quiet", "--variant=apt", "bookworm", debian, *where, cwd=buildah.folder)
    buildah("from", "--name", "base", "scratch")
    buildah("add", "--quiet", "base", debian, "/")
    buildah("commit", "--quiet", "--rm", "base", "debian:12")
    debian.unlink()
    recipe = PACKAGING / "container" / "Containerfile"
    buildah(
        "build", "--quiet", "--pull-never", "--tag=netpipe", *buildah.as_here, f"--file={recipe}", sources
    )
    yield buildah
    buildah("rm", "--all")
    buildah("rmi", "--all", "--force")


@pytest.mark.takes(1800)
def test_the_container_measures_with_both_of_its_mpi_libraries(image: Buildah) -> None:
    image("from", "--pull-never", "--name", "one", "netpipe")
    layers = ("memcpy", "shm", "tcp", "ucx", "libfabric", "mpi@openmpi", "mpi@mpich")
    words = ("run", *layers, "--sizes", "8,64k", "--budget", "0.2", "--launches", "1", "--verify", "--quiet")
    said = image("run", *image.as_here, "one", "--", "netpipe", *words, "-o", "-")
    points = [line for line in said.splitlines() if '"type":"point"' in line]
    assert len(points) == 2 * len(layers)
    assert all('"verified_bytes":0' not in line for line in points)
    script = "test -e /usr/local/share/man/man1/netpipe.1 && ! command -v cmake"
    image("run", *image.as_here, "one", "--", "sh", "-c", script)


# --------------------------------------------------------------------------------------------------------------- Spack

# How PythonPipBuilder of spack-packages calls pip (repos/spack_repo/builtin/build_systems/python.py).
OF_SPACK = (
    "--no-input",
    "--no-cache-dir",
    "--disable-pip-version-check",
    "install",
    "--no-deps",
    "--ignore-installed",
    "--no-build-isolation",
    "--no-warn-script-location",
    "--no-index",
)


@pytest.fixture(scope="module")
def prefix(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spack would have installed netpipe."""
    folder = tmp_path_factory.mktemp("spack") / "prefix"
    pip = (sys.executable, "-m", "pip", *OF_SPACK, *quick_wheel(), f"--prefix={folder}", ".")
    run(*pip, cwd=sources)
    shutil.rmtree(sources / BUILT_IN)
    return folder


def in_prefix(prefix: Path) -> dict[str, str]:
    (packages,) = prefix.glob("lib*/python3*/site-packages")
    return {"PYTHONPATH": str(packages)}


def test_what_spack_runs_after_the_installation_succeeds(prefix: Path, tmp_path: Path) -> None:
    """The recipe's own test, with stand-ins for what Spack gives it."""
    recipe = Recipe.read()
    assert recipe.after == ["install"]
    recipe.measure(prefix, lambda program, words: run(program, *words, cwd=tmp_path, **in_prefix(prefix)))
    assert (tmp_path / "run.jsonl").read_text().count('"type":"point"') == 4


def test_spack_can_import_every_package_that_it_finds(prefix: Path, tmp_path: Path) -> None:
    """Its `test_imports`: each folder with an __init__.py."""
    (packages,) = prefix.glob("lib*/python3*/site-packages")
    found = [".".join(one.parent.relative_to(packages).parts) for one in packages.rglob("__init__.py")]
    assert "netpipe.cli" in found
    words = f"import importlib\nfor module in {sorted(found)}:\n    importlib.import_module(module)"
    run(sys.executable, "-c", words, cwd=tmp_path, **in_prefix(prefix))


# --------------------------------------------------------------------------------------------------------- cibuildwheel


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_cibuildwheel_reads_its_rules(programs: Path, architecture: str, tmp_path: Path) -> None:
    """One wheel for all Pythons. Its images are not downloaded, so nothing is built."""
    if not (programs / "cibuildwheel").is_file():
        pytest.skip("this cibuildwheel needs Python 3.11")
    words = ("--print-build-identifiers", "--platform", "linux", "--archs", architecture)
    said = run(programs / "cibuildwheel", *words, ROOT, cwd=tmp_path)
    assert said.split() == [f"cp311-manylinux_{architecture}"]
