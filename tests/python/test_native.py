# SPDX-License-Identifier: Apache-2.0
"""What the worker of this build exports, and that the documentation and Python say the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netpipe import native
from netpipe.failure import DONE, FAILED, GATE, INTERRUPTED, UNAVAILABLE, UNSTABLE, USAGE, Failure
from netpipe.launch.variants import by_default, name_of
from netpipe.reading import layers, waiting
from netpipe.reading.machine import states
from netpipe.tuning import placement

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "worker.md").read_text()


@pytest.fixture(scope="module")
def keys() -> dict[str, Any]:
    return native.keys()


@pytest.fixture(scope="module")
def listing() -> dict[str, Any]:
    return native.list_()


def rows(head: str) -> Iterator[list[str]]:
    """The cells of the table of the page that begins with these words."""
    table = PAGE[PAGE.index(f"\n| {head} |") + 1 :].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def answer(*lines: str) -> dict[str, Any]:
    return native.plan("\n".join(["netpipe-plan 1", *lines, "end", ""]))


def refusal(*lines: str) -> tuple[int, str]:
    with pytest.raises(Failure) as refused:
        answer(*lines)
    return refused.value.exit_code, str(refused.value)


def add_library(folder: Path, name: str, operations: str = "") -> None:
    """The description of a library whose launcher starts any number of ranks."""
    (folder / f"{name}.module").write_text(
        f"netpipe-module 1\nname {name}\nfile /no/such.so\nsummary s\nversion v\nranks 1 2147483647\n"
        f"crosses-hosts yes\noperations open close bootstrap send recv {operations}".rstrip()
        + "\n"
    )


# ---------------------------------------------------------------------------------------------- what is exported


def test_keys_are_the_part_of_list_that_needs_no_module(
    keys: dict[str, Any], listing: dict[str, Any]
) -> None:
    assert {name: listing[name] for name in keys} == keys
    assert {"modules", "libraries", "patterns", "refused"} == listing.keys() - keys.keys()


def test_a_measure_is_worse_in_one_direction_wherever_it_is_measured(listing: dict[str, Any]) -> None:
    """`netpipe check` knows a measure by its name."""
    worse: dict[str, str | None] = {}
    for of in (*listing["patterns"], *listing["modules"]):
        for measure in of["measures"]:
            assert measure["worse"] in ("more", "less", None)
            assert worse.setdefault(measure["name"], measure["worse"]) == measure["worse"], measure["name"]
    expected = {"imbalance": "more", "slowdown": "more", "fraction": "less", "rate": "less", "degree": None}
    assert {name: worse[name] for name in expected} == expected
    assert {worse[name] for name in ("reordered", "jitter")} == {"more"}, "of udp"


def test_keys_load_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.so").write_text("no library")
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path))
    answer = native.keys()
    assert "refused" not in answer
    assert [one["path"] for one in native.list_()["refused"]] == [str(tmp_path / "broken.so")]


def test_every_plan_key_says_all_that_an_option_needs(keys: dict[str, Any]) -> None:
    for key in keys["plan_keys"]:
        assert key["shown"] == (key["option"] is not None)
        assert key["help"]
        assert not key["help"].endswith(".")
        assert (key["type"] in ("choice", "processors")) == bool(key["choices"])
        if key["type"] == "choice":
            assert key["default"] in key["choices"]
    options = {key["option"]: key for key in keys["plan_keys"] if key["shown"]}
    assert (options["end"]["name"], options["end"]["default"], options["end"]["min"]) == ("end-size", "8M", 1)
    assert (options["target"]["type"], options["target"]["default"]) == ("percent", "1%")
    assert options["pattern"]["repeatable"]
    assert options["port"]["default"] == "5002"


@pytest.mark.gate
def test_every_default_is_what_a_plan_without_the_key_has(keys: dict[str, Any]) -> None:
    plain = answer("variant tcp")
    for key in keys["plan_keys"]:
        if key["agreed"] and key["default"] is not None:
            said = answer("variant tcp", f"{key['name']} {key['default']}")
            assert said["hash"] == plain["hash"], key["name"]


def test_a_program_is_placed_as_netpipes_own_ranks_are() -> None:
    usable = sorted(os.sched_getaffinity(0))
    said = native.place("auto", len(usable))
    assert (said["placement"], sorted(said["pin"]), said["oversubscribed"]) == ("auto", usable, False)
    assert native.place("auto", len(usable) + 1) == {
        "placement": "auto",
        "pin": [None] * (len(usable) + 1),
        "oversubscribed": True,
    }
    twice = f"{usable[0]},{usable[0]}"
    assert native.place(twice, 2) == {"placement": twice, "pin": [usable[0]] * 2, "oversubscribed": True}
    for words, ranks, sentence in (
        ("0", 2, "pin 0 names 1 processor for 2 ranks"),
        ("socket", 3, "pin socket selects two processors"),
        ("nowhere", 2, "pin: 'nowhere' names no processors; write auto, none, "),
        ("auto", 0, "write: netpipe-worker place PIN RANKS"),
    ):
        with pytest.raises(Failure, match=re.escape(sentence)) as refused:
            native.place(words, ranks)
        assert refused.value.exit_code == USAGE


def test_exit_codes_are_those_of_python_from_good_to_bad(keys: dict[str, Any]) -> None:
    codes = [one["code"] for one in keys["exit_codes"]]
    assert set(codes) == {DONE, GATE, USAGE, UNAVAILABLE, FAILED, UNSTABLE, INTERRUPTED}
    order = [codes.index(code) for code in (DONE, UNAVAILABLE, USAGE, FAILED, GATE, INTERRUPTED)]
    assert order == sorted(order)


def test_the_fake_worker_of_the_tests_has_the_same_keys(keys: dict[str, Any]) -> None:
    fake = [sys.executable, str(Path(__file__).with_name("fake_worker.py")), "keys"]
    theirs = json.loads(subprocess.run(fake, capture_output=True, check=True, timeout=60).stdout)
    fields = ("name", "option", "metavar", "type", "default", "choices", "repeatable")
    for key, real in zip(
        theirs["plan_keys"],
        [key for key in keys["plan_keys"] if key["option"] and not key["repeatable"]],
        strict=True,
    ):
        assert {name: key[name] for name in fields} == {name: real[name] for name in fields}
    assert [one["code"] for one in theirs["exit_codes"]] == [one["code"] for one in keys["exit_codes"]]


def test_module_directories_are_those_that_the_worker_looks_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETPIPE_MODULE_PATH", f"{tmp_path / 'a'}::{tmp_path / 'b'}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    prefix = native.worker().resolve().parents[1]
    assert [(one["kind"], one["path"]) for one in native.keys()["module_directories"]] == [
        ("environment", str(tmp_path / "a")),
        ("environment", str(tmp_path / "b")),
        ("installation", str(prefix / "lib" / "netpipe" / "modules")),
        ("user", str(tmp_path / "data" / "netpipe" / "modules")),
    ]


def test_tolerances_are_those_that_older_files_are_read_with(keys: dict[str, Any]) -> None:
    assert keys["state_tolerances"] == {"bounce": states.BOUNCE_TOLERANCE, "copy": states.COPY_TOLERANCE}


def test_a_bare_name_stands_for_the_libraries_that_were_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all("@" in name for names in native.list_()["libraries"].values() for name in names)
    for name in ("mpi@two", "mpi@one", "shmem@three"):
        add_library(tmp_path, name)
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path))
    libraries = native.list_()["libraries"]
    assert libraries["mpi"][:2] == ["mpi@one", "mpi@two"]
    assert libraries["shmem"] == ["shmem@three"]


def test_words_of_waiting_are_those_that_runs_are_read_with(keys: dict[str, Any]) -> None:
    assert [(one["word"], one["verb"]) for one in keys["waiting"]] == list(waiting.VERBS.items())
    assert {waiting.BLOCK, waiting.POLL} <= waiting.VERBS.keys()


@pytest.mark.gate
def test_modules_say_how_they_wait_in_the_words_of_the_table(keys: dict[str, Any], tmp_path: Path) -> None:
    words = {one["word"] for one in keys["waiting"]}
    record = tmp_path / "run.jsonl"
    variants = ("null", "memcpy", "shm", "shm:wait=hybrid", "pipe", "unix:wait=poll", "tcp:wait=hybrid")
    plan = [
        "netpipe-plan 1",
        f"record {record}",
        "pattern none",
        *(f"variant {name}" for name in variants),
        "end",
    ]
    subprocess.run(
        [native.worker(), "run"], input="\n".join(plan).encode(), capture_output=True, check=True, timeout=60
    )
    opened = [json.loads(line) for line in record.read_text().splitlines()]
    opened = [one for one in opened if one["type"] == "variant"]
    assert [one["variant"] for one in opened] == list(variants)
    for one in opened:
        assert {rank["settings"]["wait"] for rank in one["ranks"]} <= words, one["variant"]
    assert [one["variant"] for one in opened if one["idle"]] == ["null"]


def test_how_ranks_wait_is_searched_by_no_tuner_unasked(listing: dict[str, Any]) -> None:
    about = {
        (module["name"], option["name"]): option["about"]
        for module in listing["modules"]
        for option in module["options"]
    }
    of_waiting = {name for name, what in about.items() if what == "waiting"}
    assert of_waiting >= {name for name in about if name[1] in ("wait", "spin_us", "poll_gap")}
    assert ("shm", "wait") in of_waiting
    assert about["tcp", "tls"] is None


# ------------------------------------------------------------------------------------------- a plan that is checked


def test_a_dry_run_says_the_ranks_of_each_curve_and_the_points_that_it_takes() -> None:
    said = answer(
        "variant tcp", "variant memcpy", "pattern pingpong", "pattern stream", "schedule list", "sizes 1,3,8"
    )
    curves = {(one["variant"], one["pattern"]): one for one in said["curves"]}
    assert {name: one["ranks"] for name, one in curves.items()} == {
        ("tcp", "pingpong"): 2,
        ("tcp", "stream"): 2,
        ("memcpy", "pingpong"): 1,
        ("memcpy", "stream"): 1,
    }
    assert curves["tcp", "pingpong"]["points"] == 3
    assert curves["memcpy", "stream"]["points"] == 0
    assert curves["memcpy", "stream"]["reason"]


def test_a_dry_run_leaves_out_sizes_that_a_pattern_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_library(tmp_path, "mpi@sums", operations="prepare_collective release_collective")
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path))
    said = answer("variant mpi@sums", "pattern collective:what=reduce", "schedule list", "sizes 1,8,9,16")
    assert [(one["points"], one["reason"]) for one in said["curves"]] == [(2, None)]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("variant tcp", "schedule list", "sizes 100T"), "choose smaller messages, or fewer of them at once"),
        (("variant tcp", "pin 0,4095"), "pin 0,4095: this process cannot use processor 4095; it can use "),
        (("variant memcpy:ranks=4",), "option 'ranks' of module memcpy: 4 is not possible; it has to be 1"),
        (("variant tcp", "ranks 2,4"), "ranks: '2,4' is not a whole number"),
        (
            ("variant unix", "host far.example"),
            "module unix stays on one host; leave it out of a run with --host",
        ),
    ],
)
def test_a_dry_run_refuses_what_a_run_refuses(lines: tuple[str, ...], says: str) -> None:
    code, sentence = refusal(*lines)
    assert code == USAGE
    assert says in sentence


def test_a_dry_run_knows_modules_that_cannot_be_used_here(listing: dict[str, Any]) -> None:
    built = [one for one in listing["modules"] if one["version"]]  # another one is refused by name
    missing = {one["name"]: one["reason"] for one in built if not one["available"]}
    if not missing:
        pytest.skip("every module can be used here")
    name = min(missing)
    said = answer("variant tcp", f"variant {name}")
    reasons = {one["variant"]: (one["points"] > 0, one["reason"]) for one in said["curves"]}
    assert reasons == {"tcp": (True, None), name: (False, f"module {name} is not available: {missing[name]}")}
    assert said["expected_s"] == answer("variant tcp")["expected_s"], "it takes no time"


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        (("variant tcp",), 2),
        (("variant tcp", "variant tcp:wait=poll"), 2),  # they share their buffers
        (("variant tcp", "ranks 16"), 16),
        (("variant memcpy",), 1),
    ],
)
def test_a_dry_run_counts_the_buffers_of_every_rank_once(lines: tuple[str, ...], ranks: int) -> None:
    said = answer(*lines, "schedule list", "sizes 1M")
    # A half for each direction, of a message and some lines.
    assert ranks * (2 << 20) <= said["memory_bytes"] < ranks * ((2 << 20) + 65536)


def test_incast_has_a_place_for_a_message_of_each_rank() -> None:
    said = answer("variant tcp", "ranks 16", "pattern incast", "schedule list", "sizes 1M")
    per_rank = said["memory_bytes"] / 16
    assert 30 << 20 <= per_rank < 33 << 20, "15 places in each direction"


def test_a_dry_run_wants_two_processors_that_are_so_near(tmp_path: Path) -> None:
    failures = []
    for near in ("smt", "cache", "socket", "sockets"):
        try:
            answer("variant tcp", f"pin {near}")
        except Failure as failure:
            failures.append(failure.exit_code)
    assert failures, "no host has two sockets, and two processors of one in different caches"
    assert set(failures) == {UNAVAILABLE}


def test_a_dry_run_refuses_more_processes_than_a_host_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_library(tmp_path, "mpi@many")
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path))
    code, sentence = refusal("variant mpi@many", "ranks 99999")
    assert code == USAGE
    assert "variant mpi@many has 99999 ranks, and this host with its" in sentence
    said = answer("variant mpi@many", "variant mpi@many:ranks=3", "variant tcp", "ranks 4")
    assert [(one["variant"], one["ranks"]) for one in said["curves"]] == [
        ("mpi@many", 4),
        ("mpi@many:ranks=3", 3),
        ("tcp", 4),
    ]


def test_the_listing_says_which_module_is_idle(listing: dict[str, Any]) -> None:
    assert [one["name"] for one in listing["modules"] if one["idle"]] == ["null"]


def test_a_layer_says_itself_what_a_run_without_variants_measures(listing: dict[str, Any]) -> None:
    written = {
        file.parent.name: re.findall(r'^default = "(.+)"$', file.read_text(), re.MULTILINE)
        for file in (ROOT / "src" / "modules").glob("*/module.toml")
    }
    for module in listing["modules"]:
        assert [" ".join(module["default"])] == (written.get(module["name"]) or [""]), module["name"]
        assert all(name_of(one) == module["name"] for one in module["default"])
    usual = by_default(listing)
    assert answer(*(f"variant {one}" for one in usual))["expected_s"] > 0
    places = {name_of(one): at for at, one in enumerate(usual)}
    for module in listing["modules"]:
        if {module["name"], module["below"]} <= places.keys():
            assert places[module["below"]] < places[module["name"]], "each stands behind the layer below it"
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert f"`{' '.join(usual)}`" in page


def test_a_module_elsewhere_is_in_a_default_run_where_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(native.worker().parents[1] / "lib" / "netpipe" / "modules" / "pipe.so", tmp_path)
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path))

    def default() -> list[str]:
        found: list[str] = {one["name"]: one for one in native.list_()["modules"]}["pipe"]["default"]
        return found

    assert default() == [], "it is the first of its name, and nothing stands beside it"
    (tmp_path / "pipe.default").write_text("something else\nvariants pipe\n")
    assert default() == []
    (tmp_path / "pipe.default").write_text("netpipe-default 1\nvariants pipe pipe:reuse=no\n")
    assert default() == ["pipe", "pipe:reuse=no"]


def test_a_module_has_the_same_summary_where_it_is_built_and_where_it_is_not(listing: dict[str, Any]) -> None:
    written = {
        file.parent.name: re.search(r'^summary = "(.*)"$', file.read_text(), re.MULTILINE)
        for file in (ROOT / "src" / "modules").glob("*/module.toml")
    }
    checked = 0
    for module in listing["modules"]:
        if (found := written.get(module["name"].partition("@")[0])) is not None:
            assert module["summary"] == found[1], module["name"]
            checked += bool(module["version"])
    assert checked >= 6, "the layers of the kernel and of memory are built everywhere"


def test_serve_has_the_options_of_the_worker(keys: dict[str, Any]) -> None:
    options = {one["name"]: one for one in keys["serve_options"]}
    done = subprocess.run([native.worker(), "serve", "--help"], capture_output=True, text=True, check=True)
    assert re.findall(r"^  --([\w-]+)", done.stdout, flags=re.MULTILINE) == list(options)
    assert {name: one["default"] for name, one in options.items() if one["metavar"]} == {
        "bind": "127.0.0.1",
        "port": next(one["default"] for one in keys["plan_keys"] if one["name"] == "port"),
        "token-file": "NETPIPE_TOKEN in the environment",
        "max-size": "64M",
        "max-memory": "1G",
        "max-seconds": "600",
    }


def test_tuning_tries_every_placement_that_has_a_word() -> None:
    assert placement.words() == ["auto", "smt", "cache", "socket", "sockets"]


def test_the_stack_of_a_plan_is_that_of_the_modules(listing: dict[str, Any]) -> None:
    stack = answer("variant tcp")["stack"]
    assert stack == {one["name"]: one["below"] for one in listing["modules"] if one["below"]}
    assert layers.STACK.items() <= stack.items()


def test_a_layer_that_was_not_built_is_listed_with_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = (
        "it was not built: its header odd.h was not found; apt install libodd-dev, then build netpipe again"
    )
    text = f"netpipe-absent 1\nname odd\nsummary messages over odd\nreason {reason}\n"
    (tmp_path / "odd.absent").write_text(text)
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path))
    listed = {one["name"]: one for one in native.list_()["modules"]}["odd"]
    assert (listed["available"], listed["reason"], listed["patterns"]) == (False, reason, [])
    code, sentence = refusal("variant odd")
    assert (code, sentence) == (UNAVAILABLE, f"module odd is not available: {reason}")


# ------------------------------------------------------------------------------------------------- the reference page


def test_the_page_has_every_key_with_its_default_and_its_sentence(keys: dict[str, Any]) -> None:
    found = list(rows("key"))
    assert [row[0] for row in found] == [f"`{key['name']}`" for key in keys["plan_keys"]]
    for row, key in zip(found, keys["plan_keys"], strict=True):
        assert row[2] == (f"`{key['default']}`" if key["default"] is not None else ""), key["name"]
        assert row[3] == ", ".join(mark for mark in ("repeatable", "agreed") if key[mark]), key["name"]
        assert row[4] == key["help"], key["name"]
        for choice in key["choices"]:
            assert f"`{choice}`" in row[1], key["name"]


def test_the_page_has_every_exit_code_in_order(keys: dict[str, Any]) -> None:
    assert list(rows("code")) == [
        [str(one["code"]), f"`{one['name']}`", one["meaning"]] for one in keys["exit_codes"]
    ]


def test_users_are_told_every_exit_code(keys: dict[str, Any]) -> None:
    codes = sorted(str(one["code"]) for one in keys["exit_codes"])
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    table = page[page.index("| exit code | meaning |") :].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| (\d+) \| \S", table, re.MULTILINE)) == codes
    (sentence,) = re.findall(r"^Exit codes: (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"(?:^|, )(\d+) \w", sentence)) == codes


def test_the_page_has_every_field_that_is_exported(keys: dict[str, Any], listing: dict[str, Any]) -> None:
    fields = {name: row[1] for row in rows("field | in `keys`") for name in re.findall(r"`(\w+)`", row[0])}
    assert fields == {name: "yes" if name in keys else "no" for name in listing}


def test_the_page_has_every_command() -> None:
    done = subprocess.run([native.worker(), "--help"], capture_output=True, text=True, check=True)
    helped = re.findall(r"^  (\w+)", done.stdout, flags=re.MULTILINE)
    assert [row[0].split()[1].strip("`") for row in rows("command")] == helped


@pytest.mark.parametrize("row", list(rows("text")), ids=lambda row: row[0])
def test_the_page_is_right_about_sizes(row: list[str]) -> None:
    text, exact, printed = (cell.strip("`") for cell in row)
    said = answer("variant tcp", "schedule list", f"sizes {text}")
    assert said["sizes"] == [int(exact)]
    options = answer("variant tcp", f"pattern pingpong:send_offset={text}")["modes"][0]["options"]
    assert options["send_offset"] == printed
