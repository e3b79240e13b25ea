# SPDX-License-Identifier: Apache-2.0
"""The headline compares layers that wait alike, and the layer that it names gets something to do."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
from rich.console import Console

from netpipe.cli.show import to_json
from netpipe.findings import examples, judge, most_important
from netpipe.findings.curves.waiting import asleep
from netpipe.reading import Reading
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.render.losses import largest_losses
from netpipe.render.next_step import next_step
from netpipe.render.page.page import page
from netpipe.render.terminal.summary import print_summary
from pages import Page

NAMES = ("memcpy", "shm", "shm:wait=block", "unix", "unix:wait=block", "tcp", "tcp:wait=block")
STACK = {"shm": "memcpy", "unix": "shm", "tcp": "unix"}
POLLING_NS = {"memcpy": 20.0, "shm": 100.0, "unix": 1000.0, "tcp": 3000.0}
WAKEUP_NS = 30_000.0


def both_chains(options: dict[str, str] | None = None, sleep_ns: float = WAKEUP_NS, **more: Any) -> Reading:
    """Memory copy, shared memory, Unix and TCP sockets, polling and sleeping: a wake-up costs more than all of them."""
    points = []
    for name in NAMES:
        module, _, sleeps = name.partition(":")
        ns = POLLING_NS[module] + (sleep_ns if sleeps else 0)
        points += [examples.point(name, 8, ns, 0.01), examples.point(name, 1 << 20, ns + 1e5, 0.0001)]
    waits = {name: "block" if "block" in name else "poll" for name in NAMES if name != "memcpy"}
    made = examples.run(examples.yardstick(0.0), *points, variants=NAMES, stack=STACK, waits=waits)
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, options={**one.options, **(options or {})}, **more)
            for one in plan.variants
        ]
    return Reading(made)


def summary(reading: Reading, width: int = 80) -> str:
    stream = io.StringIO()
    print_summary(Console(file=stream, width=width), reading)
    return stream.getvalue()


def test_a_layer_that_sleeps_is_no_loss_of_a_copy_that_never_waits() -> None:
    sentences = largest_losses(both_chains().losses)
    latency = [one for one in sentences if "adds the most latency" in one]
    assert [one.partition(" of the layers")[0] for one in latency] == [
        "tcp adds the most latency",
        "tcp:wait=block adds the most latency",
    ]
    assert not [one for one in sentences if "shm:wait=block" in one]
    assert not [one for one in latency if "over memcpy" in one]


def test_numbers_that_are_wrong_or_say_nothing_have_no_headline() -> None:
    """In a run that says not to trust it, or whose times are known to their order of magnitude, "pipe loses the most
    throughput" and a next step were said all the same.
    """
    sound = both_chains({"sndbuf": "0"})
    slow_clock = examples.with_facts({"clock.source": "hpet"}).environments
    wrong = Reading(Run([*sound.run.plans, *sound.run.variants, *slow_clock, *sound.run.points]))
    wide = Reading(
        Run(
            [
                *sound.run.plans,
                *sound.run.variants,
                *sound.run.points,
                *(
                    examples.point("shm", 16 << place, 100.0, half_width=3.0, stop="budget")
                    for place in range(20)
                ),
            ]
        )
    )
    for reading, trust in ((wrong, "Do not trust"), (wide, "Trust these times to their order of magnitude")):
        said = " ".join(summary(reading).split())
        assert largest_losses(reading.losses), "which the losses alone would say"
        assert trust in said
        assert "adds the most" not in said
        assert "Next step" not in said
        written = Page(page(reading)).text
        assert "adds the most" not in written
        assert "no two that wait alike" not in written, "which is not why"
        assert "Next step" not in written


def test_what_the_blocking_chain_stands_on_is_in_the_table() -> None:
    (row,) = [line for line in summary(both_chains(), 120).splitlines() if "shm:wait=block" in line][:1]
    assert "30.1 µs" in row
    lines = summary(both_chains(), 120).splitlines()
    at = lines.index(row)
    assert any("memcpy" in line for line in lines[:at])


def test_the_layer_that_costs_most_gets_a_next_step_where_no_finding_has_a_remedy_for_it() -> None:
    reading = both_chains({"sndbuf": "0"})
    found = judge(reading).findings
    assert next_step(reading, found) == "netpipe tune tcp"
    assert summary(reading).count("→ Next step: netpipe tune tcp\n") == 1
    assert Page(page(reading)).text.count("Next step: netpipe tune tcp") == 1
    assert json.loads(to_json(reading, [], points=False))["next_step"] == "netpipe tune tcp"


def test_layers_that_are_not_told_apart_get_no_next_step() -> None:
    times = {"base": 1000.0, "a": 3000.0, "b": 2900.0}
    points = [examples.point(name, size, ns, 0.05) for name, ns in times.items() for size in (8, 1 << 20)]
    made = examples.run(*points, variants=list(times), stack=dict.fromkeys(("a", "b"), "base"))
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options={"sndbuf": "0"}) for one in plan.variants]
    assert "a and b: it is undecided which of them" in " ".join(summary(Reading(made)).split())
    assert next_step(Reading(made), ()) is None


def test_a_finding_with_a_remedy_is_the_step_of_its_layer_and_the_next_layer_gets_the_line() -> None:
    reading = both_chains({"sndbuf": "0"})
    (found,) = [one for one in judge(Reading(asleep.fires())).findings if one.rule == "sleeps"]
    mended = msgspec.structs.replace(found, rule="small-buffers", variant="tcp")
    assert next_step(reading, [mended]) == "netpipe tune tcp:wait=block"
    unmended = msgspec.structs.replace(mended, remedy="")
    assert next_step(reading, [unmended]) == "netpipe tune tcp"
    # The summary does not show what `sleeps` says.
    assert next_step(reading, [msgspec.structs.replace(found, variant="tcp")]) == "netpipe tune tcp"


def test_a_layer_without_settings_to_search_gets_no_next_step() -> None:
    reading = both_chains()
    assert next_step(reading, ()) is None
    assert "Next step" not in summary(reading)
    assert "Next step" not in page(reading)
    assert json.loads(to_json(reading, [], points=False))["next_step"] is None
    assert next_step(both_chains({"wait": "0", "sndbuf": "0"}, tunable=[]), ()) is None
    assert next_step(both_chains({"wait": "0", "sndbuf": "0"}, tunable=["sndbuf"]), ()) is not None


def test_where_no_layer_costs_most_there_is_no_next_step() -> None:
    assert next_step(Reading(examples.run(examples.point("tcp", 8, 1000.0))), ()) is None


def both_waits() -> Run:
    """tcp as it is by default, which sleeps, beside tcp:wait=poll."""
    names = ("tcp", "tcp:wait=poll")
    points = [
        examples.visited(name, 8, ns, launch)
        for launch in range(4)
        for name, ns in zip(names, (40_000.0, 4_000.0), strict=True)
    ]
    made = examples.run(examples.yardstick(0.0), *points, variants=names)
    waits = dict(zip(names, ("block", "poll"), strict=True))
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(variant=one, module="tcp", options={"wait": waits[one]}) for one in names
        ]
    for variant in made.variants:
        settings = {"wait": waits[variant.variant]}
        variant.ranks[:] = [Rank(rank=rank, host="node17", cpu=rank, settings=settings) for rank in (0, 1)]
    return made


def test_a_layer_that_sleeps_beside_one_that_polls_is_known_and_not_important() -> None:
    """The user measured both on purpose."""
    found = judge(Reading(both_waits())).findings
    (sleeps,) = [one for one in found if one.rule == "sleeps"]
    assert sleeps.evidence["times"].value > 9
    assert sleeps.remedy
    assert sleeps not in most_important(found)
