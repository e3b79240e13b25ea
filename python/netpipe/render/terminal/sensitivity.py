# SPDX-License-Identifier: Apache-2.0
"""How an application's time depends on the network: tables for each variant, and the same numbers as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from netpipe.prediction.runs import BETWEEN
from netpipe.prediction.sensitivity import REACH
from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import TIME_STEPS, bracketed_text, digits, percent_text, size_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.prediction import Sensitivities, Sensitivity
    from netpipe.prediction.sensitivity import Parameter, Tolerance
    from netpipe.profiles.trace.first_part import FirstPart
    from netpipe.reading.estimate import Estimate

LEAST_SHARE = 0.01  # of the time in MPI, below which no parameter is said to matter
HEADINGS = {"mpi": "time in MPI", "whole": "whole run"}


def print_sensitivities(out: Console, found: Sensitivities) -> None:
    for one in found.variants:
        out.print()
        out.print(one.variant, style="bold")
        for place, table in enumerate(tables(one, out.width)):
            if place:
                out.print()
            out.print(table)
        out.print()
        for sentence in sentences(one):
            print_paragraph(out, "·", "dim", sentence)
    for note in found.notes:
        print_paragraph(out, "!", "yellow", note)


def tables(one: Sensitivity, width: int) -> Iterator[Rows]:
    """All parameters beside each other, or in two halves where there is not room for that."""
    makers: list[Callable[[Sequence[Parameter]], Rows]] = [partial(tolerance_table, one)]
    makers += [partial(step_table, part, heading) for part, heading in HEADINGS.items()]
    half = len(one.parameters) // 2
    for made in makers:
        whole = made(one.parameters)
        if whole.fits(width) or not half:
            yield whole
        else:
            yield from (made(one.parameters[:half]), made(one.parameters[half:]))


def tolerance_table(one: Sensitivity, parameters: Sequence[Parameter]) -> Rows:
    """Which parameter takes how much of the time, and what each may become before the program is slower."""
    table = Rows(("", "left"), *((parameter.name, "right") for parameter in parameters))
    for heading, *cells in tolerance_rows(one, parameters):
        table.add_row(heading, *cells)
    return table


def tolerance_rows(one: Sensitivity, parameters: Sequence[Parameter]) -> list[tuple[str, ...]]:
    rows = [("share", *(share_interval(parameter.share) for parameter in parameters))]
    for place, first in enumerate(parameters[0].tolerances):
        cells = (tolerance_text(one, parameter, parameter.tolerances[place]) for parameter in parameters)
        rows.append((f"{100 * first.slower:g} % slower", *cells))
    return rows


def step_table(part: str, heading: str, parameters: Sequence[Parameter]) -> Rows:
    """The time at each factor, over that at 1."""
    table = Rows((heading, "right"), *((parameter.name, "right") for parameter in parameters))
    for place, step in enumerate(parameters[0].steps):
        if step.factor != 1:
            there: Sequence[Estimate] = [getattr(each.steps[place], part) for each in parameters]
            table.add_row(f"{step.factor:g} ×", *map(times_interval, there))
    return table


def times_interval(times: Estimate) -> str:
    """1.12 [1.08 1.17]"""
    return f"{times.value:.3f} [{times.low:.3f} {times.high:.3f}]"


def share_interval(share: Estimate) -> str:
    """41 [30 55] %"""
    value, low, high = (f"{100 * limit:.1f}" for limit in (share.value, share.low, share.high))
    return f"{value} [{low} {high}] %"


def tolerance_text(one: Sensitivity, parameter: Parameter, tolerance: Tolerance) -> str:
    """+12.0 [8.30 17.1] µs of latency, and factors of the others; what lies beyond the reach is said to do so."""
    if parameter.name == "latency":
        added = [one.added_ns(factor) for factor in (tolerance.factor, tolerance.low, tolerance.high)]
        value, low, high = added
        if value is not None and low is not None and high is not None:
            return f"+{bracketed_text(value, low, high, TIME_STEPS, 'ns')}"
        if low is not None:
            return f"> +{time_text(low)}"
        return f"> +{time_text(one.added_ns(REACH))}"
    value, low, high = tolerance.factor, tolerance.low, tolerance.high
    if value is not None and low is not None and high is not None:
        return f"{digits(value)} [{digits(low)} {digits(high)}] ×"
    less = parameter.name == "bandwidth"
    first = high if less else low
    if first is not None:
        return f"{'<' if less else '>'} {digits(first)} ×"
    return f"< {digits(1 / REACH, 1)} ×" if less else f"> {REACH:.0f} ×"


def sentences(one: Sensitivity) -> list[str]:
    """Which parameter matters, and what the time in MPI has besides them."""
    said = [matters(one)]
    rest = f"{percent_text(one.rest)} of the time in MPI depends on none of these"
    if one.unexplained is None:
        said.append(f"{rest}: waiting for computation of other ranks, first messages")
    elif one.unexplained > 0:
        said.append(
            f"{rest}: waiting for computation of other ranks, first messages; and {percent_text(one.unexplained)} is "
            "what the replay does not explain"
        )
    else:
        said.append(
            f"{rest}: waiting for computation of other ranks, first messages; the replay has "
            f"{percent_text(-one.unexplained)} more than the profile"
        )
    said.append(
        f"latency is {time_text(one.latency_ns)} for {size_text(one.latency_bytes)}"
        f"{BETWEEN if one.between_hosts else ''}; shares are of the time in MPI; slower is the whole run, if one "
        "parameter gets that much worse; the other tables have times over those at 1 ×"
    )
    return said


def matters(one: Sensitivity) -> str:
    """The parameter that takes the largest share, if its interval is above those of the others."""
    first, second, *_ = sorted(one.parameters, key=lambda parameter: -parameter.share.value)
    if all(each.share.high < LEAST_SHARE for each in one.parameters):
        return f"none of these matters: each has less than {percent_text(LEAST_SHARE)} of the time in MPI"
    if first.share.low > max(each.share.high for each in one.parameters if each is not first):
        return f"{first.name} matters most: {percent_text(first.share.value)} of the time in MPI"
    return f"undecided which matters most: the intervals of {first.name} and {second.name} meet"


def sensitivity_json(found: Sensitivities | None) -> dict[str, Any]:
    """To add to the object of a prediction; nothing where it was not asked for."""
    if found is None:
        return {}

    def limits(estimate: Estimate) -> dict[str, float]:
        return {"value": estimate.value, "low": estimate.low, "high": estimate.high}

    def tolerance(one: Sensitivity, name: str, each: Tolerance) -> dict[str, Any]:
        said: dict[str, Any] = {
            "slower": each.slower,
            "factor": each.factor,
            "low": each.low,
            "high": each.high,
        }
        if name == "latency":
            ends = ("added_ns", each.factor), ("added_low_ns", each.low), ("added_high_ns", each.high)
            said |= {key: one.added_ns(factor) for key, factor in ends}
        return said

    variants = [
        {
            "variant": one.variant,
            "latency_ns": one.latency_ns,
            "latency_bytes": one.latency_bytes,
            "rest": one.rest,
            "unexplained": one.unexplained,
            "parameters": [
                {
                    "name": parameter.name,
                    "share": limits(parameter.share),
                    "steps": [
                        {"factor": step.factor, "mpi": limits(step.mpi), "whole": limits(step.whole)}
                        for step in parameter.steps
                    ],
                    "tolerances": [tolerance(one, parameter.name, each) for each in parameter.tolerances],
                }
                for parameter in one.parameters
            ],
        }
        for one in found.variants
    ]
    part = part_json(found.part)
    return {"sensitivity": {"part": part, "variants": variants, "notes": found.notes}}


def part_json(part: FirstPart | None) -> dict[str, Any] | None:
    """What of the program was replayed; None: all of it."""
    if part is None:
        return None
    return {
        "share": part.share,
        "events": part.events,
        "of_events": part.of_events,
        "ends_early": part.early,
    }
