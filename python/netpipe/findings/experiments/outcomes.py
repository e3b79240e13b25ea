# SPDX-License-Identifier: Apache-2.0
"""What experiments came to, read from the runs that `netpipe explain --confirm` left beside a run.

A confirmed finding says so, and has the measured gain in place of the estimated one. One that was withdrawn is none any
more: the terminal, the report and the JSON leave it out, and say how many there are.
"""

from __future__ import annotations

from pathlib import Path

from netpipe.findings.experiments import Confirm, Confirmed, words
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.records import Header, NotARun, Run, read
from netpipe.units import counted, digits

WORTH = 1.05  # a gain below this is none
LEAST = 1.02  # that the interval must lie above, so that a finding is confirmed
FILES = ".confirm-*.jsonl"  # behind the stem of the run's name

WORDS = {
    "confirmed": "Confirmed",
    "withdrawn": "Withdrawn",
    "undecided": "Undecided",
    "failed": "The experiment failed",
}


def file_of(run: Path, number: int) -> Path:
    """Where the experiment of this number is kept: run.confirm-1.jsonl beside run.jsonl."""
    return run.with_name(f"{run.stem}.confirm-{number}.jsonl")


def beside(run: Run) -> list[Reading]:
    """The experiments of this run, by their header, the latest first. The run may have another name by now. A file that
    cannot be read is none.
    """
    if run.path is None or run.header is None:
        return []
    found = []
    for path in sorted(run.path.parent.glob(f"*{FILES}")):
        if not path.is_file() or not path.name.isprintable():
            continue
        try:
            first = next(iter(read(path)), None)
            if isinstance(first, Header) and first.confirms == run.header.run:
                found.append(Reading(Run.read(path, samples=False)))
        except (OSError, NotARun):
            continue
    return sorted(found, key=_started, reverse=True)


def _started(experiment: Reading) -> str:
    header = experiment.run.header
    return (header and header.started) or ""


def of(confirm: Confirm, experiments: list[Reading]) -> Confirmed | None:
    """What the latest of these that is this experiment came to; None, if none is."""
    for one in experiments:
        if (gain := gained(one, confirm)) is not None:
            return Confirmed(outcome(gain), confirm.remedied, gain, "", str(one.run.path))
    return None


def gained(reading: Reading, confirm: Confirm) -> Estimate | None:
    """How many times as fast the remedied variant is at the last of the sizes; None, if that was not measured here."""
    both = _names(reading.run, confirm)
    for verdict in reading.verdicts if both else ():
        if verdict.pattern != confirm.pattern or {verdict.variant, verdict.against} != set(both or ()):
            continue
        for at in verdict.sizes:
            if at.size_bytes == confirm.sizes[-1]:
                return at.times if (verdict.variant, verdict.against) == both else at.times.inverse()
    return None


def _names(run: Run, confirm: Confirm) -> tuple[str, str] | None:
    """What the two variants are called in the run of their experiment; None, if it is of another. The worker leaves out
    settings that are the default: tcp:nodelay=yes is tcp.
    """
    asked = words.recorded(run.header.argv) if run.header else None
    if asked is None or asked[:2] != [confirm.variant, confirm.remedied] or not run.plans:
        return None
    names = [one.variant for one in run.plans[0].variants]
    return (names[0], names[1]) if len(names) == 2 else None


def outcome(gain: Estimate) -> str:
    """Confirmed: certainly faster. Withdrawn: certainly not faster by more than what is worth it."""
    if not gain.known:
        return "undecided"
    if gain.low > LEAST:
        return "confirmed"
    return "withdrawn" if gain.high < WORTH else "undecided"


def outcome_text(outcome: Confirmed) -> str:
    """Confirmed: 1.31 (1.29 to 1.33) times as fast with tcp:nodelay=yes; run.confirm-1.jsonl."""
    word = WORDS[outcome.outcome]
    if outcome.gain is None:
        return f"{word}: {outcome.reason}."
    gain = outcome.gain
    limits = f" ({digits(gain.low)} to {digits(gain.high)})" if gain.known else ""
    where = f"; {outcome.path}" if outcome.path else ""
    return f"{word}: {digits(gain.value)}{limits} times as fast with {outcome.remedied}{where}."


def withdrawn_text(number: int) -> str:
    """2 findings were withdrawn by their experiments."""
    were, its = ("was", "its experiment") if number == 1 else ("were", "their experiments")
    return f"{counted(number, 'finding')} {were} withdrawn by {its}."
