# SPDX-License-Identifier: Apache-2.0
"""What a suite leaves open to the site: `--set NAME=VALUE` of netpipe suite, over the worker that measures nothing."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netpipe.cli.suite import files
from netpipe.cli.suite.planning import planned
from netpipe.cli.suite.runs.base import Site
from netpipe.failure import USAGE
from netpipe.records import Run

if TYPE_CHECKING:
    from conftest import Netpipe

OPEN = """summary = "What the site says"
source = "this test"

[set]
buffer = "the size of a buffer"

[[run]]
name = "fixed"
variants = ["shm"]
sizes = "8,64k"

[[run]]
name = "open"
variants = ["tcp", "tcp:sndbuf={buffer}"]
sizes = "8,64k"
between_hosts = { variants = ["tcp:sndbuf={buffer},wait=poll"] }

[[figure]]
title = "Figure 1"
run = "fixed"
figure = "throughput"

[[figure]]
title = "Figure 2"
run = "open"
figure = "throughput"
variant = "tcp:sndbuf={buffer}"

[[published]]
what = "with a buffer: most"
value = 900
unit = "Mbps"
where = "section 1"
run = "open"
variant = "tcp:sndbuf={buffer}"
of = "peak"
"""
NEEDS = "it needs --set buffer=VALUE: the size of a buffer"


def written(text: str = OPEN) -> Path:
    Path("mine.toml").write_text(text)
    return Path("mine.toml")


def published() -> dict[str, str]:
    (row,) = csv.DictReader(Path("mine/published.csv").read_text().splitlines())
    return row


def test_a_run_that_leaves_something_open_is_left_out_with_what_belongs_there(netpipe: Netpipe) -> None:
    written()
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 0
    assert f"netpipe: run open leaves out all variants: {NEEDS}\n" in said.err
    assert "1 of 2 figures and tables made" in said.out
    assert f"Figure 2 was not made: {NEEDS}" in " ".join(said.out.split())
    assert not Path("mine/open.jsonl").exists()
    assert published()["why"] == NEEDS
    assert f"not here: {NEEDS}" in " ".join(netpipe("suite", "show", "mine.toml").out.split())


def test_what_the_site_says_is_measured_drawn_and_held_against_the_paper(netpipe: Netpipe) -> None:
    written()
    said = netpipe("suite", "run", "mine.toml", "--set", "buffer=64k|1M")
    assert said.code == 0, said.err
    assert "2 of 2 figures and tables made" in said.out
    measured = Run.read(Path("mine/open.jsonl")).points
    assert {one.variant for one in measured} == {"tcp", "tcp:sndbuf=64k", "tcp:sndbuf=1M"}
    assert published()["of"] in ("tcp:sndbuf=64k", "tcp:sndbuf=1M")
    svg = Path("mine/figure-2.svg").read_text()
    assert "sndbuf=64k" in svg
    assert "sndbuf=1M" in svg


def test_variants_between_hosts_have_places_too(fake: Path) -> None:
    site = Site(hosts="127.0.0.1,127.0.0.2", settings=("buffer=64k",))
    run = planned(files.load(written()), site)["open"]
    assert [name for name, _ in run.pairs] == ["tcp:sndbuf=64k,wait=poll"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("bufer=1k",), "--set bufer=1k: the suite mine has no 'bufer'; did you mean 'buffer'?"),
        (("buffer",), "--set buffer has no value; write NAME=VALUE"),
        (("buffer=",), "--set buffer= has no value; write NAME=VALUE"),
        (("buffer=1k", "buffer=2k"), "--set buffer is given twice; write buffer=A|B for two values"),
    ],
)
def test_what_the_suite_does_not_leave_open_is_refused(
    netpipe: Netpipe, words: tuple[str, ...], sentence: str
) -> None:
    written()
    said = netpipe("suite", "run", "mine.toml", *(word for one in words for word in ("--set", one)))
    assert (said.code, said.err) == (USAGE, f"netpipe: {sentence}\n")
    assert not Path("mine").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('{buffer}"]\nsizes', '{size}"]\nsizes', "[set] does not say what belongs into {size}"),
        ("{buffer},wait", "{size},wait", "[set] does not say what belongs into {size}"),
        ('buffer = "the', 'Buffer = "the', "[set] 'Buffer' is not a name; write small letters, digits"),
        ('buffer = "the size of a buffer"', "buffer = 3", "[set] buffer must be a text"),
        ("[set]\nbuffer", "set", "'set' is not a table; write [set]"),
    ],
)
def test_a_place_that_nobody_explains_is_a_mistake_of_the_file(
    netpipe: Netpipe, old: str, new: str, sentence: str
) -> None:
    assert OPEN.count(old) == 1
    written(OPEN.replace(old, new))
    said = netpipe("suite", "run", "mine.toml", "--dry-run")
    assert said.code == USAGE
    assert sentence in said.err


def test_a_suite_that_leaves_nothing_open_takes_no_setting(netpipe: Netpipe) -> None:
    said = netpipe("suite", "show", "health", "--set", "rails=eth0")
    assert (said.code, said.err) == (
        USAGE,
        "netpipe: --set rails=eth0: the suite health has no 'rails'; it leaves nothing open\n",
    )


def test_going_on_with_another_setting_is_refused(netpipe: Netpipe) -> None:
    written()
    assert netpipe("suite", "run", "mine.toml", "-q", "--set", "buffer=64k").code == 0
    said = netpipe("suite", "run", "mine.toml", "--continue", "--set", "buffer=1M")
    assert said.code == USAGE
    assert "--set was set=buffer=64k, and is now set=buffer=1M" in said.err


def test_settings_are_in_the_script_of_a_job(netpipe: Netpipe) -> None:
    words = ("--scheduler", "slurm", "--nodes", "2", "--set", "rails=eth0|eth0+eth1", "--minutes", "9")
    assert netpipe("suite", "submit", "capabilities-2003", *words).code == 0
    last = shlex.split(Path("capabilities-2003.slurm.sh").read_text().splitlines()[-1])
    assert "--set=rails=eth0|eth0+eth1" in last


def test_figure_2_of_the_capabilities_is_about_several_links(fake: Path) -> None:
    suite = files.load(files.find("capabilities-2003"), "quick")
    (figure,) = [one for one in suite.results if one.name.startswith("Fig. 2")]
    (run,) = [one for one in suite.runs if one.name == figure.run]
    assert run.given["variants"] == ("tcp", "tcp:rails={rails}")
    (value,) = [one for one in suite.published if one.run == run.name]
    assert (value.what.partition(" over ")[2].partition(" ports")[0], value.paper) == ("two", 1400)
