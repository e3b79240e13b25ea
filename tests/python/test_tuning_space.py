# SPDX-License-Identifier: Apache-2.0
"""From option tables to what is tried, and from changes to the text of a variant."""

from __future__ import annotations

from typing import Any

import pytest

from netpipe.failure import Failure
from netpipe.tuning.search.space import number_of, space, written
from netpipe.tuning.search.variants import START, Changes, Start
from netpipe.tuning.telling import details
from netpipe.tuning.tune import Outcome


def option(name: str, kind: str, default: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "default": default,
        "min": None,
        "max": None,
        "choices": [],
        "unit": "",
        "help": f"what {name} does",
        "tunable": True,
        "about": None,
        **more,
    }


TABLE = [
    option("sndbuf", "size", "0", min=0, max=1 << 30),
    option("eager", "size", "4k", min=0, max=64 << 10),
    option("streams", "int", "1", min=1, max=64),
    option("nodelay", "bool", "yes"),
    option("route", "choice", "daemon", choices=["daemon", "direct"]),
    option("congestion", "text", ""),
    option("wait", "choice", "block", choices=["block", "poll"], about="waiting"),
    option("comment", "text", "", tunable=False),
    option("port", "int", "0", min=0, max=65535, tunable=False),
    option("tls", "text", ""),
    option("set", "text", ""),
]
TEXTS = {"congestion": ("cubic", "reno")}


def values(start: str, name: str) -> tuple[str, ...]:
    made = space(TABLE, Start.of(start), TEXTS)
    return next((knob.values for knob in made.knobs if knob.name == name), ())


def test_choices_and_switches_are_tried_in_their_other_positions() -> None:
    assert values("x", "route") == ("direct",)
    assert values("x:route=direct", "route") == ("daemon",)
    assert values("x", "nodelay") == ("no",)


def test_sizes_are_tried_in_coarse_steps_within_their_limits() -> None:
    assert values("x", "eager") == ("1k", "16k", "64k")
    assert values("x", "sndbuf") == ("32k", "256k", "2M", "16M")


def test_the_default_is_tried_where_the_start_has_another_value() -> None:
    assert values("x:sndbuf=8k", "sndbuf") == ("0", "2k", "32k", "128k", "512k")


def test_numbers_stay_within_their_limits() -> None:
    assert values("x", "streams") == ("4", "16", "64")


def test_texts_are_those_that_the_machine_offers() -> None:
    assert values("x", "congestion") == ("cubic", "reno")
    assert values("x:congestion=reno", "congestion") == ("cubic",)


def test_waiting_is_searched_only_by_name() -> None:
    assert values("x", "wait") == ()
    assert "processor time" in space(TABLE, Start.of("x"), TEXTS).left_out["wait"]
    chosen = space(TABLE, Start.of("x"), TEXTS, only=["wait"])
    assert [knob.name for knob in chosen.knobs] == ["wait"]


def test_settings_whose_values_only_the_user_knows_are_named_with_a_way_to_compare_them() -> None:
    made = space(TABLE, Start.of("x:eager=8k"), TEXTS)
    assert made.by_hand == ("tls", "set")
    assert made.several == "'x:eager=8k,tls=A|B'"
    assert space(TABLE, Start.of("x"), TEXTS, only=["eager"]).by_hand == ()
    outcome = Outcome("x:eager=8k", "curve", space=made)
    assert any(
        line.startswith("Not searched: tls and set, ") and "netpipe run 'x:eager=8k,tls=A|B'" in line
        for line in details(outcome)
    )


def test_transports_are_tried_where_the_library_says_which_it_has() -> None:
    there = {**TEXTS, "tls": ("posix+cma", "tcp")}
    made = space(TABLE, Start.of("x:tls=tcp"), there)
    assert made.knob("tls").values == ("posix+cma",)
    assert made.by_hand == ("set",)
    assert space(TABLE, Start.of("x"), there, only=["tls"]).knob("tls").values == ("posix+cma", "tcp")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rout", "did you mean 'route'"),
        ("port", "changes what is measured"),
        ("comment", "changes what is measured"),
        ("set", r"netpipe run 'x:set=A\|B', and tune the fastest"),
        ("tls", r"netpipe run 'x:tls=A\|B', and tune the fastest"),
        ("zzz", "there are sndbuf"),
    ],
)
def test_a_name_that_cannot_be_searched_is_refused(name: str, said: str) -> None:
    with pytest.raises(Failure, match=said) as caught:
        space(TABLE, Start.of("x"), TEXTS, only=[name])
    assert caught.value.exit_code == 2


def test_with_little_time_every_setting_is_tried_once_first() -> None:
    first = space(TABLE, Start.of("x"), TEXTS).candidates[:6]
    assert {one.names[0] for one in first} == {"sndbuf", "eager", "streams", "nodelay", "route", "congestion"}


def test_a_number_is_refined_by_twice_and_half_of_it() -> None:
    knob = space(TABLE, Start.of("x"), TEXTS).knob("eager")
    assert knob.around("16k") == ("8k", "32k")
    assert knob.around("64k") == ("32k",)


def test_sizes_are_written_as_a_user_writes_them() -> None:
    assert [written(number, "size") for number in (0, 100, 1024, 3 << 20)] == ["0", "100", "1k", "3M"]
    assert number_of("64k") == 65536


def test_changes_make_the_text_of_a_variant() -> None:
    start = Start.of("x:sndbuf=8k,wait=poll")
    assert start.variant(START) == "x:sndbuf=8k,wait=poll"
    assert (
        start.variant(Changes.of({"sndbuf": "64k", "nodelay": "no"})) == "x:sndbuf=64k,wait=poll,nodelay=no"
    )


def test_variables_go_into_the_option_for_them_beside_those_that_are_there() -> None:
    start = Start.of("x@y:transport=shm,env=A=1;B=2")
    assert start.variant(Changes.of({"B": "3", "C": "p,q"})) == "x@y:transport=shm,env=A=1;B=3;C=p|q"


def test_the_table_of_a_real_worker_gives_a_search_space(fake: object) -> None:
    from netpipe import native

    for module in native.list_()["modules"]:
        made = space(module["options"], Start.of(module["name"]), {})
        assert all(knob.values for knob in made.knobs)
