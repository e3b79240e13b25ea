# SPDX-License-Identifier: Apache-2.0
"""The recipes in packaging/ in the hands of the programs that they are for: ReFrame runs its test, EasyBuild finds all
that its recipe needs, Debian's tools build the package and look it over. tests/python/test_packages.py holds what they
say to pyproject.toml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import ROOT, copy_sources, run

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
    """The folder with `reframe` and `eb`, in an environment of their own."""
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
