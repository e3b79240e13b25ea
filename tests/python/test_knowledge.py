# SPDX-License-Identifier: Apache-2.0
"""What the project knows stands in one place, where a search can tell. The debts are the other places that name it,
each with its reason; a paid debt that is still listed fails as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from netpipe.libraries import families

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "netpipe"
LAYERS = {toml.parent.name for toml in (ROOT / "src" / "modules").glob("*/module.toml")}
FAMILIES = {"openmpi", "mpich", "lam", "intel", "impi", "smpi", "simgrid"}

# Which layers there are, which is idle and which stands below which: the worker tells (`netpipe-worker list`).
LAYER_DEBTS = {
    "python/netpipe/cli/doctor.py": "a key of its JSON: the libraries that were added",
    "python/netpipe/launch/variants.py": "which layer a transport of an MPI stands on",
    "python/netpipe/libraries/__init__.py": "the layer of a family that names none: here, and nowhere else",
    "python/netpipe/libraries/intel/presets.py": "the value of I_MPI_FABRICS for shared memory",
    "python/netpipe/libraries/oshmem.py": "a family says whose libraries it is about",
    "python/netpipe/libraries/settings.py": "which variable a setting is depends on what messages stand on",
    "python/netpipe/libraries/unknown.py": "the family of an unknown MPI, which is called so too",
    "python/netpipe/peers/nccl_tests.py": "a peer says which layer its numbers are of",
    "python/netpipe/reading/layers.py": "the layers that idle and copy, and the stack in files that do not record it",
    "python/netpipe/render/figures/sensitivity.py": "time in MPI, which is no layer",
    "python/netpipe/render/palette.py": "a hue for each layer, also in runs of hosts where this one is not built",
    "python/netpipe/render/terminal/sensitivity.py": "time in MPI, which is no layer",
    "python/netpipe/tuning/library/transports.py": "the two libraries that say themselves what can carry messages",
}
FAMILY_DEBTS: dict[str, str] = {}
# The examples of rules are made-up runs, and name whatever a run may name.
FINDINGS = PACKAGE / "findings"


def constants(path: Path) -> Iterator[str]:
    """The strings of a file, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def files_that_name(names: Iterable[str], *left_out: Path) -> set[str]:
    """Files with a string that is one of these names, alone or with settings (`tcp:wait=poll`, `mpi@openmpi`)."""
    pattern = re.compile(rf"(\w+@)?({'|'.join(sorted(names))})([:@].*)?", re.DOTALL)
    return {
        str(path.relative_to(ROOT))
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(folder in path.parents for folder in left_out)
        and any(pattern.fullmatch(text) for text in constants(path))
    }


def assert_debts(found: set[str], debts: dict[str, str]) -> None:
    assert found - set(debts) == set(), "these repeat it: ask the one place that knows"
    assert set(debts) - found == set(), "these are paid: take them off the list"


@pytest.mark.gate
def test_python_names_no_layer() -> None:
    assert {"null", "memcpy", "shm", "pipe", "unix", "tcp"} <= LAYERS
    assert_debts(files_that_name(LAYERS, FINDINGS), LAYER_DEBTS)


@pytest.mark.gate
def test_families_are_named_by_their_own_files_alone() -> None:
    assert_debts(files_that_name(FAMILIES, PACKAGE / "libraries", FINDINGS), FAMILY_DEBTS)


def test_findings_know_no_option_of_one_family_alone() -> None:
    """The examples may: they are made-up runs of any library."""
    own = {word for one in families() if one.route for word in (one.route.option, one.route.daemon)}
    assert own, "some library has daemons"
    named = {path.name for path in FINDINGS.rglob("*.py") if own & set(constants(path))}
    assert named == set()


def test_size_suffixes_and_rooted_collectives_are_each_one_table() -> None:
    """units.py reads sizes, profiles/trace/calls.py says which collectives have a root."""
    for text, place in (('"k": 1 << 10', "units.py"), ('"Gatherv"}', "profiles/trace/calls.py")):
        files = [
            str(path.relative_to(PACKAGE))
            for path in sorted(PACKAGE.rglob("*.py"))
            if text in path.read_text()
        ]
        assert files == [place], text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64k", 65536),
        ("1", 1),
        ("0", 0),
        ("2G", 2 << 30),
        ("", None),
        ("k", None),
        ("1.5k", None),
        ("-1", None),
    ],
)
def test_a_size_is_read_as_the_worker_reads_it(text: str, size: int | None) -> None:
    from netpipe.units import bytes_of

    assert bytes_of(text) == size
