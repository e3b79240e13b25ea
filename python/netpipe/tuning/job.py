# SPDX-License-Identifier: Apache-2.0
"""One call of `netpipe tune`: its variants one after the other, and the folder that it writes.

    FOLDER/search.jsonl     every candidate with what was measured of it (log.py)
    FOLDER/confirm.jsonl    a run file: the curves before and after, and the start beside itself
    FOLDER/failures.json    candidates that crashed or hung, avoided by the next search in this folder
    FOLDER/...              where something gained, the settings in the formats of those who read them (formats)

Several variants have a folder each inside. Several operations and numbers of ranks have a folder each for what was
measured, such as FOLDER/bcast-4, and their settings are in FOLDER. What an earlier call left in FOLDER is kept under
another name.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.launch import jobs
from netpipe.launch.lists import apart, copies
from netpipe.libraries.tunables import Rules
from netpipe.session import Request, Session, process_counts
from netpipe.tuning import collectives, placement
from netpipe.tuning.formats import Tuned, files
from netpipe.tuning.library import Library, library
from netpipe.tuning.library.parameters import parameters, texts_here
from netpipe.tuning.log import FAILURES, SEARCH, Log
from netpipe.tuning.measuring.bench import LEAST_BUDGET_S, Bench
from netpipe.tuning.measuring.guard import Guard
from netpipe.tuning.measuring.turns import TURNS
from netpipe.tuning.search.goals import COLLECTIVE, Goal
from netpipe.tuning.search.space import Space, space
from netpipe.tuning.search.variants import START, Changes, Start, is_variable
from netpipe.tuning.system import nic
from netpipe.tuning.system.applied import Applied, alone, restore_left
from netpipe.tuning.system.table import candidates
from netpipe.tuning.system.trial import gaining, nic_file, sysctl_file, trial
from netpipe.tuning.tune import Outcome, Tuner, Watch, times_text
from netpipe.units import counted

CONFIRM = "confirm.jsonl"
SYSCTL, NIC = "90-netpipe.conf", "nic.sh"
SYSTEM = 0.4  # of the time, with `apply`
PLACING = 0.3  # where placements are tried
# Options by which a layer shows to which settings it is open: the version of IP to those of the kernel's network and of
# its interfaces, and congestion control to those of TCP.
OF_IP, OF_TCP = "ip", "congestion"
LAUNCHING = ("hosts", "launcher", "launcher-args", "remote-shell")  # fields of a Request, and options
LEAST_S = 5.0  # of one variant: less leaves nothing for a confirmation


@dataclass(frozen=True)
class Part:
    """What has a search of its own: the goal, or one operation of it on one number of ranks."""

    goal: Goal
    base: Request
    ranks: Mapping[str, int]  # by variant

    def folder(self, variant: str) -> str:
        """Its name where there are several parts."""
        return f"{self.goal.name.partition('=')[2]}-{self.ranks[variant]}"


@dataclass
class Job:
    """`base`: the request with everything but what is measured."""

    base: Request
    goal: Goal
    seconds: float
    folder: Path
    only: Sequence[str] = ()
    watch: Watch = lambda _: None
    argv: Sequence[str] = ()
    apply: bool = False  # settings of the kernel and of interfaces, for the time of their trial,
    keep: bool = False  # and those that gain for good
    outcomes: list[Outcome] = field(default_factory=list)
    written: dict[str, list[Path]] = field(default_factory=dict)  # by variant
    _guard: Guard = field(default_factory=Guard)
    _parts: list[Part] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        return any(one.interrupted for one in self.outcomes)

    def run(self) -> None:
        """Raises Failure: 2 for what cannot be asked, 3 for what is not here, 4 when a start cannot be measured."""
        if self.apply and os.geteuid() != 0:
            raise Failure(
                UNAVAILABLE, "--apply changes settings of the kernel, which only root can; leave it out"
            )
        with alone() if self.apply else contextlib.nullcontext():
            restore_left(self.watch)
            self._run()

    def _run(self) -> None:
        if self.goal.ranks:
            settings = {"ranks": str(self.goal.ranks), **self.base.settings}
            self.base = replace(self.base, settings=settings)
        if marked := [one for one in copies(self.base.variants) if apart(one)[1]]:
            raise Failure(USAGE, f"{marked[0]} is a copy; name each variant once")
        variants = self._split()
        searches = len(variants) * len(self._parts)
        if self.seconds < LEAST_S * searches:
            what = counted(len(variants), "variant") if len(self._parts) == 1 else f"{searches} searches"
            raise Failure(
                USAGE,
                f"--time {self.seconds:g} is too short for {what}; give {LEAST_S * searches:g} s or more",
            )
        modules = self._modules()
        starts = [Start.of(one) for one in variants]
        spaces = [
            [self._space(start, modules[start.module], part) for part in self._parts] for start in starts
        ]
        self._make_room()
        until_s = time.monotonic()
        with self._guard:
            for number, (start, there) in enumerate(zip(starts, spaces, strict=True)):
                until_s = max(until_s, time.monotonic())
                until_s += self.seconds / len(starts)
                folder = self.folder if len(starts) == 1 else self.folder / _file_name(start.text)
                folder.mkdir(parents=True, exist_ok=True)
                if len(starts) > 1:
                    self.watch(f"{start.text} ({number + 1} of {len(starts)})")
                later = SYSTEM * self.apply + PLACING * self._placing
                search_until_s = until_s - later * self.seconds / len(starts)
                found, rules = self._search(start, there, modules[start.module], folder, search_until_s)
                outcome = found[-1]
                if self._placing and not outcome.interrupted:
                    self._place(outcome, folder, until_s - SYSTEM * self.apply * self.seconds / len(starts))
                self._system(outcome, folder, until_s)
                self._write(start, found, rules, there[0][0], folder)
                if self.interrupted:
                    return

    def _split(self) -> list[str]:
        """The variants, as the worker writes them. Makes the parts. Raises Failure (2, 3)."""
        text = str(self.base.settings.get("ranks", ""))
        bases = [self.base]
        if "," in text:
            if not self.goal.name.startswith(COLLECTIVE):
                raise Failure(
                    USAGE,
                    f"--ranks {text}: tune for one number of ranks at a time, or with --goal collective=NAME",
                )
            bases = [
                replace(self.base, settings={**self.base.settings, "ranks": str(count)})
                for count in process_counts(text)
            ]
        sessions = [Session(replace(base, patterns=self.goal.patterns)) for base in bases]
        for note in dict.fromkeys(note for session in sessions for note in session.notes):
            self.watch(note)
        ranks = [
            {one["variant"]: one["ranks"] for one in session.answer.get("curves", ())} for session in sessions
        ]
        self._parts = [
            Part(goal, base, of)
            for goal in self.goal.operations
            for base, of in zip(bases, ranks, strict=True)
        ]
        for variant in sessions[0].variants:
            names = [part.folder(variant) for part in self._parts] if len(self._parts) > 1 else []
            if len(set(names)) < len(names):
                raise Failure(
                    USAGE,
                    f"--ranks {text}: {variant} has a number of ranks of its own; leave out one of them",
                )
        if len(self._parts) > 1 and placement.NAME in self.only:
            raise Failure(USAGE, "--only placement is for one operation and one number of ranks")
        return sessions[0].variants

    def _space(self, start: Start, module: Mapping[str, Any], part: Part) -> tuple[Library, Space]:
        libs, made = self._settings(start, module, part)
        if len(self._parts) > 1:
            self._check_rules(start, libs, made, part)
        if self.only or self._placing:
            return libs, made
        return libs, replace(made, left_out={**made.left_out, placement.NAME: placement.LEFT_OUT})

    def _settings(self, start: Start, module: Mapping[str, Any], part: Part) -> tuple[Library, Space]:
        libs = library(module)
        only = [name for name in self.only if name != placement.NAME]
        if part.goal.name.startswith(COLLECTIVE):
            return libs, collectives.space(libs, part.goal, start, only)
        if self.only and not only:
            return libs, Space(())
        operations = part.goal.collectives if len(set(self._hosts)) > 1 else ()
        return libs, space(module["options"], start, texts_here(start), parameters(libs, operations), only)

    def _check_rules(self, start: Start, libs: Library, there: Space, part: Part) -> None:
        """Raises Failure (3) where one file cannot hold what several searches find."""
        bench = Bench(start, part.goal, part.base, True, self._guard)
        if not collectives.PerSize(
            bench, there, Log(None), 0.0, library=libs, folder=self.folder, ranks=part.ranks[start.text]
        ).has_rules:
            operation = part.goal.name.partition("=")[2]
            raise Failure(
                UNAVAILABLE,
                f"{start.module} has no rules by size and number of ranks for {operation}: tune it alone, for one "
                "number of ranks",
            )

    @property
    def _placing(self) -> bool:
        """Are placements tried? Where the user has chosen one, or asks for it: what netpipe chooses is the best it
        knows. Not for several numbers of ranks: they need processors of their own.
        """
        if len(self._parts) > 1:
            return False
        return placement.NAME in self.only or (not self.only and "pin" in self.base.settings)

    def _place(self, outcome: Outcome, folder: Path, until_s: float) -> None:
        """Other processors, for the settings that were found."""
        bench = Bench(Start.of(outcome.variant), self.goal, self.base, False, self._guard)
        request = bench.request([outcome.tuned], self.goal.probes, LEAST_BUDGET_S, 1)
        left_s = max(until_s - time.monotonic(), 0.0)
        budget_s = left_s / TURNS / placement.count(request) / len(self.goal.patterns)
        request = bench.request([outcome.tuned], self.goal.probes, budget_s, 1)
        outcome.pin = str(self.base.settings.get("pin", placement.DEFAULT))
        outcome.placements = placement.place(request, folder, lambda: self._guard.count == 0, self.watch)
        outcome.interrupted |= self._guard.count > 0

    def _search(
        self,
        start: Start,
        there: Sequence[tuple[Library, Space]],
        module: Mapping[str, Any],
        folder: Path,
        until_s: float,
    ) -> tuple[list[Outcome], Rules | None]:
        """Of every part, with the rules that all of them together have."""
        places = [folder / part.folder(start.text) for part in self._parts]
        if len(places) == 1:
            places = [folder]
        tuners = [
            self._tuner(start, part, there_, module, place, until_s)
            for part, there_, place in zip(self._parts, there, places, strict=True)
        ]
        outputs = [place / CONFIRM for place in places]
        if not self.goal.name.startswith(COLLECTIVE):
            found: list[Outcome] = [tuners[0].tune(outputs[0])]
            self.outcomes += found
            return found, None
        per_size = [
            collectives.PerSize(**vars(tuner), library=libs, folder=folder, ranks=part.ranks[start.text])
            for tuner, part, (libs, _) in zip(tuners, self._parts, there, strict=True)
        ]
        found, rules = collectives.together(per_size, outputs, until_s)
        self.outcomes += found
        return found, rules

    def _tuner(
        self,
        start: Start,
        part: Part,
        there: tuple[Library, Space],
        module: Mapping[str, Any],
        folder: Path,
        until_s: float,
    ) -> Tuner:
        folder.mkdir(parents=True, exist_ok=True)
        libs, of = there
        log = Log(folder)
        avoid = log.known_failures(start)
        log.write({"type": "search", "start": start.text, "goal": part.goal.name, "seconds": self.seconds})
        for changes, why in avoid.items():
            self.watch(f"{changes} is avoided, because it failed before: {why}")
        return Tuner(
            Bench(start, part.goal, part.base, bool(module.get("launched")), self._guard),
            of,
            log,
            until_s,
            self.watch,
            frozenset(avoid),
            self.argv,
            lambda changes: libs.read_back({k: v for k, v in changes.items if is_variable(k)}),
        )

    def _system(self, outcome: Outcome, folder: Path, until_s: float) -> None:
        """Settings of the kernel: named, and with `apply` tried."""
        over = {layer for of in (outcome.variant, outcome.tuned) for layer in outcome.layers.get(of, ())}
        modules = self._modules()
        options = {option["name"] for layer in over & modules.keys() for option in modules[layer]["options"]}
        found = {name for settings in outcome.settings.values() for name in settings}
        tcp = OF_TCP in options | found  # or a library's connection of TCP, whose settings were found
        if not tcp and OF_IP not in options:
            return
        devices = nic.devices_to(self._hosts)
        outcome.system = tuple(candidates(devices=devices, tcp=tcp))
        outcome.notes += [one for device in devices for one in nic.refusals(device)]
        if not self.apply or outcome.interrupted or not outcome.system:
            return
        left_s = max(until_s - time.monotonic(), 0.0)
        budget_s = left_s / TURNS / (len(outcome.system) + 2)
        part = self._parts[-1]
        bench = Bench(Start.of(outcome.variant), part.goal, part.base, False, self._guard)
        request = bench.request([outcome.tuned], part.goal.probes, budget_s, 1)
        applied = Applied()
        outcome.system_tried = tuple(
            trial(request, outcome.system, folder, lambda: self._guard.count == 0, self.watch, applied)
        )
        outcome.interrupted |= self._guard.count > 0
        for name, text in (
            (SYSCTL, sysctl_file(outcome.system_tried)),
            (NIC, nic_file(outcome.system_tried)),
        ):
            if text:
                (folder / name).write_text(text, encoding="utf-8")
                self.written.setdefault(outcome.variant, []).append(folder / name)
        if self.keep and not outcome.interrupted:
            self._keep(applied, outcome)

    def _modules(self) -> dict[str, dict[str, Any]]:
        """By name, as the worker lists them."""
        paths = [str(Path(file).absolute()) for file in self.base.modules]
        return {one["name"]: one for one in native.list_(paths)["modules"]}

    @property
    def _hosts(self) -> list[str]:
        """Those that messages go to."""
        named = jobs.parse_hosts(self.base.hosts, None).names if self.base.hosts else ()
        served = str(self.base.settings.get("host", ""))
        return [one for one in (*named, served) if one]

    def _keep(self, applied: Applied, outcome: Outcome) -> None:
        """Leaves those that gain changed, all or none of them."""
        kept = [one.candidate for one in gaining(outcome.system_tried)]
        try:
            for one in kept:
                applied.set(one.key, one.value)
        except Failure:
            applied.revert()
            raise
        applied.revert(keep=tuple(one.key for one in kept))
        for one in kept:
            self.watch(f"{one.key} = {one.value} stays until the machine is started again; it was {one.now}")

    def _write(
        self, start: Start, found: Sequence[Outcome], rules: Rules | None, libs: Library, folder: Path
    ) -> None:
        """The settings, in every format that has something to say; nothing where nothing gains."""
        gaining = [one for one in found if one.best != START or placement.best(one.placements)]
        if not gaining:
            return
        if len(self._parts) > 1:
            assert rules is not None
            tuned = described_together(gaining, rules, libs, self.goal, self.base)
        else:
            tuned = described(gaining[0], libs, self.goal, self.base)
        names = [*files(tuned), *dict.fromkeys(name for one in gaining for name in one.rules)]
        for name, text in files(tuned).items():
            (folder / name).write_text(text, encoding="utf-8")
        self.written.setdefault(start.text, []).extend(folder / name for name in names)

    def _make_room(self) -> None:
        """Moves what an earlier call left out of the way. Raises Failure (2) for a folder that is not ours."""
        if not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise Failure(USAGE, f"{self.folder} is a file; name a folder with -o")
        there = list(self.folder.iterdir())
        ours = [one for one in there if one.name in (SEARCH, FAILURES) or (one / SEARCH).is_file()]
        if there and not ours:
            raise Failure(
                USAGE, f"{self.folder} has files that netpipe tune did not write; name another folder with -o"
            )
        if not there:
            return
        number = 1
        while (kept := self.folder.with_name(f"{self.folder.name}.{number}")).exists():
            number += 1
        self.folder.rename(kept)
        self.watch(f"what was in {self.folder} is now in {kept}")
        for path in kept.rglob(FAILURES):
            target = self.folder / path.relative_to(kept)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def described(outcome: Outcome, libs: Library, what: Goal, base: Request) -> Tuned:
    """What the formats are told of an outcome that gains. `base` as in Job."""
    pin = placement.best(outcome.placements)
    parts = []
    if outcome.best != START and outcome.verdict is not None:
        parts.append(f"{times_text(outcome.verdict)}, goal {what.name}")
    if pin:
        parts.append(f"with --pin {pin} in place of {outcome.pin} {times_text(outcome.placements[pin])}")
    return Tuned(
        start=outcome.variant,
        variant=outcome.tuned,
        changes=outcome.best,
        gain="; ".join(parts),
        family=libs.family,
        tunables=libs.tunables,
        variables=_variables(outcome),
        options=_options_of_run(base, what.patterns, pin),
    )


def described_together(
    gaining: Sequence[Outcome], rules: Rules, libs: Library, what: Goal, base: Request
) -> Tuned:
    """The same of several operations and numbers of ranks, whose `rules` are for all of them."""
    last = gaining[-1]
    changes = Changes.of(rules.variables)
    others = {name: value for name, value in _variables(last).items() if name not in last.best.names}
    parts = [
        f"{times_text(one.verdict)}, goal {one.goal}, {one.ranks} ranks"
        for one in gaining
        if one.verdict is not None
    ]
    return Tuned(
        start=last.variant,
        variant=Start.of(last.variant).variant(changes),
        changes=changes,
        gain="; ".join(parts),
        family=libs.family,
        tunables=libs.tunables,
        variables={**others, **rules.variables},
        options=_options_of_run(base, what.patterns, ""),
    )


def _variables(outcome: Outcome) -> dict[str, str]:
    """Of the library, as they were in force."""
    facts = outcome.settings.get(outcome.tuned, {})
    variables = dict(one.partition("=")[::2] for one in facts.get("environment", "").split())
    return variables | {name: value for name, value in facts.items() if name.startswith("UCX_")}


def _options_of_run(base: Request, patterns: tuple[str, ...], pin: str) -> dict[str, tuple[str, ...]]:
    """Those by which `netpipe run` measures as the tuner did: the same hosts, launcher, modules, buffers and placement.
    How long it may take is its own business, so `timeout` is not among them. Files are named by their whole path, as
    the run may be started elsewhere.
    """
    settings = {
        key["option"]: str(base.settings[key["name"]])
        for key in native.keys()["plan_keys"]
        if key["name"] in base.settings and key["option"] not in (None, "timeout")
    }
    if "token-file" in settings:
        settings["token-file"] = str(Path(settings["token-file"]).absolute())
    if pin:
        settings["pin"] = pin
    launching = {name: getattr(base, name.replace("-", "_")) for name in LAUNCHING}
    found: dict[str, tuple[str, ...]] = {}
    found |= {name: (value,) for name, value in {**launching, **settings}.items() if value}
    if patterns != ("pingpong",):
        found["pattern"] = patterns
    if base.modules:
        found["module"] = tuple(str(Path(file).absolute()) for file in base.modules)
    return found


def _file_name(variant: str) -> str:
    return re.sub(r"[^A-Za-z0-9@._=-]+", "_", variant).strip("_")
