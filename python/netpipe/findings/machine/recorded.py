# SPDX-License-Identifier: Apache-2.0
"""What earlier versions of the worker judged themselves: the list `spoilers` among the facts of older run files. A
rule of today that can judge the facts of such a file goes before them.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import (
    MACHINE,
    NOTE,
    SEVERITIES,
    WARNING,
    CannotJudge,
    Finding,
    Rule,
    add,
    examples,
)
from netpipe.findings.machine import Facts, can_judge
from netpipe.reading import Reading
from netpipe.units import capital, sentence

CERTAINTY = "Judged by the version of netpipe that measured."


def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each thing that the old judge named and the rules of today cannot judge again."""
    environments = reading.run.environments
    if not any("spoilers" in environment.facts for environment in environments):
        raise CannotJudge("the facts have no `spoilers`: newer files leave judging to the rules")
    said: set[tuple[str | None, str, str]] = set()
    for environment in environments:
        spoilers = environment.facts.get("spoilers")
        facts = Facts(environment.facts)
        for spoiler in spoilers if isinstance(spoilers, list) else []:
            if not isinstance(spoiler, dict) or not spoiler.get("what"):
                continue
            what, why, fix = (str(spoiler.get(key) or "") for key in ("what", "why", "fix"))
            severity = spoiler.get("severity")
            if can_judge(what, facts) or (environment.host, what, why) in said:
                continue
            said.add((environment.host, what, why))
            yield Finding(
                title=capital(what.rstrip(".")),
                # An unknown severity is taken seriously, but not as the worst.
                severity=severity if severity in SEVERITIES else WARNING,
                host=environment.host,
                what=capital(sentence(why)),
                certainty=CERTAINTY,
                remedy=fix,
            )


def _with(what: str) -> dict[str, object]:
    spoiler = {"what": what, "why": "it was seen", "fix": "remove it", "severity": NOTE}
    return {"spoilers": [spoiler], "cpu.frequency.governor": "performance"}


add(
    Rule(
        "recorded-judgement",
        "Judged when it was measured",
        ("environment",),
        judge,
        lambda: examples.with_facts(_with("Cosmic rays")),
        lambda: examples.with_facts(_with("Frequency governor")),  # judged again, and sound
        about=MACHINE,
    )
)
