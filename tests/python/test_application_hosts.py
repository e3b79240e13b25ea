# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""Ranks of application kernels on several hosts: how each launcher is told, and that what is labelled was in force."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from test_kernel_table import OPENMPI, result
from test_launch_jobs import TWO_HOSTS, job
from two_libraries import Here, here, refused  # noqa: F401

from netpipe import libraries
from netpipe.applications import running
from netpipe.applications.plan import Planned, Task
from netpipe.cli.apps import mappings_of, ranks_of
from netpipe.failure import USAGE, Failure
from netpipe.kernels.lines import encode
from netpipe.kernels.table import rows
from netpipe.launch.jobs import Settings
from netpipe.libraries.starting.hosts import BLOCK, CYCLIC, Host, Hosts, order, parse
from netpipe.render.drawing.kernels import subtitle
from netpipe.render.drawing.picture import Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import times
from netpipe.render.terminal.apps import notes, print_table

if TYPE_CHECKING:
    from conftest import Netpipe


def command(family: str, tmp_path: Path, version: str, mapping: str, **more: Any) -> str:
    made = libraries.launchers()[family]().command(
        job(family, tmp_path, version, **{"hosts": TWO_HOSTS, "mapping": mapping, **more})
    )
    return " ".join(made.argv)


# ----------------------------------------------------------------------------------------------------- the launchers


def test_ranks_are_dealt_in_blocks_or_in_turn() -> None:
    assert order(TWO_HOSTS, BLOCK) == (0, 0, 1, 1)
    assert order(TWO_HOSTS, CYCLIC) == (0, 1, 0, 1)
    assert order((Host("a", 1), Host("b", 3)), BLOCK) == (0, 1, 1, 1)
    assert order((), BLOCK) == order((), CYCLIC) == ()
    with pytest.raises(Failure, match="where each has as many; a:1,b:3 have not") as caught:
        order((Host("a", 1), Host("b", 3)), CYCLIC)
    assert caught.value.exit_code == USAGE


@pytest.mark.parametrize(
    ("family", "version", "block", "cyclic"),
    [
        (
            "openmpi",
            "Open MPI 4.1.4",
            "--map-by slot --oversubscribe",
            "--map-by node --oversubscribe --rank-by node",
        ),
        (
            "openmpi",
            "Open MPI 5.0.11",
            "--map-by slot:OVERSUBSCRIBE",
            "--map-by node:OVERSUBSCRIBE --rank-by node",
        ),
    ],
)
def test_open_mpi_maps_and_numbers_by_node(
    family: str, version: str, block: str, cyclic: str, tmp_path: Path
) -> None:
    assert f"{block} -x" in command(family, tmp_path, version, BLOCK)
    assert f"{cyclic} -x" in command(family, tmp_path, version, CYCLIC)


@pytest.mark.parametrize("family", ["mpich", "intel"])
def test_hydra_goes_through_hosts_of_one_rank_again_and_again(family: str, tmp_path: Path) -> None:
    for mapping, lines in ((BLOCK, "a:2\nb:2\n"), (CYCLIC, "a:1\nb:1\n")):
        assert "hydra-hosts" in command(family, tmp_path, "1", mapping)
        assert (tmp_path / "hydra-hosts").read_text() == lines


def test_slurm_has_a_line_for_each_rank(tmp_path: Path) -> None:
    for mapping, lines in ((BLOCK, "a\na\nb\nb\n"), (CYCLIC, "a\nb\na\nb\n")):
        made = libraries.launchers()["srun"]().command(
            job("mpich", tmp_path, hosts=TWO_HOSTS, mapping=mapping)
        )
        assert "--distribution=arbitrary" in made.argv
        assert Path(made.environment["SLURM_HOSTFILE"]).read_text() == lines


def test_lam_has_a_line_for_each_rank(tmp_path: Path) -> None:
    for mapping, nodes in ((BLOCK, "0011"), (CYCLIC, "0101")):
        words = command("lam", tmp_path, "LAM/MPI 7.1.4", mapping, program=("/a b/cg", "--json"))
        assert words.endswith(str(tmp_path / "lam-ranks"))
        assert " -np " not in words
        lines = (tmp_path / "lam-ranks").read_text().splitlines()
        assert lines == [f"n{node} '/a b/cg' --json" for node in nodes]
    assert "-np 4" in command("lam", tmp_path, "LAM/MPI 7.1.4", BLOCK, hosts=())


# ---------------------------------------------------------------------------------------------------------- the plan


def planned(
    here: Here, *mappings: str, hosts: str = "a,b", ranks: tuple[int, ...] = (4,), **more: Any
) -> Planned:
    settings = Settings(parse(hosts), remote_shell=("ssh", "-p", "2222"))
    return here.plan(
        "cg", on=("mpi@one",), ranks=ranks, launching=settings, mappings=mappings or (BLOCK,), **more
    )


def test_each_mapping_is_a_cell_of_its_own(here: Here) -> None:
    found = planned(here, BLOCK, CYCLIC)
    assert [task.cell.text for task in found.tasks] == [
        f"cg class S on 4 ranks, {mapping}, over mpi@one" for mapping in (BLOCK, CYCLIC)
    ]
    assert [task.order for task in found.tasks] == [(0, 0, 1, 1), (0, 1, 0, 1)]
    assert found.hosts == ("a", "b")
    (alone,) = here.plan("cg", on=("mpi@one",), ranks=(4,)).tasks
    assert (alone.cell.mapping, alone.order, alone.hosts) == ("", (), ())


def test_ranks_are_bound_on_each_host_in_their_order_there(here: Here) -> None:
    block, cyclic = planned(here, BLOCK, CYCLIC, pin="3,1").tasks
    assert (block.pin, cyclic.pin) == ((3, 1, 3, 1), (3, 3, 1, 1))
    here.processors = 2
    (fits,) = planned(here).tasks
    assert (fits.pin, fits.oversubscribed) == ((0, 1, 0, 1), False)
    (shared,) = planned(here, ranks=(8,)).tasks
    assert (set(shared.pin), shared.oversubscribed) == ({None}, True)


def test_settings_and_memory_are_those_of_the_ranks_of_one_host(here: Here) -> None:
    (task,) = planned(here).tasks
    assert task.environment == {"SETTING": "mpi@one 2"}
    here.free = 5 << 29  # 2.5 GiB
    assert planned(here, classes=("A",)).tasks
    assert "on each host, needs 4" in refused(3, lambda: planned(here, classes=("A",), ranks=(8,)))


def test_between_hosts_libraries_run_as_they_choose_and_over_tcp(here: Here) -> None:
    found = here.plan("cg", ranks=(2,), launching=Settings(parse("a,b")))
    assert {task.cell.variant for task in found.tasks} == {
        "mpi@one", "mpi@one:transport=tcp", "mpi@two", "mpi@two:transport=tcp",
    }  # fmt: skip
    assert not found.notes


def test_shared_memory_alone_between_hosts_is_not_available(here: Here) -> None:
    hosts = Settings(parse("a,b"))
    for variant in ("mpi:transport=shm", "mpi@one:eager=64k,transport=shm"):
        said = refused(3, lambda variant=variant: here.plan("cg", on=(variant,), launching=hosts))
        assert "shared memory ends at the host; choose another transport" in said
    both = here.plan("cg", on=("mpi:transport=shm", "mpi:transport=tcp"), ranks=(2,), launching=hosts)
    assert {task.cell.variant for task in both.tasks} == {"mpi@one:transport=tcp", "mpi@two:transport=tcp"}
    assert "shared memory ends at the host" in both.notes[0]
    assert here.plan("cg", on=("mpi@one:transport=shm",), ranks=(2,), launching=Settings(parse("a"))).tasks


def test_ranks_that_do_not_spread_are_left_out_with_the_reason(here: Here) -> None:
    found = planned(here, ranks=(1, 2, 4))
    assert [task.cell.ranks for task in found.tasks] == [2, 4]
    assert "1 rank does not spread evenly over 2 hosts" in found.notes[0]


@pytest.mark.parametrize(
    ("hosts", "ranks", "mapping", "says"),
    [
        ("a,b", (3,), BLOCK, "3 ranks do not spread evenly over 2 hosts"),
        ("a:1,b:3", (4,), CYCLIC, "where each has as many"),
    ],
)
def test_hosts_that_cannot_have_it_are_refused_before_anything_is_compiled(
    here: Here, hosts: str, ranks: tuple[int, ...], mapping: str, says: str
) -> None:
    assert says in refused(USAGE, lambda: planned(here, mapping, hosts=hosts, ranks=ranks))
    assert here.built == []


def test_the_ranks_that_are_run_by_default_fill_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    assert ranks_of(None) == (2, 4)
    assert ranks_of(None, parse("a,b")) == (2, 4, 8)
    assert ranks_of(None, parse("a,b,c")) == (3,)
    assert ranks_of(None, parse("a:3,b:1")) == (4,)
    assert ranks_of("2,6", parse("a,b")) == (2, 6)


def test_a_mapping_needs_hosts_and_a_name() -> None:
    assert mappings_of(None, Hosts()) == (BLOCK,)
    assert mappings_of("cyclic,block", parse("a,b")) == (CYCLIC, BLOCK)
    assert "name the hosts with --hosts" in refused(USAGE, lambda: mappings_of("cyclic", Hosts()))
    for text in ("", "spiral", "block,spiral"):
        assert "--map takes block or cyclic" in refused(
            USAGE, lambda text=text: mappings_of(text, parse("a,b"))
        )


def test_the_command_by_hand_writes_what_its_launcher_reads(here: Here, tmp_path: Path) -> None:
    settings = Settings(parse("a,b"), remote_shell=("ssh", "-p", "2222"))
    (task,) = here.plan("cg", on=("mpi@two",), ranks=(4,), launching=settings, mappings=(CYCLIC,)).tasks
    words = running.by_hand(task)
    before, _, last = words.rpartition(" && ")
    assert "-f ./hydra-hosts" in last
    assert "-launcher-exec ./remote-shell" in last
    subprocess.run(["sh", "-c", before], cwd=tmp_path, check=True, timeout=10)
    assert (tmp_path / "hydra-hosts").read_text() == "a:1\nb:1\n"
    assert shlex.split((tmp_path / "remote-shell").read_text())[-4:] == ["ssh", "-p", "2222", "$@"]
    assert (tmp_path / "remote-shell").stat().st_mode & 0o100


# ------------------------------------------------------------------------------------------------------ what was so


def mapped(here: Here, mapping: str) -> Task:
    (task,) = planned(here, mapping).tasks
    return task


def test_a_mapping_that_was_in_force_is_believed(here: Here) -> None:
    assert running._mapped_otherwise(mapped(here, BLOCK), ["n1", "n1", "n2", "n2"]) == ""
    assert running._mapped_otherwise(mapped(here, CYCLIC), ["n1", "n2", "n1", "n2"]) == ""


@pytest.mark.parametrize(
    ("mapping", "places", "says"),
    [
        (BLOCK, ["n1", "n2", "n1", "n2"], "rank 1 was to run on a (block mapping) and ran on n2"),
        (
            CYCLIC,
            ["n1", "n1", "n2", "n2"],
            "rank 1 was to run on b (cyclic mapping) and ran on n1, with ranks of a",
        ),
        (BLOCK, ["n1"] * 4, "rank 2 was to run on b (block mapping) and ran on n1, with ranks of a"),
        (BLOCK, ["n1", "n1", "n2"], "rank 3 was to run on b"),
        (BLOCK, [], "two hosts have one name"),
    ],
)
def test_a_mapping_that_was_not_in_force_is_refused(
    here: Here, mapping: str, places: list[str], says: str
) -> None:
    assert says in running._mapped_otherwise(mapped(here, mapping), places)


# ------------------------------------------------------------------------------------------------------- what is shown

PLACES = {BLOCK: ["n1", "n1", "n2", "n2"], CYCLIC: ["n1", "n2", "n1", "n2"]}
MEASURED = [
    result(
        seconds + launch / 1000, ranks=4, hosts=2, mapping=mapping, places=PLACES[mapping], launch=launch + 1
    )
    for mapping, seconds in ((BLOCK, 1.0), (CYCLIC, 2.0))
    for launch in range(6)
]


def test_mappings_are_compared_and_have_a_column() -> None:
    found = rows(MEASURED)
    console = Console(width=100, highlight=False)
    with console.capture() as capture:
        print_table(console, found, 2)
    header, first, second, *_ = capture.get().splitlines()
    assert header.split() == ["kernel", "ranks", "map", "over", "time", "Mop/s", "to", "fastest"]
    assert first.split()[2:4] == ["4", "block"]
    assert first.endswith("fastest")
    assert second.split()[1] == "cyclic"
    assert second.endswith("2.00 ×")


def test_on_a_narrow_terminal_names_are_whole() -> None:
    console = Console(width=80, highlight=False)
    some = [result(3.0, ranks=2, mapping=BLOCK, places=["n1", "n2"]), *MEASURED]
    with console.capture() as capture:
        print_table(console, rows(some), 2)
    header, first, *_ = capture.get().splitlines()
    assert "Mop/s" not in header
    assert OPENMPI.partition(":")[0] in first
    assert "…" not in capture.get()


def test_where_the_ranks_said_that_they_were_is_told() -> None:
    said = notes(rows(MEASURED), 2)
    assert said[0] == (
        "On n1 and n2, as the ranks say; block: consecutive ranks are on one host; cyclic: each next rank is on the "
        "next host."
    )
    assert not any("Oversubscribed" in one for one in said), "two on each host have processors of their own"


def test_speed_ups_are_those_of_the_same_mapping() -> None:
    few = [result(3.0, ranks=2, hosts=2, mapping=mapping, places=["n1", "n2"]) for mapping in (BLOCK, CYCLIC)]
    found = {(row.cell.ranks, row.cell.mapping): row.speedup for row in rows([*few, *MEASURED])}
    assert found[4, BLOCK] == pytest.approx(3.0, rel=0.01)
    assert found[4, CYCLIC] == pytest.approx(1.5, rel=0.01)


def test_a_mapping_is_a_line_of_its_own_in_the_colour_of_its_library() -> None:
    found = rows(MEASURED)
    (panel,) = times.panels(Scope((), kernels=tuple(found)))
    (view,) = panel.views
    assert isinstance(view, Picture)
    assert [line.label for line in view.lines] == [f"{OPENMPI}, block", f"{OPENMPI}, cyclic"]
    assert len({line.color for line in view.lines}) == 1
    assert len({line.dash for line in view.lines}) == 2
    assert "4 processes of 2 hosts" in subtitle(found)


def test_files_from_before_are_of_one_host(tmp_path: Path) -> None:
    line = encode(result(1.0)).decode()
    assert "mapping" not in line
    assert "places" not in line
    assert rows([result(1.0)])[0].cell.mapping == ""


def test_a_mapping_without_hosts_is_a_sentence(netpipe: Netpipe, here: Here) -> None:
    said = netpipe("apps", "cg", "--map", "cyclic")
    assert said.code == 2
    assert "name the hosts with --hosts" in said.err
