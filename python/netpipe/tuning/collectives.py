# SPDX-License-Identifier: Apache-2.0
"""Algorithms of collective operations. Which there are, the library itself says (library/asking.py).

Where the library takes rules by size and number of ranks, each algorithm is measured at each size, each size gets the
one that was certainly faster than the library's own choice or keeps that choice, and all rules together are confirmed,
for each operation and number of ranks.
A library may ignore a file of rules without a word, so what they gain is held against what their algorithms gained.
Where it takes one algorithm for all sizes, that is one setting among others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.findings import CannotJudge
from netpipe.findings.curves.broken_guideline import GUIDELINES, judge, same_size
from netpipe.libraries.tunables import Chosen, Rules
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.tuning.library import NO_LIBRARY, Library
from netpipe.tuning.measuring.bench import GRACE_S, LEAST_BUDGET_S
from netpipe.tuning.measuring.ratios import Scores, Verdict, scores
from netpipe.tuning.search.goals import COLLECTIVE_SIZES, Goal, Place
from netpipe.tuning.search.halving import LEAST_GAIN, SAME, Failed
from netpipe.tuning.search.space import Knob, Space
from netpipe.tuning.search.variants import START, Changes, Start
from netpipe.tuning.tune import Outcome, Tuner
from netpipe.units import digits, size_text

# the choice of the library, another call, a device
NOT_ALGORITHMS = frozenset({"auto", "ignore", "nb", "ccl"})
SCREENING = 0.5  # of the time of the search
GUIDELINE = 0.1  # of all the time: is the operation as fast as others that do the same together?


def space(library: Library, goal: Goal, start: Start, only: Collection[str]) -> Space:
    """The algorithms of the operation that `goal` names. Raises Failure: 3 where the library does not tell them, 2 for
    settings that were named beside them.
    """
    operation = goal.name.partition("=")[2]
    if only:
        raise Failure(
            USAGE,
            "--only names settings; with --goal collective the algorithms are what is searched, so leave it out",
        )
    variable = library.tunables.algorithm(operation)
    if not variable:
        raise Failure(
            UNAVAILABLE,
            f"{start.module}: netpipe does not know how to choose collective algorithms of this library",
        )
    answer = library.ask([variable]).get(variable)
    if answer is None or not answer["choices"]:
        raise Failure(
            UNAVAILABLE, f"{start.module} does not say which algorithms of {operation} it has ({variable})"
        )
    words = [one for one in answer["choices"] if one not in NOT_ALGORITHMS | library.tunables.unruled]
    numbers = answer["choices"] if isinstance(answer["choices"], dict) else {}
    values = tuple(str(numbers.get(word, word)) for word in words)
    return Space(
        (Knob(variable, values, help=", ".join(f"{v} {w}" for v, w in zip(values, words, strict=True))),)
    )


@dataclass
class PerSize(Tuner):
    """As Tuner, with an algorithm for each size where the library takes that."""

    library: Library = NO_LIBRARY
    folder: Path | None = None  # of rules
    ranks: int = 2
    # What the search has chosen for each size; None: there are no rules, or nothing was faster.
    picked: Chosen | None = None
    reserve_s: float = 0.0  # of the time, for other operations that do the same
    # What the algorithms of the rules take, chosen one by one, over what the start takes; None: there are no rules.
    _alone: Estimate | None = None

    def tune(self, output: Path | None) -> Outcome:
        (found,), _ = together([self], [output], self.until_s)
        return found

    def begin(self) -> Outcome:
        self.reserve_s = GUIDELINE * max(self.until_s - self.bench.clock(), 0.0)
        self.until_s -= self.reserve_s
        found = super().begin()
        found.ranks = self.ranks
        return found

    def use(self, found: Outcome, made: Rules) -> None:
        """Lets the proof be about these rules, which may be for other operations too."""
        self._chosen = [Changes.of(made.variables)]
        found.rules = tuple(made.files)
        if made.files and self.bench.base.hosts:
            found.notes.append(
                f"every host needs the rules at the same path, {self.rules_folder}: name a folder that they "
                "share with -o"
            )

    def end(self, found: Outcome, output: Path | None) -> None:
        super().end(found, output)
        found.effects = tuple(
            replace(one, said=f"{one.said}, which is its name; that its rules are used shows in the gain")
            if Path(one.value).name in found.rules
            else one
            for one in found.effects
        )
        if self._alone is not None and found.verdict is not None:
            found.notes += shortfall(found.verdict, self._alone.inverse())
        if not found.interrupted:
            left_s = max(self.until_s + self.reserve_s - self.bench.clock(), 0.0)
            self._check_guideline(found, self.reserve_s, left_s + GRACE_S)
            found.interrupted |= self.bench.guard.count > 0

    def _check_guideline(self, found: Outcome, seconds: float, limit_s: float) -> None:
        """Whether other operations that do the same together are faster, before and after. `seconds`: of measuring,
        which is ended after `limit_s`.
        """
        operation = found.goal.partition("=")[2]
        others = GUIDELINES.get(operation, ())
        if not others or not same_size(operation, others):
            return
        variants = list(dict.fromkeys((found.variant, found.tuned)))
        places = [
            (f"collective:what={name}", size) for name in (operation, *others) for size in COLLECTIVE_SIZES
        ]
        self.watch(f"comparing {operation} with {' and '.join(others)}")
        budget_s = seconds / (len(variants) * (1 + len(others)))
        measured = self.bench.session(variants, places, budget_s, limit_s)
        found.measurements = self.bench.measurements
        try:
            broken = list(judge(Reading(measured.run)))
        except CannotJudge as why:
            found.notes.append(f"{operation} was not held against {' and '.join(others)}: {why}")
            return
        found.notes += [one.what.rstrip(".") for one in broken]
        if not broken:
            found.notes.append(f"{operation} is not certainly slower than {' and '.join(others)} at any size")

    def choose(self, found: Outcome, whole: Goal, until_s: float) -> list[Changes]:
        if not self.has_rules:
            return super().choose(found, whole, until_s)
        # Between hosts what the choice needs may change the library's own choice, so that is measured too.
        own = [self._needed] if self.bench.base.hosts and self._needed != START else []
        told = self._measured([*self.space.candidates, *own], SCREENING, until_s, found)
        promising = [one for one, places in told.items() if any(map(_faster, places.values()))]
        again = (
            self._measured(list(dict.fromkeys([*promising, *own])), 1.0, until_s, found) if promising else {}
        )
        told |= again
        own_choice = told.pop(self._needed, {})
        names = {dict(one.items)[self._variable]: one for one in told}
        by_name = {name: told[one] for name, one in names.items()}
        by_size = choice(by_name, whole.sizes(whole.counted), own_choice)
        found.compared = frozenset(told)
        taken = {
            place: by_name[by_size[place[1]]][place] if by_size[place[1]] else own_choice.get(place, SAME)
            for place in self.bench.goal.counted
        }
        if not any(by_size[place[1]] and _faster(times) for place, times in taken.items()):
            return []
        self._alone = whole.score(taken, dict.fromkeys(taken, 1.0))
        self.picked = self._chosen_as(by_size)
        words = _in_words(by_size, self._words())
        found.notes.append(f"rules for {self.picked.operation} on {self.ranks} ranks: {words}")
        return []  # the rules are used when they are written

    def _chosen_as(self, by_size: Mapping[int, str]) -> Chosen:
        operation, of = self.bench.goal.name.partition("=")[2], self.library
        return Chosen(operation, self.ranks, by_size, self._words(), of.version, of.file)

    @property
    def rules_folder(self) -> Path:
        assert self.folder is not None
        return self.folder.absolute()

    @property
    def has_rules(self) -> bool:
        """Whether the library takes rules for this operation."""
        rules, values = self.library.tunables.rules, self.space.knobs[0].values
        if rules is None or self.folder is None or not values:
            return False
        one = dict.fromkeys(self.bench.goal.sizes(self.bench.goal.counted)[:1], values[0])
        return rules([self._chosen_as(one)], self.folder.absolute()) is not None

    @property
    def _needed(self) -> Changes:
        """Without which the library ignores the choice of an algorithm."""
        operation = self.bench.goal.name.partition("=")[2]
        return Changes.of(self.library.tunables.with_algorithm(operation, self.library.version))

    @property
    def _variable(self) -> str:
        return self.space.knobs[0].name

    def _words(self) -> dict[str, str]:
        """The name of each algorithm by its number."""
        return dict(one.split(" ", 1) for one in self.space.knobs[0].help.split(", "))

    def _measured(
        self, some: Sequence[Changes], share: float, until_s: float, found: Outcome
    ) -> dict[Changes, Mapping[Place, Estimate]]:
        """Each algorithm at each size, against the start."""
        bench, told = self.bench, {}
        share_s = share * (until_s - bench.clock())
        budget_s = max(LEAST_BUDGET_S, (share_s - GRACE_S) / (len(some) + 1) - self._late_s)
        self.watch(f"measuring {len(some)} algorithm{'s' if len(some) != 1 else ''} at each size")
        forced = {one: one.merged(self._needed) for one in some if one not in self.avoid}
        left = list(forced)
        while left and until_s - bench.clock() > GRACE_S and not found.interrupted:
            chunk, left = left[:6], left[6:]
            base = bench.start.text
            names = {bench.start.variant(forced[one]): one for one in chunk}
            measured = bench.session([base, *names], bench.goal.counted, budget_s, until_s - bench.clock())
            found.interrupted |= measured.interrupted
            names = {bench.name(variant): one for variant, one in names.items()}
            made = scores(measured.run, bench.name(base), bench.goal.patterns, bench.goal, bench.goal.counted)
            failed = {
                names[error.variant]: Failed("failed", error.message)
                for error in measured.run.errors
                if error.variant in names
            }
            told.update(_told(made, names, failed))
            bench.began.update(one for one in chunk if one != self._needed)
            found.failed.update(failed)
            self.log.places(made, names, failed, bench.start)
        return told


def together(
    tuners: Sequence[PerSize], outputs: Sequence[Path | None], until_s: float
) -> tuple[list[Outcome], Rules | None]:
    """Tunes one library for several operations and numbers of ranks: a search for each, one set of rules with what all
    of them chose, and a proof of these rules for each. What gains nothing is taken out again. Several need a library
    that takes rules, and one folder for them. `until_s`: of the clock. Returns the outcomes that were reached, and the
    rules; None where nothing gains by them. Raises Failure as Tuner does.
    """
    clock = tuners[0].bench.clock
    found: list[Outcome] = []
    for place, tuner in enumerate(tuners):
        tuner.until_s = clock() + (until_s - clock()) / (len(tuners) - place)
        if len(tuners) > 1:
            operation = tuner.bench.goal.name.partition("=")[2]
            tuner.watch(f"{operation} on {tuner.ranks} ranks ({place + 1} of {len(tuners)})")
        found.append(tuner.begin())
        if found[-1].interrupted:
            return found, None
    picked = {place: tuner.picked for place, tuner in enumerate(tuners) if tuner.picked is not None}
    made = _written(tuners[0], list(picked.values()))
    for place, (tuner, outcome, output) in enumerate(zip(tuners, found, outputs, strict=True)):
        share_s = (until_s - clock()) / (len(tuners) - place)
        tuner.until_s = clock() + share_s - min(tuner.reserve_s, share_s / 2)
        if made is not None and place in picked:
            tuner.use(outcome, made)
        tuner.end(outcome, output)
        if outcome.interrupted:
            break
    if made is None:
        return found, None
    gaining = [
        one if found[place].best != START else replace(one, by_size=dict.fromkeys(one.by_size, ""))
        for place, one in picked.items()
    ]
    for outcome in found:
        outcome.rules = outcome.rules if outcome.best != START else ()
    if any(any(one.by_size.values()) for one in gaining):
        return found, _written(tuners[0], gaining)
    for name in made.files:
        (tuners[0].rules_folder / name).unlink()  # nothing has shown that it gains
    return found, None


def _written(tuner: PerSize, picked: Sequence[Chosen]) -> Rules | None:
    """The rules, whose files are in the folder of `tuner`; None where nothing was picked."""
    rules = tuner.library.tunables.rules
    made = rules(picked, tuner.rules_folder) if rules is not None and picked else None
    if made is not None:
        for name, text in made.files.items():
            (tuner.rules_folder / name).write_text(text, encoding="utf-8")
    return made


def _told(
    made: Scores, names: Mapping[str, Changes], failed: Collection[Changes]
) -> dict[Changes, Mapping[Place, Estimate]]:
    return {
        one: made.places[variant]
        for variant, one in names.items()
        if variant in made.places and one not in failed
    }


def _faster(times: Estimate) -> bool:
    return times.value * LEAST_GAIN < 1


def shortfall(rules: Verdict, alone: Estimate) -> list[str]:
    """A sentence where rules gain certainly less than their algorithms did, chosen one by one. `alone`: what those did,
    times as fast as the start.
    """
    reached = rules.times_as_fast
    if not (alone.known and reached.known and alone.low > max(reached.high, LEAST_GAIN)):
        return []
    said, may = (
        ("gain less than their algorithms", "use only some of them")
        if rules.gains
        else ("had no effect", "ignore them without a word")
    )
    with_, one_by_one = (
        f"{digits(of.value)} ({digits(of.low)} to {digits(of.high)})" for of in (reached, alone)
    )
    sentence = (
        f"the rules {said}: chosen one by one, their algorithms were {one_by_one} times as fast, and with the rules "
        f"the library is {with_} times as fast; it may {may}"
    )
    return [sentence]


def choice(
    told: Mapping[str, Mapping[Place, Estimate]],
    sizes: Sequence[int],
    own: Mapping[Place, Estimate] | None = None,
) -> dict[int, str]:
    """For each size the algorithm that was certainly faster than the library's own choice; "": that choice. Of several
    the one that was fastest. `own`: what that choice takes over the start, where rules change it; without it, as long.
    """
    chosen = {}
    for size in sizes:
        most = max([1.0, *(one.low for (_, at), one in (own or {}).items() if at == size and one.known)])
        there = {
            algorithm: times
            for algorithm, places in told.items()
            for (_, at), times in places.items()
            if at == size and times.known and times.high < most and times.value * LEAST_GAIN < most
        }
        chosen[size] = min(there, key=lambda one: there[one].value) if there else ""
    return chosen


def _in_words(chosen: Mapping[int, str], words: Mapping[str, str]) -> str:
    """8 B to 8 KiB as before, 32 KiB ring"""
    parts = []
    for algorithm, some in groupby(sorted(chosen), key=lambda size: chosen[size]):
        sizes = list(some)
        span = size_text(sizes[0]) + (f" to {size_text(sizes[-1])}" if len(sizes) > 1 else "")
        parts.append(f"{span} {words[algorithm] if algorithm else 'as before'}")
    return ", ".join(parts)
