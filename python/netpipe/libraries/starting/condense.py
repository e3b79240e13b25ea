# SPDX-License-Identifier: Apache-2.0
"""What a launcher wrote before it ended, as the one sentence that matters in it."""

from __future__ import annotations

import re

from netpipe.native import WORKER

LONGEST = 500
RULE = re.compile(r"[-=*#\s]+")
# Who speaks, which the sentence says anyway: "[vm:12345] ", "[mpiexec@vm] ", "[proxy:0:0@vm] ", "srun: error: ".
SPEAKER = re.compile(
    r"\[[^\]\s]+(?:@|:)[^\]]*\]\s*(?:\[\[\d+,\d+\](?:,\d+)?\]\s*)?|(?:srun|slurmstepd[^:]*): (?:error: )?"
)
# What says nothing: politeness, and where in the launcher's own source it happened to notice.
NOISE = (
    re.compile(r"YOU CAN IGNORE|CLEANING UP REMAINING|^Primary job +terminated|^Per user-direction"),
    re.compile(r"^\S*(HYD|hyd)\w* \(.*\): |^main \(.*\): |assert \(!closed\) failed|control_cb|^PMIX? ERROR"),
    re.compile(
        r"^(Please|For more|Sorry!|You can set|NOTE:|WARNING: )|^LAM 7|Indiana University|help message"
    ),
    re.compile(r"lacks support for cpu binding|^\[? ?\d+\] /|^Signal code:|^Failing at|End of error message"),
    re.compile(r"Set MCA parameter .orte_base_help_aggregate"),
    re.compile(r"^(Execution failed with code|Exiting now|Aborted$)"),
    re.compile(r"^(This typically|If your process did not|EXIT STRING: )|in your C code before exiting"),
)
# Hydra's account of a rank that ended badly; it gives one of each that it then killed itself, with signal 9 or 15.
ENDED_BADLY = re.compile(
    r"(?:RANK (?P<rank>\d+) )?PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)\s*=?\s*"
    r"(?:EXIT CODE: (?P<code>\d+)|KILLED BY SIGNAL: (?P<signal>\d+) \((?P<name>[^)]*)\))"
)
# ssh could not get there. Hydra of MPICH 4 does not notice and waits for ever; others say less clearly what ssh said.
NO_WAY = re.compile(
    r"^ssh: .*|^.*\bPermission denied \((?:publickey|password|keyboard|gssapi|hostbased)[^)]*\).*"
    r"|^Host key verification failed.*|^ssh_exchange_identification: .*|^kex_exchange_identification: .*",
    re.MULTILINE,
)
SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z\"])")


def condense(text: str) -> str:
    """One line of at most LONGEST characters; empty where nothing was said. What our own processes said is first, then
    what ssh said, then a launcher's boxed explanation, then its other lines.
    """
    lines = [line.strip() for line in text.splitlines()]
    ours = [line.partition(f"{WORKER}:")[2].strip() for line in lines if f"{WORKER}:" in line]
    if ours:
        return _cut("; ".join(dict.fromkeys(ours)))
    if way := hopeless(text):
        return way
    if culprit := _ended_badly(text):
        return _cut(culprit)
    boxed = _boxes(lines)
    said = boxed or [words for line in lines if (words := _words(line))]
    if not said:  # nothing but noise is better than nothing
        said = [line for line in lines if line and not RULE.fullmatch(line)]
    return _cut("; ".join(dict.fromkeys(said)))


def hopeless(text: str) -> str:
    """What ssh said of a host that it cannot reach; empty where it said nothing of that kind."""
    return _cut("; ".join(dict.fromkeys(one.group().strip() for one in NO_WAY.finditer(text))))


def _words(line: str) -> str:
    words = SPEAKER.sub("", line).strip("=-* \t|")
    return "" if not words or any(noise.search(words) for noise in NOISE) else words


def _boxes(lines: list[str]) -> list[str]:
    """The first explanation with something in it that Open MPI or LAM has put between lines of dashes, as one
    paragraph.
    """
    box: list[str] | None = None
    for line in [*lines, "-" * 30]:
        if len(line) > 20 and set(line) <= {"-"}:
            sentences = SENTENCE_END.split(" ".join(box or []))
            if kept := [words for one in sentences if (words := _words(one))]:
                return [" ".join(kept)]
            box = []
        elif box is not None and line:
            box.append(line)
    return []


def _ended_badly(text: str) -> str:
    found = list(ENDED_BADLY.finditer(text))
    first = next((one for one in found if one["signal"] not in ("9", "15")), found[0] if found else None)
    if first is None:
        return ""
    who = f"rank {first['rank']} (process {first['pid']})" if first["rank"] else f"process {first['pid']}"
    if first["signal"]:
        return f"{who} on {first['host']} was killed by signal {first['signal']} ({first['name']})"
    return f"{who} on {first['host']} ended with code {first['code']}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    return text[:LONGEST].rsplit(" ", 1)[0] + " ..."
