# SPDX-License-Identifier: Apache-2.0
"""netpipe doctor: checks what can be measured here, what is missing, and what on this machine disturbs measurements."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.options import module_option
from netpipe.failure import DONE, GATE, INTERRUPTED, UNAVAILABLE, Failure

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.findings.doctor import Diagnosis
    from netpipe.libraries.adding.discover import Found

MARKS = {"warning": ("!", "yellow"), "note": ("·", "dim"), "good": ("✓", "green")}
PLURALS = {"severe": "severe", "warning": "warnings", "note": "notes"}


@click.command
@click.option("--strict", is_flag=True, help="Exit with 1 if anything disturbs measurements severely.")
@click.option(
    "--yardstick/--no-yardstick",
    default=True,
    help="Measure briefly what two processors can do without a layer between them  [default: yes]",
)
@module_option
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def command(strict: bool, yardstick: bool, files: tuple[str, ...], as_json: bool) -> int:
    """Check what can be measured here, and what gets in the way.

    Shows the host, the modules that can be used, what is missing and how to get it, the libraries of this machine that
    netpipe modules adds, and everything known to disturb measurements. Exits with 0 when something can be measured,
    with 3 when nothing can.
    """
    from netpipe import native
    from netpipe.findings.doctor import diagnose
    from netpipe.libraries.adding import added, discover, layers

    paths = [str(Path(file).absolute()) for file in files]
    # First of all, before our own questions add to the load.
    environment = native.environment()
    listing = native.list_(paths)
    there = list(added.checked())
    broken = {one.module.name: one.problem for one in there if one.problem}
    libraries = discover.find([one.module for one in there], Path.cwd())
    usable = {one.layer: one.compiler for one in reversed(libraries) if one.problem is None}
    missing = layers.without_library(listing, lambda layer: usable.get(layer.name))
    diagnosis = diagnose(listing, environment, broken | {one.name: one.reason for one in missing})
    measured, problem = take_yardstick(listing, paths) if yardstick and diagnosis.possible else (None, None)
    code = UNAVAILABLE if not diagnosis.possible else GATE if strict and diagnosis.severe else DONE
    if as_json:
        import msgspec

        answer = {
            "host": socket.gethostname(),
            "possible": diagnosis.possible,
            "exit": code,
            "layers": [asdict(layer) for layer in diagnosis.layers],
            "missing": [asdict(missing) for missing in diagnosis.missing],
            "findings": msgspec.to_builtins(diagnosis.findings),
            "libraries": [library.as_json() for library in libraries],
            "mpi": [library.as_json() for library in libraries],  # what they were called first
            "yardstick": measured,
            "yardstick_problem": problem,
            "facts": {name: fact for name, fact in environment.items() if name != "spoilers"},
        }
        click.echo(json.dumps(answer))
        return code
    from netpipe.render.terminal.rows import console

    out = console()
    print_host(out, environment, measured, problem)
    print_layers(out, diagnosis)
    print_libraries(out, libraries, {one.module.name: one.advice for one in there if one.advice})
    print_disturbances(out, diagnosis)
    print_verdict(out, diagnosis)
    return code


def take_yardstick(
    listing: Mapping[str, Any], files: list[str]
) -> tuple[dict[str, float | None] | None, str | None]:
    """The yardsticks of a run of a few milliseconds, and None; or None and why there are none."""
    from netpipe.session import Request, Session

    # It does not matter what is measured, but two ranks are needed: yardsticks are about what lies between them.
    pairs = [
        (module["name"], module["patterns"][0])
        for module in listing["modules"]
        if module["available"]
        and module["patterns"]
        and module["min_ranks"] <= 2 <= module["max_ranks"]
        and not module.get("launched")  # an mpirun for a few milliseconds, and it may be broken
    ]
    if not pairs:
        return None, "no module here takes two ranks"
    name, pattern = pairs[0]
    request = Request([name], [pattern], {"sizes": "8", "budget": "0.05"}, modules=files)
    try:
        result = Session(request).measure()
    except Failure as failure:
        return None, failure.sentence
    if result.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    if result.exit_code != DONE or not result.run.yardsticks:
        return None, next((error.message for error in result.run.errors), "the worker took none")
    last = result.run.yardsticks[-1]
    names = ("clock_ns", "clock_resolution_ns", "bounce_ns", "copy_bytes_per_s", "wakeup_ns", "multiply_ns")
    return {name: getattr(last, name) for name in names}, None


# ------------------------------------------------------------------------------------------------------- printing


def print_host(
    out: Console, facts: Mapping[str, Any], measured: Mapping[str, float | None] | None, problem: str | None
) -> None:
    from rich.table import Table
    from rich.text import Text

    out.print(Text(socket.gethostname(), style="bold"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, words in described(facts):
        grid.add_row(Text(name, style="dim"), Text(words))
    if measured is not None:
        grid.add_row(Text("yardsticks", style="dim"), Text(yardstick_words(measured)))
    elif problem is not None:
        grid.add_row(Text("yardsticks", style="dim"), Text(f"none: {problem}"))
    out.print(grid)


def print_layers(out: Console, diagnosis: Diagnosis) -> None:
    from rich.text import Text

    from netpipe.render.terminal.rows import Rows

    out.print()
    if diagnosis.layers:
        made = Rows(("can be measured", "name"), ("patterns", "left"), ("what it is", "left"))
        for layer in diagnosis.layers:
            made.add_row(layer.name, Text(" ".join(layer.patterns) or "none"), Text(layer.summary))
        out.print(made)
    else:
        out.print(Text("Nothing can be measured: there is no usable module.", style="bold red"))
    if diagnosis.missing:
        out.print()
        out.print(Text("cannot be measured here", style="bold"))
        for one in diagnosis.missing:
            out.print(marked("note", Text(f"{one.what}: ", style="bold").append(one.why, style="not bold")))


def print_libraries(out: Console, libraries: Sequence[Found], advice: Mapping[str, str]) -> None:
    """The libraries of this machine, of every layer that has a module for each, and how to add them. `advice` is
    about modules, by name.
    """
    from rich.text import Text

    from netpipe.libraries import MPI

    out.print()
    if not any(library.layer == MPI for library in libraries):
        out.print(
            "No MPI library was found. docs/how-to/mpi.md says how to install one without root permissions."
        )
    if not libraries:
        return
    out.print(Text("libraries", style="bold"))
    for library in libraries:
        what = Text(library.title or str(library.compiler), style="bold")
        if library.module:
            what.append(f" is {library.module}", style="not bold")
            if library.module in advice:
                what.append(f": {advice[library.module]}", style="not bold")
            out.print(marked("warning" if library.module in advice else "good", what))
            continue
        what.append(f" ({library.layer}; {library.where}): ", style="not bold")
        if library.problem:
            out.print(marked("warning", what.append(f"{library.problem}.", style="not bold")))
            continue
        what.append("not added yet", style="not bold")
        what.append("\n→ ", style="not bold dim").append(library.command, style="not bold cyan")
        out.print(marked("note", what))


def print_disturbances(out: Console, diagnosis: Diagnosis) -> None:
    from rich.text import Text

    from netpipe.render.terminal.findings import print_findings

    out.print()
    if not diagnosis.findings:
        out.print(marked("good", Text("Nothing is known to disturb measurements here.")))
        return
    out.print(Text("disturbs measurements", style="bold"))
    print_findings(out, diagnosis.findings)


def print_verdict(out: Console, diagnosis: Diagnosis) -> None:
    out.print()
    from netpipe.units import counted

    found = ", ".join(
        counted(count, severity, PLURALS[severity]) for severity, count in diagnosis.counts.items()
    )
    layers = len(diagnosis.layers)
    words = f"{counted(layers, 'module')} can be measured" + (f"; {found}" if found else "")
    if diagnosis.possible:
        words += ". Measure with: netpipe run" + ("; fix what is severe first" if diagnosis.severe else "")
    elif layers:
        words += ", but only netpipe's own overhead: build the other modules, or name one with --module"
    else:
        words += ": build the modules (make build), or name one with --module"
    out.print(f"{words}.", soft_wrap=False, markup=False)


def marked(severity: str, text: Any) -> Any:
    """A paragraph behind its mark."""
    from rich.table import Table
    from rich.text import Text

    mark, style = MARKS[severity]
    grid = Table.grid()
    grid.add_row(Text(f"{mark} ", style=style), text)
    return grid


def yardstick_words(measured: Mapping[str, float | None]) -> str:
    from netpipe.units import rate_text, time_text

    parts = []
    if measured["bounce_ns"] is not None:
        parts.append(f"cache line to the other processor {time_text(measured['bounce_ns'])}")
    if measured["wakeup_ns"] is not None:
        parts.append(f"wake-up {time_text(measured['wakeup_ns'])}")
    if measured["copy_bytes_per_s"] is not None:
        parts.append(f"copy {rate_text(measured['copy_bytes_per_s'])}")
    if measured["clock_ns"] is not None:
        parts.append(f"reading the clock {time_text(measured['clock_ns'])}")
    if (multiply_ns := measured.get("multiply_ns")) is not None:
        parts.append(f"a multiplication {time_text(multiply_ns)}")
    return ", ".join(parts) or "none"


def described(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts that most numbers depend on, a line each; lines without a known fact are left out."""
    from netpipe.findings.machine import Facts

    fact = Facts(facts).value
    for name, parts in (
        ("processor", _processor(fact)),
        ("clock speed", _speed(fact)),
        ("memory", _memory(fact)),
        ("kernel", _kernel(fact)),
        ("network", _network(fact)),
        ("limits", _limits(fact)),
        ("single copies", _single_copies(fact)),
    ):
        words = [part for part in parts if part]
        if words:
            yield name, ", ".join(words)


Fact = Callable[[str], Any]  # by its dotted name; None when it is not known


def _processor(fact: Fact) -> Iterator[str]:
    from netpipe.units import size_text

    yield fact("cpu.model") or ""
    cores, sockets, logical = (fact(f"cpu.{name}") for name in ("cores", "sockets", "logical"))
    if cores:
        yield f"{cores} core{'' if cores == 1 else 's'}" + (
            f" in {sockets} sockets" if (sockets or 1) > 1 else ""
        )
    if logical and cores and logical > cores:
        yield f"{logical} threads"
    levels = sorted((fact("cpu.cache") or {}).items())
    if levels and levels[-1][1]:
        yield f"{levels[-1][0].split('_')[0].upper()} {size_text(levels[-1][1])}"
    if fact("cpu.virtual.is_virtual"):
        yield f"virtual machine on {fact('cpu.virtual.hypervisor') or 'an unnamed hypervisor'}"


def _speed(fact: Fact) -> Iterator[str]:
    least, most = fact("cpu.frequency.min_hz"), fact("cpu.frequency.max_hz")
    if least and most:
        yield f"{least / 1e9:.1f} to {most / 1e9:.1f} GHz"
    if governor := fact("cpu.frequency.governor"):
        yield f"governor {governor}"
    boost = fact("cpu.frequency.boost")
    if boost is not None:
        yield "turbo on" if boost else "turbo off"


def _memory(fact: Fact) -> Iterator[str]:
    from netpipe.units import size_text

    total, available = fact("memory.total_bytes"), fact("memory.available_bytes")
    if total:
        yield size_text(total) + (f" ({size_text(available)} available)" if available else "")
    nodes = fact("memory.node_count")
    if nodes:
        yield f"{nodes} NUMA node{'' if nodes == 1 else 's'}"
    if pages := fact("memory.transparent_huge_pages.enabled"):
        yield f"transparent huge pages {pages}"


def _kernel(fact: Fact) -> Iterator[str]:
    if release := fact("kernel.release"):
        yield f"Linux {release}"
    if preemption := fact("kernel.preemption"):
        yield f"preemption {preemption}"
    if tick := fact("clock.tick_hz"):
        yield f"{tick} Hz"
    if source := fact("clock.source"):
        yield f"clock {source}"


def _network(fact: Fact) -> Iterator[str]:
    from netpipe.units import rate_text

    for interface in fact("network.interfaces") or []:
        if interface.get("name") == "lo" or interface.get("state") == "down":
            continue
        rate = interface.get("bits_per_s")
        words = [
            interface.get("driver"),
            rate_text(rate / 8) if rate else None,
            f"MTU {interface['mtu_bytes']}" if interface.get("mtu_bytes") else None,
        ]
        yield f"{interface.get('name')} ({' '.join(word for word in words if word)})"
    for device in fact("network.rdma_devices") or []:
        yield f"RDMA {device.get('name')}"
    if control := fact("network.tcp.congestion_control"):
        yield f"TCP {control}"


def _limits(fact: Fact) -> Iterator[str]:
    from netpipe.units import size_text

    if cpus := fact("limits.allowed_cpus"):
        yield f"processors {cpus}"
    if (quota := fact("limits.cgroup.cpu_quota")) is not None:
        yield f"quota of {quota:g}"
    if memory := fact("limits.cgroup.memory_max_bytes"):
        yield f"memory {size_text(memory)}"
    if (container := fact("limits.container")) and container != "none":
        yield f"container ({container})"
    lockable = fact("limits.memlock_bytes")
    if lockable is not None:
        yield f"lockable memory {lockable if isinstance(lockable, str) else size_text(lockable)}"


# Kernel modules that are not part of Linux, by which a process copies from the memory of another, and what gets them.
COPIERS = {
    "xpmem": "build the kernel module of the OpenUCX project, then modprobe xpmem",
    "knem": "build the kernel module of Inria, then modprobe knem",
}


def _single_copies(fact: Fact) -> Iterator[str]:
    """Beside that of Linux itself, which the layer cma measures."""
    for name, get in COPIERS.items():
        there = fact(f"limits.{name}")
        if there is not None:
            yield f"{name} (measure it with ucx:tls=posix+{name})" if there else f"no {name} ({get})"
