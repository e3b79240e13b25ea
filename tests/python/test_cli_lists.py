# SPDX-License-Identifier: Apache-2.0
"""Lists and ranges of values: one text of the user as several variants or patterns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Netpipe
from hypothesis import given
from hypothesis import strategies as some

from netpipe.failure import USAGE, Failure
from netpipe.launch.lists import MOST, expand


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("pingpong", ["pingpong"]),
        ("window:in_flight=4", ["window:in_flight=4"]),
        ("window:in_flight=1|4", ["window:in_flight=1", "window:in_flight=4"]),
        (
            "tcp:wait=poll|block,sndbuf=64k|1M,nodelay=no",
            [
                "tcp:wait=poll,sndbuf=64k,nodelay=no",
                "tcp:wait=poll,sndbuf=1M,nodelay=no",
                "tcp:wait=block,sndbuf=64k,nodelay=no",
                "tcp:wait=block,sndbuf=1M,nodelay=no",
            ],
        ),
        ("x:a=0..8:4", ["x:a=0", "x:a=4", "x:a=8"]),
        ("x:a=0..9:4|2..3", ["x:a=0", "x:a=4", "x:a=8", "x:a=2", "x:a=3"]),
        ("x:a=1k..3k:1k", ["x:a=1024", "x:a=2048", "x:a=3072"]),
        ("x:a=7..7", ["x:a=7"]),
        ("x:a=4|4", ["x:a=4"]),
        # No range, and nothing that is known here: the worker says what is wrong with it.
        ("x:file=../some.conf", ["x:file=../some.conf"]),
        ("x:a=,b", ["x:a=,b"]),
        # In the environment of a library | is a comma, as the module says.
        (
            "mpi@x:env=OMPI_MCA_btl=self|tcp;B=1,eager=1k|2k",
            ["mpi@x:env=OMPI_MCA_btl=self|tcp;B=1,eager=1k", "mpi@x:env=OMPI_MCA_btl=self|tcp;B=1,eager=2k"],
        ),
        ("x:", ["x:"]),
    ],
)
def test_a_list_is_one_for_each_value(text: str, meant: list[str]) -> None:
    assert expand([text]) == tuple(meant)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "window:in_flight=1||4",
            "window:in_flight=1||4: a value of in_flight is empty; write in_flight=1|4",
        ),
        ("x:b=|", "x:b=|: a value of b is empty; write b=A|B"),
        ("x:a=1,b=2|", "x:a=1,b=2|: a value of b is empty; write b=2"),
        ("x:a=8..4:2", "it ends before it begins"),
        ("x:a=0..4:0", "its step is 0"),
        ("x:a=0..1G", f"more than {MOST} values of a"),
        ("x:a=1..40,b=1..40", f"more than {MOST} variants or patterns"),
    ],
)
def test_what_is_no_list_is_refused_with_what_to_write(text: str, sentence: str) -> None:
    with pytest.raises(Failure) as raised:
        expand([text])
    assert raised.value.exit_code == USAGE
    assert sentence in raised.value.sentence


@given(
    some.lists(some.lists(some.integers(0, 99), min_size=1, max_size=4, unique=True), min_size=1, max_size=3)
)
def test_every_combination_is_there_once(values: list[list[int]]) -> None:
    settings = [f"o{place}={'|'.join(map(str, several))}" for place, several in enumerate(values)]
    found = expand([f"x:{','.join(settings)}"])
    number = 1
    for several in values:
        number *= len(several)
    assert len(set(found)) == len(found) == number


def plan(netpipe: Netpipe, *arguments: str) -> tuple[list[str], list[str]]:
    said = netpipe("run", *arguments, "--dry-run", "--json")
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    return [one["variant"] for one in answer["variants"]], answer["patterns"]


def test_lists_come_from_the_command_line_and_from_a_file(netpipe: Netpipe) -> None:
    variants, patterns = plan(
        netpipe,
        "tcp:sndbuf=64k|1M",
        "shm",
        "tcp:sndbuf=1M",
        "--pattern",
        "stream:reuse=0|50",
        "--pattern",
        "pingpong",
    )
    assert variants == ["tcp:sndbuf=64k", "tcp:sndbuf=1M", "shm"]
    assert patterns == ["stream:reuse=0", "stream:reuse=50", "pingpong"]
    Path("netpipe.toml").write_text(
        '[run]\nvariants = ["tcp:wait=poll|block"]\npattern = "stream:reuse=0..100:50"\n'
    )
    variants, patterns = plan(netpipe)
    assert variants == ["tcp:wait=poll", "tcp:wait=block"]
    assert patterns == ["stream:reuse=0", "stream:reuse=50", "stream:reuse=100"]


def test_an_empty_value_ends_with_a_sentence(netpipe: Netpipe) -> None:
    said = netpipe("run", "shm", "--pattern", "stream:reuse=1||2")
    assert (said.code, said.out) == (2, "")
    assert said.err == "netpipe: stream:reuse=1||2: a value of reuse is empty; write reuse=1|2\n"
