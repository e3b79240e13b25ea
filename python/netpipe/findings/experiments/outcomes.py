# SPDX-License-Identifier: Apache-2.0
"""What experiments came to, read from the runs that `netpipe explain --confirm` left beside a run.

A confirmed finding says so, and has the measured gain in place of the estimated one. One that was withdrawn is none any
more: the terminal, the report and the JSON leave it out, and say how many there are.
"""

from __future__ import annotations

from pathlib import Path

from netpipe.findings.experiments import HIGHER, Confirm, Confirmed, Judged, Shares, words
from netpipe.reading import Reading
from netpipe.reading.blocks.changes import change
from netpipe.reading.estimate import Estimate
from netpipe.records import Header, NotARun, Run, read
from netpipe.units import counted, digits, limits_text, percent_text

WORTH = 1.05  # a gain below this is none
LEAST = 1.02  # that the interval must lie above, so that a finding is confirmed
WORTH_SHARE = 0.1  # of what a measure lacks to the best: a remedy that gets back less of it is none
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
        if (found := came_to(one, confirm)) is not None:
            return found
    return None


def came_to(reading: Reading, confirm: Confirm) -> Confirmed | None:
    """What this run says of the experiment; None, if it is of another one, or has not measured both variants."""
    path = None if reading.run.path is None else str(reading.run.path)
    if confirm.judged is not None:
        shares = _shares(reading, confirm, confirm.judged)
        if shares is None:
            return None
        return Confirmed(outcome_of(shares.got_back), confirm.remedied, None, "", path, shares)
    gain = gained(reading, confirm)
    return None if gain is None else Confirmed(outcome(gain), confirm.remedied, gain, "", path)


def _shares(reading: Reading, confirm: Confirm, judged: Judged) -> Shares | None:
    """The measure of both variants at the last of the sizes, which may have no time at all."""
    both = _names(reading.run, confirm)
    if both is None:
        return None
    rises = judged.better == HIGHER
    found = change(
        reading.run, both, confirm.pattern, judged.measure, confirm.sizes[-1], judged.best, rises=rises
    )
    if found is None:
        return None
    return Shares(judged.measure, judged.what, found.before, found.after, judged.best, found.got_back)


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


def outcome_of(got_back: Estimate | None) -> str:
    """Of an experiment that judges a measure. Confirmed: the remedy certainly gets back WORTH_SHARE or more of what is
    lacking to the best. Withdrawn: it certainly does not. Where nothing is lacking, it is undecided.
    """
    if got_back is None or not got_back.known:
        return "undecided"
    if got_back.low >= WORTH_SHARE:
        return "confirmed"
    return "withdrawn" if got_back.high < WORTH_SHARE else "undecided"


def outcome_text(outcome: Confirmed) -> str:
    """Confirmed: 1.31 (1.29 to 1.33) times as fast with tcp:nodelay=yes; run.confirm-1.jsonl. Or, of a measure:
    Confirmed: the fraction of messages lost is 0.3 % with udp:rcvbuf=4M and 6.2 % without, 95 % (90 to 100 %) of the
    way to 0 %; run.confirm-1.jsonl.
    """
    word = WORDS[outcome.outcome]
    where = f"; {outcome.path}" if outcome.path else ""
    if outcome.shares is not None:
        of = outcome.shares
        both = f"{percent_text(of.after.value)} with {outcome.remedied} and {percent_text(of.before.value)} without"
        return f"{word}: the {of.what} is {both}{_way_text(of)}{where}."
    if outcome.gain is None:
        return f"{word}: {outcome.reason}."
    gain = outcome.gain
    limits = f" ({digits(gain.low)} to {digits(gain.high)})" if gain.known else ""
    return f"{word}: {digits(gain.value)}{limits} times as fast with {outcome.remedied}{where}."


def _way_text(of: Shares) -> str:
    """How far the remedy gets, as the end of a sentence."""
    if of.got_back is None:
        return ", where nothing is lacking"
    got = of.got_back
    limits = f" ({limits_text(got.low, got.high, percent_text)})" if got.known else ""
    return f", {percent_text(got.value)}{limits} of the way to {100 * of.best:.0f} %"


def withdrawn_text(number: int) -> str:
    """2 findings were withdrawn by their experiments."""
    were, its = ("was", "its experiment") if number == 1 else ("were", "their experiments")
    return f"{counted(number, 'finding')} {were} withdrawn by {its}."
