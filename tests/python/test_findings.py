# SPDX-License-Identifier: Apache-2.0
"""Every rule fires on its own example and stays silent on the other, and all outputs show what it finds."""

from __future__ import annotations

import functools
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from synthetic import LAYERS, point, run

from netpipe.cli.show import to_json
from netpipe.findings import (
    CURVES,
    MACHINE,
    NOTE,
    SEVERE,
    SEVERITIES,
    WARNING,
    Finding,
    Rule,
    add,
    examples,
    judge,
    rules,
)
from netpipe.findings.curves import broken_guideline, segment_step
from netpipe.reading import Reading
from netpipe.records import Environment, PlannedVariant, Rank, Run
from netpipe.render.page.page import page
from netpipe.render.terminal.findings import print_brief, print_findings, print_important
from netpipe.render.terminal.summary import print_summary
from pages import Page, data_of

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference/findings.md"
RULES = list(rules().values())


@functools.cache
def fired(rule: Rule) -> tuple[Reading, str]:
    """What a rule's own example reads as, and its page: a tenth of a second."""
    made = Reading(rule.fires())
    return made, page(made)


def found_by(rule: str, made: Run) -> list[Finding]:
    return [finding for finding in judge(Reading(made)).findings if finding.rule == rule]


def one_line(text: str) -> str:
    return " ".join(text.split())


def on_terminal(findings: list[Finding], width: int = 100) -> str:
    stream = io.StringIO()
    print_findings(Console(file=stream, width=width), findings)
    return stream.getvalue()


def in_brief(findings: list[Finding], width: int = 100) -> str:
    stream = io.StringIO()
    print_brief(Console(file=stream, width=width), findings)
    return stream.getvalue()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_fires_where_it_should_and_nowhere_else(rule: Rule) -> None:
    found = found_by(rule.id, rule.fires())
    assert found, "silent on its own example"
    assert not found_by(rule.id, rule.silent())
    for finding in found:
        assert finding.severity in SEVERITIES
        assert finding.title
        assert finding.what.endswith((".", "!"))
        assert finding.what[:1] == finding.what[:1].upper() or finding.variant
        assert finding.certainty.endswith(".")
        assert not finding.cause or finding.cause.endswith(".")
        for quantity in finding.evidence.values():
            assert quantity.unit
            assert quantity.low is None or quantity.high is None or quantity.low <= quantity.high


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_finding_is_on_the_terminal_in_the_report_and_in_the_json(rule: Rule) -> None:
    made, written = fired(rule)
    (finding, *_) = found_by(rule.id, made.run)
    assert one_line(finding.what) in one_line(on_terminal([finding]))
    answer = json.loads(to_json(made, list(made.curves), points=False))
    assert msgspec.to_builtins(finding) in answer["findings"]
    assert f"<dd>{rule.id}</dd>" in written
    assert msgspec.to_builtins(finding) in data_of(written)["findings"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_finding_stands_on_the_page_and_on_the_terminal_once(rule: Rule) -> None:
    made, page_of_it = fired(rule)
    stream = io.StringIO()
    print_summary(Console(file=stream, width=200), made)
    written, said = Page(page_of_it).text, one_line(stream.getvalue())
    for finding in judge(made).findings:
        assert written.count(one_line(finding.what)) == 1
        assert said.count(one_line(finding.what)) <= 1  # the machine's are one line


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_on_a_run_without_anything_every_rule_is_silent_or_says_why_it_cannot_judge(rule: Rule) -> None:
    judgement = judge(Reading(Run()))
    assert not judgement.findings
    skipped = {one.rule: one.reason for one in judgement.skipped}
    assert rule.id in skipped or not rule.needs
    assert all(reason for reason in skipped.values())


@pytest.mark.parametrize("rule", [one for one in RULES if one.about == CURVES], ids=lambda rule: rule.id)
def test_a_rule_about_curves_says_why_it_cannot_judge_a_run_without_its_facts(rule: Rule) -> None:
    bare = judge(Reading(examples.run(examples.yardstick(0.0), point("x", 8, 1000.0), variants=("x",))))
    assert rule.id in {one.rule for one in bare.skipped}
    able = judge(Reading(rule.silent()))
    assert rule.id not in {one.rule for one in able.skipped}, "its silent example proves nothing"


def test_the_skipped_rules_are_in_the_report_and_in_the_json() -> None:
    made = Reading(run(LAYERS[2:4], [8, 64]))
    answer = json.loads(to_json(made, [], points=False))
    skipped = {one["rule"]: one["reason"] for one in answer["skipped_rules"]}
    assert skipped["posting-cost"] == "no variant was measured with both pingpong and burst"
    assert "no variant was measured with both pingpong and burst" in page(made)


def test_two_rules_cannot_have_one_id() -> None:
    with pytest.raises(ValueError, match="two rules 'load'"):
        add(rules()["load"])


def test_an_experiment_is_the_same_run_with_the_remedy() -> None:
    (found,) = found_by("one-launch", examples.run(point("tcp", 8, 1000.0), variants=["tcp:sndbuf=1 k"]))
    assert found.experiment == "netpipe run 'tcp:sndbuf=1 k' --launches 5"
    made = examples.run(point("tcp", 8, 1000.0))
    assert made.header is not None
    # Pasted, it prints what it measures, and does not take the name of the run in question.
    made.header.argv = [
        "run",
        "tcp",
        "-qo",
        "run.jsonl",
        "--output=x.jsonl",
        "-q",
        "--pin",
        "0,1",
        "--launches",
        "1",
    ]
    (found,) = found_by("one-launch", made)
    assert found.experiment == "netpipe run tcp --pin 0,1 --launches 5"
    made.header.argv = ["import", "np.out"]
    (found,) = found_by("one-launch", made)
    assert found.experiment is None


def two_of_one_module(option: str, slow: str, fast: str, found: str = "", default: str = "") -> Run:
    """`x:OPTION=SLOW` beside a variant that is `x:OPTION=FAST`, whose name is plain `x` where that is the default. The
    first takes twice as long. `found`: what its processes were found to use.
    """
    first, second = f"x:{option}={slow}", "x" if fast == default else f"x:{option}={fast}"
    points = [
        examples.visited(variant, 8, ns, launch)
        for launch in range(4)
        for variant, ns in ((first, 40_000.0), (second, 20_000.0))
    ]
    made = examples.run(examples.yardstick(0.0), *points, variants=(first, second))
    values = {first: slow, second: fast}
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(variant=one, module="x", options={option: values[one]}) for one in values
        ]
    for variant in made.variants:
        settings = {option: values[variant.variant]} | ({f"{option}_found": found} if found else {})
        variant.ranks[:] = [Rank(rank=rank, host="node17", cpu=rank, settings=settings) for rank in (0, 1)]
    return made


def test_a_remedy_that_is_the_default_is_found_under_the_plain_name() -> None:
    (found,) = found_by("sleeps", two_of_one_module("wait", "block", "poll", default="poll"))
    assert found.confirm is not None
    assert found.confirm.remedied == "x"
    assert found.evidence["times"].value == pytest.approx(2.0, rel=0.01)
    assert "and x is 2.00 times as fast" in found.what


def test_what_shared_memory_gains_is_said_where_the_run_has_it() -> None:
    (found,) = found_by("wrong-transport", two_of_one_module("transport", "auto", "shm", found="TCP"))
    assert found.gain is not None
    assert found.gain.value == pytest.approx(2.0, rel=0.01)
    assert "x:transport=shm is 2.00 times as fast at 8 B" in found.what


def test_a_network_that_was_asked_for_by_the_name_of_the_library_is_no_wrong_transport() -> None:
    made = two_of_one_module("transport", "auto", "shm", found="TCP")
    assert found_by("wrong-transport", made)
    for plan in made.plans:
        for variant in plan.variants:
            variant.options["rpi"] = "tcp"
    assert not found_by("wrong-transport", made)


def test_small_buffers_are_said_at_the_size_where_they_cost_most() -> None:
    times = {(8, "tcp:sndbuf=8k"): 20e3, (16384, "tcp:sndbuf=8k"): 500e3, (262144, "tcp:sndbuf=8k"): 600e3}
    times |= {(8, "tcp"): 20e3, (16384, "tcp"): 25e3, (262144, "tcp"): 200e3}
    points = [
        examples.visited(of, size, ns, launch) for launch in range(4) for (size, of), ns in times.items()
    ]
    made = examples.run(*points, variants=("tcp:sndbuf=8k", "tcp"))
    for variant in made.variants:
        fixed = {"sndbuf_kernel_bytes": "16000", "sndbuf_autotuned": "no"}
        variant.ranks[:] = [Rank(rank=0, settings=fixed if variant.variant != "tcp" else {})]
    (found,) = found_by("small-buffers", made)
    assert found.what.endswith("at 16 KiB with a fixed sndbuf of 15.6 KiB: tcp is 20.0 times as fast.")
    assert found.what.startswith("tcp:sndbuf=8k reaches 254 Mbps ")
    assert found.size_bytes == 16384
    assert found.confirm is not None
    assert found.confirm.sizes == [16384]


def datagrams(payload: str, path: str, gso: str = "no") -> Run:
    made = segment_step.fires()
    for plan in made.plans:
        options = {"payload": "0" if payload == "1472" else payload, "gso": gso}
        plan.variants[:] = [msgspec.structs.replace(one, options=options) for one in plan.variants]
    sizes = {"message_bytes_per_datagram": "4200", "payload_bytes": payload, "path_mtu_bytes": path}
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings=sizes | {"gso": gso})]
    return made


@pytest.mark.parametrize(
    ("made", "remedied"),
    [
        (datagrams("4224", "65535"), "tcp:payload=0"),  # the path carries more
        (datagrams("1472", "1500"), "tcp:gso=yes"),
        (datagrams("65507", "65535"), None),  # too long for segmentation offload
        (datagrams("1472", "1500", "yes"), None),
        (segment_step.fires(), None),  # TCP has no setting for its segments
    ],
)
def test_the_experiment_for_a_packet_more_is_larger_packets_or_offload(
    made: Run, remedied: str | None
) -> None:
    (found,) = found_by("segment-step", made)
    assert (found.confirm.remedied if found.confirm else None) == remedied


def test_the_experiment_for_a_broken_guideline_tries_the_algorithms_of_the_library() -> None:
    made = broken_guideline.fires()
    assert made.header is not None
    made.header.argv = ["run", "mpi@x", "--ranks", "8", "--hosts", "a,b", "--launches", "3", "-o", "x.jsonl"]
    (found,) = found_by("broken-guideline", made)
    assert found.experiment == "netpipe tune mpi@x --goal collective=allreduce --ranks 8 --hosts a,b"


# ------------------------------------------------------------------------------------------------ on the terminal


def test_the_command_of_an_experiment_can_be_given_to_a_shell() -> None:
    made = examples.run(
        examples.point("shm", 8, 100.0),
        examples.point("pipe:label=a;b", 8, 9000.0),
        variants=["shm", "pipe:label=a;b"],
        stack={"pipe": "shm"},
        waits={"shm": "poll", "pipe:label=a;b": "block"},
    )
    (found,) = [one for one in judge(Reading(made)).findings if one.rule == "waits-differ"]
    assert found.experiment == "netpipe run shm:wait=block 'pipe:label=a;b'"


def test_many_findings_of_one_rule_are_four_and_a_number() -> None:
    many = [
        Finding(
            rule="launches-on-other-processors", severity=WARNING, what=f"Curve {n}.", certainty="Certain."
        )
        for n in range(9)
    ]
    text = in_brief(many)
    assert "Curve 3." in text
    assert "Curve 4." not in text
    assert "5 more of this kind (launches-on-other-processors)" in text
    assert "Curve 4." in in_brief(many[:5])


def test_what_disturbs_the_machine_is_one_line_and_what_is_severe_is_said_in_full() -> None:
    said = [
        Finding(rule=rule, title=title, severity=severity, what=f"{title} is so.", certainty="Certain.")
        for rule, title, severity in (
            ("load", "Load", SEVERE),
            ("virtual-machine", "Virtual machine", WARNING),
            ("stolen-time", "Stolen time", WARNING),
            ("turbo", "Turbo", NOTE),
        )
    ]
    text = in_brief(said)
    assert "✗ Load is so." in text
    assert "! This machine disturbs measurements: virtual machine and stolen time." in text
    assert "urbo" not in text


def of_curves(rule: str, title: str, severity: str, variants: list[str], remedy: str = "") -> list[Finding]:
    return [
        Finding(
            rule=rule,
            title=title,
            severity=severity,
            variant=name,
            what=f"{name} is slow.",
            certainty="Certain.",
            remedy=remedy,
        )
        for name in variants
    ]


def test_one_cause_is_said_once() -> None:
    """Of one rule about curves the first is said, and names the others, be it important or not."""
    control = ("unfit-congestion-control", "Unfit congestion control", WARNING, ["tcp", "mpi", "udp"])
    important = of_curves(*control, remedy="measure with congestion=cubic")
    stream = io.StringIO()
    print_important(Console(file=stream, width=100), important)
    assert one_line(stream.getvalue()).count("is slow") == 1
    assert "tcp is slow. Also found for mpi and udp. → measure" in one_line(stream.getvalue())
    assert not in_brief(important)
    assert one_line(in_brief(of_curves(*control))) == "! tcp is slow. Also found for mpi and udp."


def test_load_and_busy_processes_are_one_cause() -> None:
    both = [
        Finding(rule=rule, title=title, severity=severity, what=f"{title}.", certainty="Certain.")
        for rule, title, severity in (
            ("load", "Load", SEVERE),
            ("busy-processes", "Other busy processes", WARNING),
        )
    ]
    assert "busy" not in in_brief(both)
    assert "other busy processes" in in_brief(both[1:])


def test_what_the_sentence_of_trust_names_is_not_named_again() -> None:
    said = [
        Finding(rule=rule, title=title, severity=WARNING, what=f"{title}.", certainty="Certain.")
        for rule, title in (("virtual-machine", "Virtual machine"), ("stolen-time", "Stolen time"))
    ]
    assert "virtual machine and stolen time" in in_brief(said)
    stream = io.StringIO()
    print_brief(Console(file=stream, width=100), said, told="Trust; reasons for doubt: virtual machine.")
    assert "This machine disturbs measurements: stolen time." in stream.getvalue()


def test_notes_are_named_in_one_line() -> None:
    notes = [
        *of_curves("step", "A threshold", NOTE, ["memcpy", "memcpy", "tcp"]),
        Finding(rule="launches-apart", title="Spread", severity=NOTE, what="Far.", certainty="Certain."),
    ]
    assert one_line(in_brief(notes)) == (
        "· More notes in netpipe explain: a threshold (memcpy and tcp); spread."
    )


def test_with_several_hosts_a_finding_says_which() -> None:
    one, other = (Environment(host=host, facts={"clock": {"source": source}}) for host, source in
                  (("node17", "tsc"), ("node18", "hpet")))  # fmt: skip
    for made, named in ((examples.run(one, other), True), (examples.run(other), False)):
        stream = io.StringIO()
        print_summary(Console(file=stream, width=200), Reading(made))
        assert ("✗ Slow clock source (node18). The clock source is hpet" in stream.getvalue()) == named
        assert ("Slow clock source (node18)." in page(Reading(made))) == named


@pytest.mark.parametrize("width", [60, 80, 120])
def test_findings_fit_the_terminal(width: int) -> None:
    every = [finding for rule in RULES for finding in found_by(rule.id, rule.fires())]
    for text in (on_terminal(every, width), in_brief(every, width)):
        assert max(map(len, text.splitlines())) <= width


# ---------------------------------------------------------------------------------------------- rules on machines


def judged(facts: dict[str, Any]) -> dict[str, Finding]:
    return {
        finding.title: finding
        for finding in judge(Reading(examples.with_facts(facts)), about=MACHINE).findings
    }


QUIET: dict[str, Any] = {
    "cpu.logical": 8,
    "cpu.virtual.is_virtual": False,
    "cpu.virtual.steal_share": 0.0,
    "cpu.frequency.driver": "acpi-cpufreq",
    "cpu.frequency.governor": "performance",
    "cpu.frequency.boost": False,
    "cpu.frequency.throttled": 0,
    "clock.source": "tsc",
    "kernel.debug_features": [],
    "limits.allowed_cpu_count": 8,
    "limits.cgroup.cpu_quota": None,
    "limits.container": "none",
    "limits.ptrace_scope": 0,
    "load.average_1": 0.0,
    "load.other_busy_processes": 0,
    "memory.total_bytes": 4_096_000_000,
    "memory.available_bytes": 3_072_000_000,
    "memory.swap_used_bytes": 0,
    "memory.page_merging": False,
    "memory.transparent_huge_pages.enabled": "madvise",
    "pinning.count": 2,
    "pinning.unpinned": 0,
    "pinning.sharing_cpu": 0,
    "pinning.sharing_core": 0,
    "pinning.nodes": 1,
    "pinning.kinds_of_core": 1,
}


def test_no_rule_complains_about_a_quiet_machine() -> None:
    assert judged(QUIET) == {}


@pytest.mark.parametrize(
    ("title", "facts"),
    [
        ("Debug kernel", {"kernel.debug_features": ["lockdep"]}),
        ("Oversubscribed", {"pinning.sharing_cpu": 1}),
        ("Oversubscribed", {"pinning.unpinned": 2, "limits.allowed_cpu_count": 1}),
        ("Processor quota", {"limits.cgroup.cpu_quota": 2.0}),
        ("Slow clock source", {"clock.source": "acpi_pm"}),
        ("Guest clock", {"clock.source": "kvm-clock"}),
        ("Short of memory", {"memory.available_bytes": 100_000_000}),
        ("Short of memory", {"limits.cgroup.memory_max_bytes": 268_435_456}),
        ("Swap in use", {"memory.swap_used_bytes": 90_000_000}),
        ("Other busy processes", {"load.other_busy_processes": 1}),
        ("Virtual machine", {"cpu.virtual.is_virtual": True}),
        ("Stolen time", {"cpu.virtual.steal_share": 0.1}),
        ("Frequency governor", {"cpu.frequency.governor": "performance,ondemand"}),
        ("Turbo", {"cpu.frequency.boost": True}),
        ("Turbo", {"cpu.frequency.boost": None, "cpu.frequency.driver": None}),
        ("Heat", {"cpu.frequency.throttled": 3}),
        ("Unpinned ranks", {"pinning.unpinned": 1}),
        ("Page merging", {"memory.page_merging": True}),
        ("Transparent huge pages", {"memory.transparent_huge_pages.enabled": "always"}),
        ("Restricted ptrace", {"limits.ptrace_scope": 2}),
        ("Slow build of the worker", {"software.optimised": False}),
        ("Slow build of the worker", {"software.sanitizers": ["thread"]}),
        ("Emulated processor", {"cpu.virtual.hypervisor": "QEMU TCG"}),
        ("Small /dev/shm", {"limits.dev_shm_total_bytes": 64 << 20}),
        ("On battery", {"cpu.frequency.on_battery": True}),
        ("Mixed kinds of core", {"pinning.kinds_of_core": 2}),
        ("Ranks on several NUMA nodes", {"pinning.nodes": 2}),
        ("Ranks on one core", {"pinning.sharing_core": 1}),
        ("NUMA balancing", {"memory.numa_balancing": 1, "memory.node_count": 2}),
        ("Little lockable memory", {"limits.memlock_bytes": 65536, "network.rdma_device_count": 1}),
        ("Deep sleep", {"cpu.idle.deepest_exit_ns": 133_000}),
    ],
)
def test_every_disturbance_comes_with_its_cause_and_alone(title: str, facts: dict[str, Any]) -> None:
    found = set(judged(QUIET | facts))
    # A rank that is not pinned is itself worth a word.
    assert found - ({"Unpinned ranks"} if title == "Oversubscribed" else set()) == {title}


@pytest.mark.parametrize(
    "facts",
    [
        {"cpu.virtual.hypervisor": "KVM"},
        {"limits.dev_shm_total_bytes": 1 << 30},
        {"software.optimised": True, "software.sanitizers": []},
        {"limits.memlock_bytes": 65536, "network.rdma_device_count": 0},
        {"limits.memlock_bytes": "unlimited", "network.rdma_device_count": 1},
        {"limits.cgroup.cpu_quota": 2.5},
        {"load.average_1": 4.1, "load.other_busy_processes": 0},  # a measurement of ours has just ended
        {"cpu.idle.deepest_exit_ns": 133_000, "cpu.idle.latency_limit_ns": 0},
        {"limits.ptrace_scope": 1, "limits.may_trace_others": True},
        {"memory.swap_used_bytes": 1_000_000},
        {"load.average_1": "much", "cpu.frequency.throttled": True, "kernel.debug_features": "yes"},
    ],
)
def test_what_does_not_matter_is_not_reported(facts: dict[str, Any]) -> None:
    assert judged(QUIET | facts) == {}


def test_the_load_counts_above_half_of_the_processors_while_others_work() -> None:
    busy = QUIET | {"load.other_busy_processes": 1}
    assert "Load" in judged(busy | {"load.average_1": 4.1})
    assert "Load" not in judged(busy | {"load.average_1": 4.0})


def test_a_quota_counts_the_ranks_that_share_it() -> None:
    quota = {"limits.cgroup.cpu_quota": 2.5, "limits.cgroup.throttled": 3}
    assert "Processor quota" not in judged(QUIET | quota)
    found = judged(QUIET | quota | {"pinning.count": 3})["Processor quota"]
    assert "3 ranks" in found.what
    assert "(3 times so far)" in found.what
    alone = judged({"limits.cgroup.cpu_quota": 1.0})["Processor quota"]
    assert "1 rank and netpipe itself" in alone.what


def test_remedies_fit_the_host() -> None:
    slow = {"clock.source": "hpet", "clock.sources": ["hpet", "tsc"]}
    assert "echo tsc" in judged(QUIET | slow)["Slow clock source"].remedy
    assert "dmesg" in judged(QUIET | {"clock.source": "hpet"})["Slow clock source"].remedy
    small = {"limits.dev_shm_total_bytes": 64 << 20}
    assert "remount" in judged(QUIET | small)["Small /dev/shm"].remedy
    assert "docker" in judged(QUIET | small | {"limits.container": "docker"})["Small /dev/shm"].remedy
    turbo = {"cpu.frequency.boost": True, "cpu.frequency.driver": "intel_pstate"}
    assert "no_turbo" in judged(QUIET | turbo)["Turbo"].remedy


def test_hosts_are_judged_apart_and_each_once() -> None:
    def environment(host: str, rank: int, governor: str) -> Environment:
        return Environment(
            host=host, rank=rank, facts={"cpu": {"frequency": {"governor": governor, "driver": "x"}}}
        )

    made = Run(
        [
            environment("a", 0, "performance"),
            environment("b", 1, "powersave"),
            environment("b", 2, "ondemand"),
            environment("c", 3, "ondemand"),
        ]
    )
    found = found_by("frequency-governor", made)
    assert [(one.host, "powersave" in one.what) for one in found] == [("b", True), ("c", False)]


def test_what_an_older_worker_judged_is_kept_unless_a_rule_can_judge_it_again() -> None:
    old = [
        {"what": "Load", "why": "It was high", "fix": "wait", "severity": "severe"},
        {"what": "frequency governor.", "why": "it follows the load", "fix": "", "severity": "warning"},
        {
            "what": "a virtual machine",
            "why": "the hypervisor moves its cores",
            "fix": "x",
            "severity": "high",
        },
        "garbage",
        {"why": "nothing is named"},
    ]
    made = Run(
        [Environment(host="a", facts={"spoilers": old, "cpu": {"frequency": {"governor": "performance"}}})]
    )
    found = found_by("recorded-judgement", made)
    assert [(one.title, one.severity, one.what, one.remedy) for one in found] == [
        ("Load", "severe", "It was high.", "wait"),
        ("A virtual machine", "warning", "The hypervisor moves its cores.", "x"),
    ]
    assert not found_by("recorded-judgement", Run([Environment(facts={"spoilers": None})]))


def test_another_library_in_one_of_two_launches_is_counted() -> None:
    points = (point("mpi@openmpi", 8, 400.0, launch=launch) for launch in range(2))
    made = examples.run(*points, variants=["mpi@openmpi"])
    first, second = made.variants
    first.version, second.version = "Open MPI 5.0.11", "Open MPI 5.0.12"
    second.added_for = "Open MPI 5.0.11"
    (found,) = found_by("another-library", made)
    assert found.what.endswith("and Open MPI 5.0.12 answered in 1 of 2 launches.")


# ---------------------------------------------------------------------------------------------- the reference page


def test_every_rule_is_in_the_reference_and_no_other() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+?) \| ([a-z, ]+) \|", text, re.MULTILINE)
    assert {(name, title) for name, title, _ in rows} == {(rule.id, rule.title) for rule in RULES}
    severities = {name: set(words.split(", ")) for name, _, words in rows}
    for rule in RULES:
        assert {finding.severity for finding in found_by(rule.id, rule.fires())} <= severities[rule.id], (
            rule.id
        )


def test_the_facts_that_rules_need_are_in_the_reference() -> None:
    documented = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
    for rule in RULES:
        for need in rule.needs:
            if "." in need and need != "cpu.frequency":
                assert f"`{need}`" in documented, (rule.id, need)
