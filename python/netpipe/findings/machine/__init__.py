# SPDX-License-Identifier: Apache-2.0
"""Rules about what disturbs measurements on a host, judged from its recorded facts (docs/reference/environment.md): by
`netpipe doctor` on the host as it is now, and on every run file, also years later.

    @machine_rule(
        "frequency-governor", "Frequency governor", WARNING, needs=("cpu.frequency.governor",),
        fires={"cpu.frequency.governor": "powersave"}, silent={"cpu.frequency.governor": "performance"},
    )
    def governor(facts: Facts) -> Advice | None: ...

A fact that is not known disturbs nothing, unless not knowing it is itself the trouble. The rules of one idea share a
file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netpipe.findings import MACHINE, CannotJudge, Finding, Quantity, Rule, add, again, examples
from netpipe.records import Environment

if TYPE_CHECKING:
    from netpipe.reading import Reading
    from netpipe.records import Run

CERTAINTY = "Follows from the facts that the host recorded; its effect on this run was not measured."


class Facts:
    """The facts of one host by their dotted names. A fact of another type counts as not known."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def beside(self, run: Mapping[str, Any]) -> Facts:
        """These facts, and those of the run as a whole."""
        return Facts({**self._facts, "run": run})

    def value(self, name: str) -> Any:
        """The fact as it was recorded; None if it is not known."""
        found: Any = self._facts
        for word in name.split("."):
            found = found.get(word) if isinstance(found, Mapping) else None
        return found

    def number(self, name: str) -> float | None:
        found = self.value(name)
        return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None

    def text(self, name: str) -> str | None:
        found = self.value(name)
        return found if isinstance(found, str) and found else None

    def truth(self, name: str) -> bool | None:
        found = self.value(name)
        return found if isinstance(found, bool) else None

    def texts(self, name: str) -> list[str]:
        found = self.value(name)
        return [str(one) for one in found] if isinstance(found, list) else []


@dataclass(frozen=True, slots=True)
class Advice:
    """What a rule found on a host."""

    why: str  # sentences: what is so, and what it does to measurements
    remedy: str  # a command where there is one
    evidence: Mapping[str, Quantity] = field(default_factory=dict)


HostJudge = Callable[[Facts], "Advice | None"]
# What follows from the environments of all launches of a run, by host; a rule finds it beside the facts, as `run.*`.
OfRun = Callable[["Run"], Mapping[str | None, Mapping[str, Any]]]
_titles: dict[str, tuple[str, ...]] = {}  # of each rule -> the facts that it needs


def machine_rule(
    id_: str,
    title: str,
    severity: str,
    *,
    needs: tuple[str, ...],
    fires: Mapping[str, Any],
    silent: Mapping[str, Any],
    of_run: OfRun | None = None,
) -> Callable[[HostJudge], HostJudge]:
    """Registers a rule about hosts. It judges if at least one of the facts it needs is known; `fires` and `silent` are
    facts on which it does and does not speak.
    """

    def register(function: HostJudge) -> HostJudge:
        def judge(reading: Reading) -> Iterator[Finding]:
            hosts = list(_hosts(reading.run.environments))
            if not any(known(facts, needs) for _, facts in hosts):
                raise CannotJudge(f"not recorded: {' or '.join(needs)}")
            whole = of_run(reading.run) if of_run else {}
            said: set[str | None] = set()
            for host, facts in hosts:
                advice = function(facts.beside(whole[host]) if host in whole else facts)
                # Several ranks and launches of one host: the first says it.
                if advice is None or host in said:
                    continue
                said.add(host)
                yield Finding(
                    severity=severity,
                    host=host,
                    what=advice.why,
                    evidence=dict(advice.evidence),
                    certainty=CERTAINTY,
                    remedy=advice.remedy,
                    experiment=again(reading),
                )

        add(
            Rule(
                id_,
                title,
                ("environment", *needs),
                judge,
                lambda: examples.with_facts(fires),
                lambda: examples.with_facts(silent),
                about=MACHINE,
            )
        )
        _titles[title.lower()] = needs
        return function

    return register


def known(facts: Facts, needs: Iterable[str]) -> bool:
    """Is any of these facts known?"""
    return any(facts.value(need) is not None for need in needs)


def can_judge(title: str, facts: Facts) -> bool:
    """Is there a rule with this title that can judge these facts?"""
    needs = _titles.get(title.lower().rstrip("."))
    return needs is not None and known(facts, needs)


def _hosts(environments: Iterable[Environment]) -> Iterator[tuple[str | None, Facts]]:
    for environment in environments:
        yield environment.host, Facts(environment.facts)


def run_on(facts: Mapping[str, Any]) -> Run:
    """A run that consists of these facts alone, for a host that is judged now."""
    from netpipe.records import Run

    return Run([Environment(facts=dict(facts))])
