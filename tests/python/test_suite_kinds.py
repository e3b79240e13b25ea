# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""Kernels and profiles in a suite, job scripts, and the tables of IMB."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import synthetic
from profiled import made as call_of
from profiled import profile_of
from test_application_session import Stage, stage  # noqa: F401
from two_libraries import Here, here  # noqa: F401

from netpipe import cli
from netpipe.cli import suite as command_of
from netpipe.cli.suite import files, tables
from netpipe.cli.suite.batch import scripts
from netpipe.cli.suite.parts import Value
from netpipe.cli.suite.published import beside
from netpipe.cli.suite.runs.base import Done, Planned
from netpipe.kernels.lines import Result
from netpipe.kernels.table import rows
from netpipe.profiles.tables import tables as tables_of
from netpipe.reading import Reading
from netpipe.render.drawing.picture import NothingToDraw, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.export import imb
from netpipe.render.figures import speedup, times

APPS = """summary = "Kernels"
source = "this test"

[[run]]
name = "kernels"
kind = "apps"
kernels = ["cg", "sp"]
on = ["mpi@one"]
class = "S"
ranks = "2,4"
launches = 2
minutes = { default = 3 }

[[figure]]
title = "Times"
run = "kernels"
figure = "times"

[[figure]]
title = "Speed-up of CG"
run = "kernels"
figure = "speedup"
kernels = "cg"

[[table]]
title = "Table 2: Scalability"
run = "kernels"
shows = "times"
class = "S"
ranks = [2, 4]
printed = "class S"
[table.published]
"cg InfiniBand" = [2, ""]
"cg Myrinet" = [3.5, 4]
"""


def results(**seconds: list[float]) -> list[Result]:
    """name_ranks=[seconds of each launch]"""
    return [
        Result(name=key.partition("_")[0], problem="S", variant="mpi@one", ranks=int(key.partition("_")[2]),
               launch=launch, seconds=value, verified=True)
        for key, some in seconds.items()
        for launch, value in enumerate(some, start=1)
    ]  # fmt: skip


def test_kernels_are_run_drawn_and_tabled(
    here: Here,
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("netpipe.cli.suite.state.here", lambda suite, site: {"schema": 1})
    monkeypatch.setattr("netpipe.native.worst", lambda codes: max(codes, default=0))
    Path("mine.toml").write_text(APPS)
    code = cli.call(("suite", "run", "mine.toml"))
    out, err = capsys.readouterr()
    assert code == 0, err
    assert len(stage.ran) == 2 * 3  # cg on 2 and 4, sp on 4
    assert {path.name for path in Path("mine").iterdir()} == {
        "kernels.jsonl", "times.svg", "speed-up-of-cg.svg", "table-2-scalability.csv", "published.csv",
        "report.html", "suite.json",
    }  # fmt: skip
    found = list(csv.DictReader(Path("mine/table-2-scalability.csv").read_text().splitlines()))
    assert {(row["kernel"], row["ranks"], row["seconds"]) for row in found} == {
        ("cg", "2", "1.0"),
        ("cg", "4", "1.0"),
        ("sp", "4", "1.0"),
    }
    paper = {row["what"]: row for row in csv.DictReader(Path("mine/published.csv").read_text().splitlines())}
    assert paper["cg InfiniBand, seconds on 2 processes"]["here"] == "1.0"
    assert paper["cg Myrinet, seconds on 4 processes"]["ratio"] == "0.25"
    assert "cg InfiniBand, seconds on 4 processes" not in paper
    assert "3 of 3 figures and tables made" in out


def test_to_show_a_suite_compiles_nothing(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(APPS)
    assert cli.call(("suite", "show", "mine.toml")) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert here.built == []
    assert "✓ Times: figure times of the run kernels" in words
    assert "run kernels: cg and sp are compiled when measured, and only then known to fit here" in words
    cli.call(("suite", "submit", "mine.toml", "--scheduler", "slurm"))
    assert here.built == []


def test_a_kernel_that_fails_is_exit_code_4_and_the_rest_is_made(
    here: Here,
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("netpipe.cli.suite.state.here", lambda suite, site: {"schema": 1})
    monkeypatch.setattr("netpipe.native.worst", lambda codes: max(codes, default=0))
    stage.act = lambda task, launch: stage.result(
        task, launch, None if task.cell.name == "sp" else 1.0, "it crashed"
    )
    Path("mine.toml").write_text(APPS)
    code = cli.call(("suite", "run", "mine.toml", "-q"))
    assert code == 4
    assert Path("mine/times.svg").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('figure = "times"', 'figure = "latency"', "figure: there is no 'latency' of a run of the kind apps; "),
        ('shows = "times"', 'shows = "summary"', "shows: there is no 'summary' of a run of the kind apps"),
        ('shows = "times"', "", "shows is missing: which table of 'kernels'; there are times"),
        ("ranks = [2, 4]", "", "ranks is missing: the numbers of processes of the columns"),
        ('kernels = ["cg", "sp"]', "", "[[run]] 'kernels': kernels is missing"),
        ('kernels = ["cg", "sp"]', 'kernels = ["cq"]', "[[run]] 'kernels': "),
        ("minutes = { default = 3 }", "minutes = 3", "minutes must say them for each size"),
    ],
)  # fmt: skip
def test_what_is_wrong_about_kernels_is_said(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    old: str, new: str, sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    text = APPS
    assert text.count(old) == 1
    Path("mine.toml").write_text(text.replace(old, new))
    assert cli.call(("suite", "run", "mine.toml")) == 2
    assert sentence in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------- drawings


def test_a_speed_up_is_against_the_fewest_processes_with_its_interval() -> None:
    found = rows(results(cg_2=[4.0] * 6, cg_4=[2.0, 2.1, 1.9, 2.0, 2.2, 1.8]))
    (panel,) = speedup.panels(Scope((), kernels=tuple(found)))
    (view,) = panel.views
    assert isinstance(view, Picture)
    (line,) = view.lines
    assert (line.x, line.y) == ((2.0, 4.0), (1.0, 2.0))
    assert line.low[1] < 2.0 < line.high[1]
    assert view.bounds[0].y == (1.0, 2.0)  # in proportion
    with pytest.raises(NothingToDraw):
        speedup.panels(Scope((), kernels=tuple(rows(results(cg_2=[4.0])))))


def test_without_an_interval_the_figure_says_nothing_of_one() -> None:
    (panel,) = times.panels(Scope((), kernels=tuple(rows(results(cg_2=[4.0, 4.1], cg_4=[2.0, 2.1])))))
    assert [view.band for view in panel.views if isinstance(view, Picture)] == [""]


# ----------------------------------------------------------------------------------------------------------- profiles


def profiles() -> Done:
    one = profile_of([call_of("Send", 100, 4, 1), call_of("Send", 5000, 2, 1)], [call_of("Recv", 100, 4, 0)])
    return Done(profiles={"cg": tables_of(one)})


def test_the_tables_of_a_profile_are_those_of_the_paper() -> None:
    assert tables.of_profile("message_sizes", profiles().profiles["cg"]) == (4, 2, 0, 0)
    assert tables.of_profile("collectives", profiles().profiles["cg"])[0] == 0
    for which, columns in tables.COLUMNS.items():
        assert len(tables.of_profile(which, profiles().profiles["cg"], True)) == len(columns)


@pytest.mark.parametrize(
    ("ranks", "here", "why"), [(2, 4.0, ""), (8, None, "on 2 processes, whose counts are others")]
)
def test_counts_are_held_against_the_paper_only_on_as_many_processes(
    ranks: int, here: float | None, why: str
) -> None:
    from dataclasses import replace

    from netpipe.cli.suite.parts import Part

    value = Value(
        "cg", "Table 1", 16113, "calls", "m", "up_to_2k", row="cg", ranks=ranks, shows="message_sizes"
    )
    run = Planned(Part("run", "m", "", {}, "profile"))
    (found,) = beside([replace(value, problem="")], {"m": run}, {"m": profiles()})
    assert (found.here.value if found.here else None) == here
    assert why in found.why


# -------------------------------------------------------------------------------------------------------- job scripts


def job(**more: Any) -> scripts.Job:
    said = {"name": "osu", "words": ("/usr/bin/python3", "-m", "netpipe", "suite", "run", "osu"),
            "folder": Path("/scratch/my runs/osu"), "nodes": 4, "per_node": 2, "minutes": 95,
            "options": ("--partition=short",), "variables": {"NETPIPE_NATIVE": "/opt/net pipe"}}  # fmt: skip
    return scripts.Job(**{**said, **more})


def test_the_schedulers_of_the_command_are_those_of_the_scripts() -> None:
    assert set(command_of.SCHEDULERS) == set(scripts.SCHEDULERS)


@pytest.mark.parametrize("scheduler", command_of.SCHEDULERS)
@pytest.mark.parametrize("nodes", [1, 4])
def test_a_script_is_shell_and_runs_the_suite_in_its_folder(
    scheduler: str, nodes: int, tmp_path: Path
) -> None:
    text = scripts.script(scheduler, job(nodes=nodes))
    path = tmp_path / "job.sh"
    path.write_text(text)
    assert subprocess.run(["sh", "-n", str(path)], check=False, timeout=20).returncode == 0
    last = text.splitlines()[-1]
    assert last.startswith("exec /usr/bin/python3 -m netpipe suite run osu --output '/scratch/my runs/osu'")
    assert ("--hosts" in last) == (nodes > 1)
    assert last.endswith("$goes_on")
    assert "export NETPIPE_NATIVE='/opt/net pipe'\n" in text
    prefix = scripts.SCHEDULERS[scheduler].prefix
    said = [line for line in text.splitlines() if line.startswith(f"{prefix} ")]
    assert text.splitlines()[1 : 1 + len(said)] == said  # before any command, where schedulers look
    assert f"{prefix} --partition=short" in said


def test_each_scheduler_is_told_of_hosts_and_time() -> None:
    slurm, flux, pbs = (scripts.script(name, job()) for name in ("slurm", "flux", "pbs"))
    assert "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=2\n#SBATCH --time=01:35:00\n" in slurm
    assert "# flux: --nodes=4\n# flux: --time-limit=95m\n" in flux
    assert "#PBS -l select=4:mpiprocs=2\n#PBS -l walltime=01:35:00\n" in pbs


# The tools and files of each scheduler that its script asks for the hosts, as they answer for two.
STAND_INS = {
    "slurm": {"scontrol": """[ "$*" = 'show hostnames x[1-2]' ] && printf 'a\\nb\\n'"""},
    "flux": {
        "flux": """case "$*" in
  "resource list -n -o {nodelist}") echo 'x[1-2]' ;;
  "hostlist -e -d , -") [ "$(cat)" = 'x[1-2]' ] && echo a,b ;;
  *) exit 1 ;;
esac"""
    },
    "pbs": {},
}


@pytest.mark.parametrize("scheduler", command_of.SCHEDULERS)
def test_a_job_goes_on_where_an_earlier_one_ended(scheduler: str, tmp_path: Path) -> None:
    for name, said in {**STAND_INS[scheduler], "netpipe": 'echo "$@"'}.items():
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{said}\n")
        tool.chmod(0o755)
    folder = tmp_path / "out"
    folder.mkdir()
    path = tmp_path / "job.sh"
    path.write_text(
        scripts.script(scheduler, job(folder=folder, words=(str(tmp_path / "netpipe"),), variables={}))
    )
    nodes = tmp_path / "nodes"
    nodes.write_text("b\na\nb\na\n")  # PBS: a line for each process
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_NODELIST": "x[1-2]"}
    environment |= {"PBS_NODEFILE": str(nodes), "PBS_O_WORKDIR": str(tmp_path)}

    def said() -> list[str]:
        done = subprocess.run(
            ["sh", str(path)], env=environment, capture_output=True, text=True, timeout=20, check=True
        )
        return shlex.split(done.stdout)

    assert said() == ["--output", str(folder), "--hosts", "a,b"]
    (folder / "suite.json").touch()
    assert said() == ["--output", str(folder), "--hosts", "a,b", "--continue"]


def test_submit_writes_a_script_and_says_what_is_missing(
    netpipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = netpipe("suite", "submit", "health", "--scheduler", "pbs", "--nodes", "2", "--minutes", "20")
    assert said.code == 0
    assert said.out == "health.pbs.sh: 20 minutes on 2 hosts; submit it with --now\n"
    assert "#PBS -l walltime=00:20:00\n" in Path("health.pbs.sh").read_text()
    monkeypatch.setenv("PATH", "/nowhere")
    said = netpipe("suite", "submit", "health", "--scheduler", "pbs", "--minutes", "20", "--now")
    assert said.code == 3
    assert "there is no qsub here, so health.pbs.sh was not submitted; submit it where PBS is" in said.err
    Path("mine").write_text("keep me")
    said = netpipe("suite", "submit", "health", "--scheduler", "pbs", "--script", "mine")
    assert (said.code, Path("mine").read_text()) == (2, "keep me")


def test_how_hosts_are_reached_is_in_the_script(netpipe: Any) -> None:
    words = ("--launcher", "ssh", "--remote-shell", "ssh -p 2222", "--bind", "10.0.0.1", "--minutes", "9")
    assert netpipe("suite", "submit", "health", "--scheduler", "slurm", "--nodes", "2", *words).code == 0
    last = shlex.split(Path("health.slurm.sh").read_text().splitlines()[-1])
    at = last.index("--launcher")
    assert last[at : at + 6] == list(words[:6])
    assert "--hosts" in last


@pytest.mark.parametrize(
    ("scheduler", "name", "script"),
    [("slurm", "sbatch", "$1"), ("flux", "flux", "$2"), ("pbs", "qsub", "$1")],
)
def test_the_scheduler_is_asked_and_its_answer_told(
    netpipe: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheduler: str, name: str, script: str
) -> None:
    tool = tmp_path / name
    batch = '[ "$1" = batch ] && ' if name == "flux" else ""
    tool.write_text(f'#!/bin/sh\n{batch}[ -f "{script}" ] && echo Submitted batch job 7\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    said = netpipe("suite", "submit", "health", "--scheduler", scheduler, "--now")
    assert (said.code, said.err) == (0, "netpipe: Submitted batch job 7\n")
    tool.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n")
    said = netpipe("suite", "submit", "health", "--scheduler", scheduler, "--now")
    assert said.code == 4
    assert f"{name} refused health.{scheduler}.sh: sbatch: error: invalid partition" in said.err


# ---------------------------------------------------------------------------------------------------------------- IMB


def test_a_table_of_imb_is_read_as_imb() -> None:
    whole = synthetic.patterned()
    reading = Reading(whole)
    curves = [curve for curve in reading.curves if curve.variant == "shm"]
    text = imb.write(curves, "shm", reading.operations, 4)
    assert "# Benchmarking PingPong \n# #processes = 4 \n" in text
    assert "# Benchmarking Uniband " in text
    assert "# Benchmarking Allreduce " in text
    lines = text.split("# Benchmarking PingPong")[1].splitlines()
    assert lines[3].split() == ["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"]
    size, _, time_us, rate = map(float, lines[4].split())
    at = next(iter(reading.by_name["shm", "pingpong"].points))
    assert (size, time_us) == (
        at.size_bytes,
        pytest.approx((at.mean_ns or at.time_ns.value) / 1e3, abs=0.006),
    )
    assert rate == pytest.approx(size / time_us, rel=0.1)


def test_what_imb_does_not_have_is_refused() -> None:
    reading = Reading(synthetic.patterned())
    with pytest.raises(imb.NotThere):
        imb.write([curve for curve in reading.curves if curve.pattern == "overlap"], "shm", {}, 2)


def test_a_suite_writes_osu_and_imb_for_each_library(netpipe: Any) -> None:
    text = """summary = "Tables"
source = "this test"
[[run]]
name = "all"
variants = ["tcp", "shm"]
sizes = "8,64k"
[[table]]
title = "osu_latency"
run = "all"
format = "osu"
[[table]]
title = "IMB"
run = "all"
format = "imb"
"""
    Path("mine.toml").write_text(text)
    assert netpipe("suite", "run", "mine.toml", "-q").code == 0
    assert {path.name for path in Path("mine").glob("*.txt")} == {
        "osu-latency.tcp.txt", "osu-latency.shm.txt", "imb.tcp.txt", "imb.shm.txt",
    }  # fmt: skip
    assert Path("mine/osu-latency.tcp.txt").read_text().startswith("# OSU MPI Latency Test by netpipe: tcp\n")
    said = netpipe("import", "mine/imb.tcp.txt", "-o", "read.jsonl")
    assert said.code == 0
    assert "2 points" in said.err
    assert files.load(Path("mine.toml")).results[0].each


def test_a_caption_is_cut_above_its_figure_and_nowhere_else(netpipe: Any) -> None:
    from netpipe.cli.suite.drawings import LONGEST_TITLE, fitting

    caption = "Figure 1: " + "many words about cards " * 6
    assert len(fitting(caption)) <= LONGEST_TITLE
    assert fitting(caption).endswith(" …")
    assert fitting("Figure 1") == "Figure 1"
    Path("mine.toml").write_text(
        f'summary = "s"\nsource = "t"\n[[run]]\nname = "one"\nvariants = "tcp"\nsizes = "8"\n'
        f'[[figure]]\ntitle = "{caption}"\nrun = "one"\nfigure = "latency"\n'
    )
    said = netpipe("suite", "run", "mine.toml")
    assert caption.strip() in " ".join(said.out.split())
    (figure,) = Path("mine").glob("*.svg")
    assert len(figure.stem) <= files.LONGEST_STEM


def test_the_time_of_a_job_includes_starting(netpipe: Any) -> None:
    assert netpipe("suite", "submit", "health", "--scheduler", "slurm").code == 0
    assert re.search(r"--time=00:\d\d:00\n", Path("health.slurm.sh").read_text())
    text = APPS.replace("minutes = { default = 3 }\n", "").replace("mpi@one", "mpi@absent")
    Path("mine.toml").write_text(text)
    said = netpipe("suite", "submit", "./mine.toml", "--scheduler", "slurm")
    assert (said.code, said.err) == (
        2,
        "netpipe: how long mine takes is not known here; give --minutes\n",
    )


def test_a_library_with_settings_that_was_not_added_is_not_here(netpipe: Any) -> None:
    text = APPS.replace("mpi@one", "mpi@absent:transport=shm")
    assert "mpi@absent:" in text
    Path("mine.toml").write_text(text)
    said = netpipe("suite", "show", "./mine.toml")
    assert said.code == 3, said.err
    assert "no module was added as 'mpi@absent'" in " ".join(said.out.split())


def test_a_table_that_imb_does_not_have_stops_nothing_else(netpipe: Any) -> None:
    text = """summary = "Tables"
source = "this test"
[[run]]
name = "all"
variants = ["shm"]
pattern = ["stream"]
sizes = "8"
[[table]]
title = "IMB"
run = "all"
format = "imb"
[[table]]
title = "Points"
run = "all"
"""
    Path("mine.toml").write_text(text)
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 0
    assert "✗ IMB was not made: no benchmark of IMB does what these patterns do" in said.out
    assert Path("mine/points.csv").is_file()


# What OMB 7 has for MPI, by its release; -b, -t and other options are rows of their own in the suite.
OMB_MESSAGES = """latency bw bibw multi_lat mbw_mr latency_mt latency_mp latency_persistent bw_persistent
bibw_persistent put_latency get_latency put_bw get_bw put_bibw acc_latency get_acc_latency fop_latency
cas_latency init hello"""
OMB_COLLECTIVES = """allgather allgatherv allreduce alltoall alltoallv alltoallw barrier bcast gather gatherv
neighbor_allgather neighbor_allgatherv neighbor_alltoall neighbor_alltoallv neighbor_alltoallw reduce
reduce_scatter reduce_scatter_block scatter scatterv"""
OMB_PERSISTENT = """allgather allgatherv allreduce alltoall alltoallv alltoallw barrier bcast gather gatherv reduce
reduce_scatter scatter scatterv"""


def test_every_benchmark_of_osu_is_measured_or_named_with_the_reason(fake: Path) -> None:
    suite = files.load(files.find("osu"))
    words = [title for title, _ in suite.not_measured]
    made = {one.name.split()[0] for one in suite.results}
    left_out = set(re.findall(r"osu_\w+", " ".join(words)))
    every = {f"osu_{name}" for name in (OMB_MESSAGES + " " + OMB_COLLECTIVES).split()}
    for name in OMB_COLLECTIVES.split():
        every.add(f"osu_i{name}")
    every |= {f"osu_{name}_persistent" for name in OMB_PERSISTENT.split()}
    assert every <= made | left_out
    assert not made & left_out - {"osu_latency_mt"}
