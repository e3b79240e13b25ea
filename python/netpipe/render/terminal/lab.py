# SPDX-License-Identifier: Apache-2.0
"""Virtual clusters on the terminal, from what `netpipe lab list --json` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netpipe.escapes import printable
from netpipe.render.terminal.rows import console, print_paragraph
from netpipe.units import counted, listed, percent_text, rate_text, size_text, time_text

Lab = Mapping[str, Any]


def print_labs(labs: Sequence[Lab], *, hints: bool = False) -> None:
    """Each with its hosts; with `hints` also what to do next."""
    out = console()
    if not labs:
        out.print("No lab is up. netpipe lab up makes one.")
    for lab in labs:
        out.print(f"{printable(lab['name'])}: {network_text(lab)}", soft_wrap=True, highlight=False)
        width = max(len(host["name"]) for host in lab["hosts"])
        for host in lab["hosts"]:
            many = "processors" if len(host["processors"]) > 1 else "processor"
            where = f"{many} {','.join(map(str, host['processors']))}"
            up = "" if host["up"] else "   down: its processes were killed, or this machine was restarted"
            out.print(
                f"  {host['name']:{width}}  {host['address']:15}  {where}{up}",
                soft_wrap=True,
                highlight=False,
            )
        for sentence in facts(lab):
            print_paragraph(out, "·", "dim", sentence)
    if hints:
        (lab,) = labs
        near, far = (host["name"] for host in lab["hosts"][:2])
        out.print()
        out.print(
            f"netpipe lab exec {near} -- netpipe run tcp --hosts {near},{far}   measures", soft_wrap=True
        )
        out.print(f"netpipe lab down {lab['name']}   removes it", soft_wrap=True)


def network_text(lab: Lab) -> str:
    network = lab["network"]
    parts = [f"MTU {network['mtu_bytes']}"]
    parts.insert(0, rate_text(network["bits_per_s"] / 8) if network["bits_per_s"] else "no limit of the rate")
    if network["delay_ns"]:
        parts.append(f"{time_text(network['delay_ns'])} of delay one way")
    if network["loss"]:
        parts.append(f"{percent_text(network['loss'])} lost (seed {network['seed']})")
    if lab["complete"]:
        on = [name for name, is_on in lab["device"]["offloads"].items() if is_on]
        parts.append(f"offloads {' '.join(on)}" if on else "no offloads")
    return ", ".join(parts)


def facts(lab: Lab) -> Iterator[str]:
    """Sentences about how it is."""
    if not lab["complete"]:
        yield f"It is being made, or its making was killed; netpipe lab down {lab['name']} removes what there is."
        return
    network = lab["network"]
    near, far = (host["name"] for host in lab["hosts"][:2])
    delays = f", of which {time_text(2 * network['delay_ns'])} are the delay" if network["delay_ns"] else ""
    yield f"When it was made a round trip between {near} and {far} took {time_text(lab['round_trip_ns'])}{delays}."
    burst = lab["device"].get("burst_bytes")
    if burst and not lab["relay"]:
        yield f"After a pause {size_text(burst)} pass at once, so that shorter messages are faster than the rate."
    if network["mtu_bytes"] != 1500 and any(lab["device"]["offloads"].values()):
        yield "Offloads let pieces of up to 64 KiB cross whole, whatever the MTU is; --offloads off prevents it."
    if relay := lab["relay"]:
        yield from carried(relay)


def carried(relay: Mapping[str, Any]) -> Iterator[str]:
    """What the relay did to the packets."""
    if "problem" in relay:
        yield f"{relay['problem']}."
    elif relay["read"]:
        lost = f"{relay['lost']} of them lost ({percent_text(relay['lost'] / relay['read'])})"
        dropped = f", {relay['dropped']} dropped for lack of room" if relay["dropped"] else ""
        late = listed(
            f"{what} {time_text(relay[name])}"
            for what, name in (("median", "late_median_ns"), ("99 %", "late_p99_ns"), ("most", "late_max_ns"))
            if relay[name] is not None  # of too few packets
        )
        first = (
            ""
            if relay["realtime"]
            else ", and does not run before other processes, because the kernel refused it"
        )
        yield (
            f"The relay has carried {counted(relay['read'], 'packet')}, {lost}{dropped}. "
            f"It delivered them so much later than due: {late}{first}."
        )
