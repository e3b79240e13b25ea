# SPDX-License-Identifier: Apache-2.0
"""A message that is one byte too long for a packet takes another one: a step at the size of a segment (the MTU)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from netpipe.findings import CURVES, NOTE, CannotJudge, Confirm, Finding, Quantity, examples, quantity, rule
from netpipe.findings.curves import Opened, opened, variant_with
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step
from netpipe.records import Rank, Run
from netpipe.units import digits, size_text

# What layers record of the bytes of a message that one packet carries.
SEGMENTS = ("message_bytes_per_datagram", "snd_mss_bytes")
HEADERS = 48  # bytes of IPv6 and UDP; with IPv4 less
MOST_CUT = 1472  # bytes of a datagram, up to which udp takes gso=yes
LIMIT, UNSET = (
    "payload",
    ("", "0", "auto"),
)  # the option that bounds a packet, and its values that leave it alone
MOST = 4  # packets: beyond that, one more is too little to see


@rule("segment-step", "A packet more", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires at a step up where a message needs one packet more. How much a packet carries, the layer recorded."""
    known = {(one.curve.variant, one.curve.pattern): one for one in opened(reading)}
    if not any(map(segment_of, known.values())):
        raise CannotJudge("no layer recorded how much a packet carries")
    if all(point.visits is None for point in reading.run.points):
        raise CannotJudge("the run did not record its visits")
    for step, packets in _found(reading, known):
        one = known[step.variant, step.pattern]
        segment = segment_of(one)
        assert segment is not None
        confirm = _confirm(reading, one, step)
        yield Finding(
            severity=NOTE,
            variant=step.variant,
            pattern=step.pattern,
            size_bytes=step.above_bytes,
            what=f"{step.variant} takes {digits(step.times.value)} times as long for {step.above_bytes} bytes as for "
            f"{step.below_bytes}: {packets + 1} packets of {size_text(segment)} instead of {packets}.",
            evidence={"times": quantity(step.times, "1"), "segment": Quantity(segment, "bytes")},
            certainty="The step is certain to 95 %, and it is where the layer says that a packet ends.",
            cause="Each packet costs processor time and its own header, and nothing gathers them here.",
            remedy=_remedy(known[step.variant, step.pattern]),
            gain=quantity(step.times, "1"),
            confirm=confirm,
        )


def _confirm(reading: Reading, one: Opened, step: Step) -> Confirm | None:
    """The size above the step with larger packets where the path carries them, else with segmentation offload: udp has
    settings for both. None for layers that have none.
    """
    payload, path = (one.settings.get(name, "") for name in ("payload_bytes", "path_mtu_bytes"))
    if not {"payload", "gso"} <= one.has or not payload.isdigit() or not path.isdigit():
        return None
    if int(payload) + HEADERS < int(path) and one.settings.get("gso") == "no":
        name, value = "payload", "0"
    elif int(payload) <= MOST_CUT and one.settings.get("gso") == "no":
        name, value = "gso", "yes"
    else:
        return None
    remedied = variant_with(reading, one, name, value)
    return Confirm(step.variant, remedied, step.pattern, [step.above_bytes])


def _remedy(one: Opened) -> str:
    """Where an option bounds the packets of this variant, that; else the MTU of the way does."""
    if one.options.get(LIMIT, "0") not in UNSET:
        return f"a larger {LIMIT}, or none, by which a datagram is as large as the MTU allows; or messages that fit"
    offload = "gso=yes" if "gso" in one.has else "segmentation offload (ethtool -K DEV tso on gso on gro on)"
    return f"a larger MTU on the whole way (9000 bytes), {offload}, or messages that fit"


def segment_of(one: Opened) -> int | None:
    """The bytes of a message in one packet, as the layer recorded it."""
    text = next((one.settings[name] for name in SEGMENTS if name in one.settings), "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def steps_of(reading: Reading) -> tuple[Step, ...]:
    """The steps that are such ones."""
    known = {(one.curve.variant, one.curve.pattern): one for one in opened(reading)}
    return tuple(step for step, _ in _found(reading, known))


def _found(reading: Reading, known: dict[tuple[str, str], Opened]) -> Iterator[tuple[Step, int]]:
    """Each step with the number of packets below it."""
    for step in reading.steps:
        one = known.get((step.variant, step.pattern))
        segment = segment_of(one) if one else None
        if segment is None or step.times.low <= 1:
            continue
        packets = (step.above_bytes - 1) // segment  # that are full when the larger message begins another
        if 1 <= packets <= MOST and step.below_bytes <= packets * segment:
            yield step, packets


def _run(times: float) -> Run:
    made = examples.stepping(times)
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options={}) for one in plan.variants]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={"snd_mss_bytes": "4200"})]
    return made


def fires() -> Run:
    return _run(1.4)


def silent() -> Run:
    return _run(1.03)
