# SPDX-License-Identifier: Apache-2.0
"""What `netpipe tune` says where a search compared nothing: how many candidates began, why each stopped, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from simulated_tuning import Machine

from netpipe.failure import DONE, FAILED, INTERRUPTED, UNAVAILABLE, Failure
from netpipe.findings import examples
from netpipe.reading.estimate import Estimate
from netpipe.records import Error, Run
from netpipe.session import Request
from netpipe.tuning.log import Log
from netpipe.tuning.measuring.bench import Measured
from netpipe.tuning.measuring.ratios import Verdict
from netpipe.tuning.search.goals import goal
from netpipe.tuning.search.halving import Failed
from netpipe.tuning.search.space import Knob, Space
from netpipe.tuning.search.variants import Changes, Start
from netpipe.tuning.stops import HUNG, exit_code, how, stops
from netpipe.tuning.system.table import Candidate
from netpipe.tuning.system.trial import Tried
from netpipe.tuning.telling import as_json, details, headline
from netpipe.tuning.tune import Outcome, Tuner

ROOT = Path(__file__).parents[2]
MODES, SIZES = (
    Knob("mode", ("hang", "dies", "refused", "works")),
    Knob("buffer", ("1k", "2k"), "size", 0, 4096),
)
SAID = {
    "mode=hang": (4, "rank 1: module made did not complete within 1.0 s and was stopped: no message"),
    "mode=dies": (4, "a rank was ended by signal 11"),
    "mode=refused": (2, "mode=refused is not for this machine"),
}


def one(**settings: str) -> Changes:
    return Changes.of(settings)


def failed(*words: str) -> dict[Changes, Failed]:
    known = {word: SAID[f"mode={word}"] for word in words}
    return {
        one(mode=word): Failed("refused" if code == 2 else "failed", why)
        for word, (code, why) in known.items()
    }


def ended(space: Space, **more: Any) -> Outcome:
    return Outcome("made:a=1", "latency", space=space, **more)


def said(outcome: Outcome) -> list[str]:
    return [headline(outcome), *details(outcome)]


class Blamed(Machine):
    """Only the start is measured; candidates stop in the ways of SAID, and of the others nothing becomes known."""

    def session(self, variants: Any, places: Any, *words: Any, **more: Any) -> Measured:
        measured = super().session([self.start.text], places, *words, **more)
        errors = [
            Error(variant=variant, code=code, message=message)
            for variant in variants
            for setting, (code, message) in SAID.items()
            if variant.endswith(setting)
        ]
        measured.run.errors.extend(errors)
        return measured


def searched(space: Space, seconds: float, avoid: frozenset[Changes] = frozenset()) -> Outcome:
    machine = Blamed(Start.of("made:a=1"), goal("latency"), Request(["made:a=1"]), False)
    machine.clock = lambda: machine.now_s
    return Tuner(machine, space, Log(None), seconds, avoid=avoid).tune(None)


def test_a_search_in_which_everything_stopped_says_how_each_did() -> None:
    outcome = searched(Space((MODES, SIZES)), 20.0)
    assert headline(outcome) == (
        "made:a=1: of 6 candidates 6 began and none was measured to its end (goal latency): 1 was refused, 1 hung, 1 "
        "crashed or failed and 3 did not end in time."
    )
    lines = list(details(outcome))
    assert lines[:2] == [
        "Give more --time.",
        "--only buffer leaves out the settings that hang, crash, fail or are refused.",
    ]
    assert "mode=dies failed: a rank was ended by signal 11." in lines
    assert "Refused by the layer: mode=refused (mode=refused is not for this machine)." in lines
    assert not any(line.startswith("For ") for line in lines), "the headline has said it"
    counts = as_json(outcome, ())["candidates"]
    assert counts == {
        "all": 6, "began": 6, "compared": 0, "refused": 1, "hung": 1, "failed": 1, "too_slow": 0, "cut_off": 3,
        "avoided": 0, "not_begun": 0,
    }  # fmt: skip


def test_what_failed_before_is_counted_and_can_be_tried_again() -> None:
    outcome = searched(Space((MODES,)), 20.0, frozenset({one(mode="hang"), one(mode="works")}))
    text = " ".join(said(outcome))
    assert "of 4 candidates 2 began" in text
    assert "2 failed in an earlier search" in text
    assert "Remove failures.json" in text


def test_where_there_was_no_time_to_begin_only_more_of_it_is_the_remedy() -> None:
    outcome = ended(Space((SIZES,)))
    assert said(outcome)[:2] == [
        "made:a=1: of 2 candidates none began (goal latency): for 2 there was no time.",
        "Give more --time.",
    ]
    fewer = said(ended(Space((SIZES, MODES))))[2]
    assert fewer == "--only searches fewer settings than these 2, such as --only buffer."


@pytest.mark.parametrize(
    ("word", "part", "remedy"),
    [
        ("hang", "1 hung", "--only buffer leaves out the settings that hang."),
        ("dies", "1 crashed or failed", "--only buffer leaves out the settings that crash or fail."),
        ("refused", "1 was refused", "--only buffer leaves out the settings that are refused."),
    ],
)
def test_each_way_to_stop_has_its_word_and_its_remedy(word: str, part: str, remedy: str) -> None:
    space = Space((Knob("mode", (word,)), SIZES))
    outcome = ended(space, failed=failed(word), began=frozenset({one(mode=word)}))
    first, *lines = said(outcome)
    assert (
        f"of 3 candidates 1 began and none was measured to its end (goal latency): {part} and for 2" in first
    )
    assert remedy in lines
    shorter = (
        "Each candidate that hangs takes all of --timeout: a shorter one leaves more time for the others."
    )
    assert (shorter in lines) == (word == "hang")


def test_where_every_setting_was_refused_more_time_is_no_remedy() -> None:
    space = Space((Knob("mode", ("refused",)),))
    first, *lines = said(ended(space, failed=failed("refused")))
    assert first == "made:a=1: of 1 candidate none began (goal latency): 1 was refused."
    assert (
        lines[0] == "Each setting that was searched is among them: netpipe list made shows others for --only."
    )
    assert not any("--time" in line for line in [first, *lines])


def test_a_space_without_another_value_is_said_to_have_none() -> None:
    first, *lines = said(ended(Space(())))
    assert "there is nothing to try (goal latency)" in first
    assert lines[0].startswith("netpipe list made shows what can be tuned")


def test_a_confirmation_that_compared_nothing_says_what_stopped_it() -> None:
    run: Run = examples.run(examples.point("made:a=1", 8, 1000.0))
    run.errors.append(Error(variant="made:a=1,mode=works", code=4, message="the peer has gone"))
    works = frozenset({one(mode="works")})
    first, *lines = said(ended(Space((MODES,)), compared=works, began=works, run=run))
    assert "of 4 candidates 1 was compared, but the confirmation on fresh launches ended" in first
    assert lines[0] == "It stopped because made:a=1,mode=works failed: the peer has gone."
    assert "--time" in lines[1]


def test_algorithms_of_which_none_is_faster_are_an_answer_and_no_want_of_time() -> None:
    works = frozenset({one(mode="works")})
    first, *lines = said(ended(Space((MODES,)), compared=works, began=works))
    assert "no algorithm was faster than the library's own choice at any size (goal latency)" in first
    assert not any("--time" in line for line in [first, *lines])


WORKS = frozenset({one(mode="works")})
VERDICT = Verdict(Estimate(0.5, 0.49, 0.51), 1.01)
KERNEL = Candidate("net.core.wmem_max", "1", "2", "the largest send buffer")
REFUSED = Space((Knob("mode", ("refused",)),))


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        pytest.param(ended(Space((MODES,)), verdict=VERDICT, tried=one(mode="works")), DONE, id="nothing to gain"),
        pytest.param(ended(Space((MODES,)), verdict=VERDICT, best=one(mode="works")), DONE, id="a gain"),
        pytest.param(ended(Space(()), placements={"0,1": VERDICT}), DONE, id="placements alone"),
        pytest.param(ended(Space(()), system_tried=(Tried(KERNEL, VERDICT),)), DONE, id="settings of the kernel alone"),
        pytest.param(ended(Space((MODES,)), compared=WORKS, began=WORKS), DONE, id="no algorithm is faster"),
        pytest.param(ended(Space(())), UNAVAILABLE, id="nothing is tunable"),
        pytest.param(ended(REFUSED, failed=failed("refused")), UNAVAILABLE, id="all are refused"),
        pytest.param(ended(Space((MODES,)), failed=failed("refused")), FAILED, id="one is refused, of others no time"),
        pytest.param(ended(Space((SIZES,))), FAILED, id="no time for any"),
        pytest.param(ended(Space((MODES,)), failed=failed("hang", "dies")), FAILED, id="all stopped"),
        pytest.param(ended(Space((MODES,)), compared=WORKS, began=WORKS, run=Run()), FAILED, id="no confirmation"),
        pytest.param(ended(Space((MODES,)), interrupted=True), INTERRUPTED, id="interrupted before anything"),
        pytest.param(
            ended(Space((MODES,)), interrupted=True, verdict=VERDICT, best=one(mode="works")),
            INTERRUPTED,
            id="interrupted after a gain",
        ),
    ],
)  # fmt: skip
def test_only_an_answer_exits_with_0(outcome: Outcome, code: int) -> None:
    assert exit_code(outcome) == code


def test_of_a_search_in_which_everything_stopped_the_exit_code_says_so() -> None:
    assert exit_code(searched(Space((MODES, SIZES)), 20.0)) == FAILED


def test_a_start_that_cannot_be_measured_is_a_failure_and_an_interrupt_of_it_is_one_too() -> None:
    class Crashing(Machine):
        def session(self, *_: Any, **__: Any) -> Measured:
            run = Run()
            run.errors.append(Error(variant="made:a=1", code=4, message="it crashed"))
            return Measured(run, interrupted=stopped, late=False)

    for stopped in (False, True):
        machine = Crashing(Start.of("made:a=1"), goal("latency"), Request(["made:a=1"]), False)
        machine.clock = lambda: 0.0
        tuner = Tuner(machine, Space((MODES,)), Log(None), 20.0)
        with pytest.raises(KeyboardInterrupt if stopped else Failure) as caught:
            tuner.tune(None)
        if isinstance(caught.value, Failure):
            assert caught.value.exit_code == FAILED
            assert caught.value.sentence == "made:a=1 itself cannot be measured at 1 bytes: it crashed"


def test_every_candidate_is_counted_once() -> None:
    known: Mapping[str, Any] = {"compared": frozenset({one(buffer="1k"), one(mode="dies")})}
    of = stops(ended(Space((MODES, SIZES)), failed=failed("hang", "dies", "refused"), **known))
    assert of.total == 6
    assert (of.compared, len(of.refused), len(of.hung), len(of.failed), len(of.waiting)) == (1, 1, 1, 1, 2)


def test_the_words_of_a_hang_are_those_of_the_engine_and_the_session() -> None:
    files = ("src/engine/visit.cpp", "src/engine/opening/opening.cpp", "src/worker/workers/launched_workers.cpp",
             "python/netpipe/launch/worker.py")  # fmt: skip
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files]
    for words in HUNG:
        assert any(words in text for text in texts), words
    assert how(Failed("failed", "netpipe-worker was killed because it sent nothing for 9 s")) == "hung"
    assert how(Failed("slow", "not one measurement ended within its time")) == "slow"
