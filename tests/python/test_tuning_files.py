# SPDX-License-Identifier: Apache-2.0
"""What `netpipe tune` writes: each format as its reader takes it, and settings of the kernel that are put back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from netpipe.contents import toml
from netpipe.failure import Failure
from netpipe.libraries import families
from netpipe.libraries.mpich import rules as trees
from netpipe.libraries.openmpi import rules
from netpipe.libraries.tunables import Chosen
from netpipe.reading.estimate import Estimate
from netpipe.tuning.formats import Tuned, files
from netpipe.tuning.log import Log
from netpipe.tuning.measuring.ratios import verdict
from netpipe.tuning.search.halving import Failed, Round
from netpipe.tuning.search.variants import START, Changes, Start
from netpipe.tuning.system import applied, nic, table
from netpipe.tuning.system.trial import Tried, nic_file, sysctl_file

FAMILIES = {one.name: one for one in families()}
FOLDER = Path("/tuned")
WORDS = {"1": "basic_linear", "3": "recursive_doubling", "4": "ring"}


def tuned(
    family: str = "",
    variables: dict[str, str] | None = None,
    options: dict[str, tuple[str, ...]] | None = None,
) -> Tuned:
    of = FAMILIES[family].tunables if family and FAMILIES[family].tunables else None
    return Tuned(
        "x:a=1", "x:a=2", Changes.of({"a": "2"}), "1.3 times as fast", family,
        **({"tunables": of} if of else {}), variables=variables or {}, options=options or {},
    )  # fmt: skip


def chosen(
    version: tuple[int, ...],
    operation: str,
    by_size: dict[int, str],
    ranks: int = 4,
    library: Path | None = None,
    words: dict[str, str] | None = None,
) -> Chosen:
    return Chosen(operation, ranks, by_size, words or WORDS, version, library)


def test_the_configuration_measures_both_beside_each_other(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    options = {"pattern": ("collective:what=bcast", "pingpong"), "hosts": ("A:2,B:2",), "ranks": ("4",)}
    path.write_text(files(tuned(options=options))["tuned.toml"])
    whole = toml(path, "configuration")
    assert whole == {
        "run": {
            "variants": ["x:a=1", "x:a=2"],
            "pattern": ["collective:what=bcast", "pingpong"],
            "hosts": "A:2,B:2",
            "ranks": "4",
        }
    }


def test_the_command_line_measures_where_and_how_the_tuner_did() -> None:
    options = {"hosts": ("A,B",), "remote-shell": ("ssh -p 2222",), "module": ("/a.so", "/b.so")}
    ours, launcher = files(tuned("openmpi", {"OMPI_MCA_btl": "self"}, options))["command.txt"].splitlines()
    more = "--hosts A,B --remote-shell 'ssh -p 2222' --module /a.so --module /b.so"
    assert ours == f"netpipe run x:a=1 x:a=2 {more}"
    assert launcher == "mpirun -n 2 -x OMPI_MCA_btl=self PROGRAM"


def test_the_command_line_of_lam_exports_what_was_tuned() -> None:
    _, launcher = files(tuned("lam", {"LAM_MPI_SSI_coll": "smp"}))["command.txt"].splitlines()
    assert launcher == "mpirun -np 2 -x LAM_MPI_SSI_coll=smp PROGRAM"


def test_a_layer_of_its_own_has_no_file_for_a_library() -> None:
    assert set(files(tuned())) == {"tuned.toml", "command.txt"}


def test_open_mpi_reads_its_parameters_without_quotes_and_prefix() -> None:
    found = files(tuned("openmpi", {"OMPI_MCA_btl": "self,tcp", "UCX_TLS": "tcp"}))
    lines = [line for line in found["openmpi-mca-params.conf"].splitlines() if not line.startswith("#")]
    assert lines == ["btl = self,tcp"]
    assert "UCX_TLS=tcp" in found["ucx.conf"].splitlines()
    assert "mpirun -n 2 -x OMPI_MCA_btl=self,tcp -x UCX_TLS=tcp PROGRAM" in found["command.txt"]


def test_the_environment_is_what_a_shell_reads() -> None:
    text = files(tuned("mpich", {"FI_PROVIDER": "tcp;ofi_rxm", "MPIR_CVAR_NOLOCAL": "1"}))["environment.sh"]
    done = subprocess.run(
        ["sh", "-c", f'{text}\nprintf %s "$FI_PROVIDER"'],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    assert done.stdout == "tcp;ofi_rxm"


def test_classic_rules_rise_from_nothing_and_leave_what_was_not_measured_alone() -> None:
    made = rules.rules([chosen((5, 0, 11), "allreduce", {8: "", 64: "3", 512: "4"})], FOLDER)
    assert made is not None
    ((name, text),) = made.files.items()
    assert made.variables["OMPI_MCA_coll_tuned_dynamic_rules_filename"] == f"/tuned/{name}"
    numbers = [line.split("#")[0].split() for line in text.splitlines()]
    assert name == "allreduce-rules.conf"
    assert numbers[0] == ["rule-file-version-2"]
    assert numbers[1:5] == [["1"], ["2"], ["2"], ["4"]]
    count = int(numbers[5][0])
    steps = [tuple(map(int, line)) for line in numbers[6 : 6 + count]]
    assert steps == [(0, 0, 0, 0, 0), (23, 3, 0, 0, 0), (181, 4, 0, 0, 0), (1024, 0, 0, 0, 0)]
    assert numbers[6 + count :] == [["5"], ["1"], ["0", "0", "0", "0", "0"]]


def test_older_versions_have_neither_the_first_line_nor_the_last_number() -> None:
    made = rules.rules([chosen((4, 1, 4), "bcast", {8: "1"}, 2)], FOLDER)
    assert made is not None
    (text,) = made.files.values()
    assert "rule-file-version" not in text
    assert "\n0 1 0 0\n" in text


def test_sizes_of_all_ranks_count_where_open_mpi_counts_them() -> None:
    assert rules.boundaries(chosen((), "alltoall", {16: "1", 64: ""})) == [(0, 1), (128, 0)]


def test_newer_versions_have_json_whose_first_match_wins() -> None:
    made = rules.rules([chosen((6, 0, 0), "allreduce", {8: "", 64: "3", 512: "4"})], FOLDER)
    assert made is not None
    whole = json.loads(made.files["allreduce-rules.json"])
    (only,) = whole["collectives"]["allreduce"]
    assert (whole["rule_file_version"], only["comm_size_min"], only["comm_size_max"]) == (3, 4, 4)
    assert [(one["msg_size_min"], one["msg_size_max"], one["alg"]) for one in only["rules"]] == [
        (23, 180, "recursive_doubling"),
        (181, 1023, "ring"),
    ]


def test_an_operation_without_a_known_number_has_no_rules() -> None:
    assert rules.rules([chosen((5, 0, 11), "scan", {8: "1"})], FOLDER) is None


# ------------------------------------------------------------------------------------------------------ MPICH's trees

COMPOSITIONS = {
    "collective=allreduce": {
        "comm_type=intra": {
            "comm_size=node_comm_size": {"composition=shared": {}},
            "comm_size=any": {"composition=messages": {}},
        }
    }
}
ALGORITHMS = {
    "collective=allreduce": {
        "comm_type=intra": {
            "avg_msg_size<=8": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
            "avg_msg_size=any": {
                "count<pow2": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
                "count=any": {"algorithm=MPIR_Allreduce_intra_reduce_scatter_allgather": {}},
            },
        },
        "comm_type=inter": {"algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {}},
    },
    "collective=barrier": {"comm_type=intra": {"algorithm=MPIR_Barrier_intra_k_dissemination": {}}},
}


@pytest.fixture
def mpich(tmp_path: Path) -> Path:
    """As far as a libmpi has trees in it."""
    posix = {"collective=allreduce": {"comm_type=intra": {"algorithm=MPIDI_POSIX_mpi_allreduce": {}}}}
    parts = [b"\x7fELF", *(json.dumps(one).encode() for one in (posix, COMPOSITIONS, ALGORITHMS)), b"end"]
    path = tmp_path / "libmpi.so"
    path.write_bytes(b"\0".join(parts) + b"\0")
    return path


def test_the_trees_of_mpich_are_found_in_the_library_itself(mpich: Path) -> None:
    assert trees.own_trees(mpich) == {"composition": COMPOSITIONS, "algorithm": ALGORITHMS}
    assert trees.own_trees(mpich.with_name("none")) == {}


@pytest.mark.parametrize("ranks", [2, 4])
def test_rules_for_mpich_change_what_was_measured_and_nothing_else(mpich: Path, ranks: int) -> None:
    of = chosen((5, 0, 2), "allreduce", {8: "", 64: "ring", 512: ""}, ranks, mpich, {"ring": "ring"})
    made = trees.rules([of], FOLDER)
    assert made is not None
    levels = {name: json.loads(text) for name, text in made.files.items()}
    assert {Path(path).name for path in made.variables.values()} == set(levels)
    compositions, algorithms = levels["allreduce-compositions.json"], levels["allreduce-algorithms.json"]

    def at(tree: dict[str, object], on: int, size: int) -> str:
        return trees.chosen_at(tree, "allreduce", on, size)

    # Changes lie in the middle by logarithm: at 23 and 181 bytes.
    assert [at(compositions, ranks, size) for size in (22, 23, 180, 181)] == [
        "shared", "messages", "messages", "shared",
    ]  # fmt: skip
    for size in (23, 64, 180):
        assert at(algorithms, ranks, size) == "MPIR_Allreduce_intra_ring"
    for size in (0, 8, 22, 181, 1 << 20):
        assert at(algorithms, ranks, size) == at(ALGORITHMS, ranks, size)
    for on in (ranks - 1, ranks + 1, 64):
        assert at(algorithms, on, 64) == at(ALGORITHMS, on, 64), on
        assert at(compositions, on, 64) == "shared"
    assert algorithms["collective=barrier"] == ALGORITHMS["collective=barrier"]
    assert (
        algorithms["collective=allreduce"]["comm_type=inter"]
        == (ALGORITHMS["collective=allreduce"]["comm_type=inter"])
    )


def test_rules_for_mpich_end_every_level_for_all_cases(mpich: Path) -> None:
    """A level without an end is an assertion in MPICH."""
    of = chosen((5, 0, 2), "allreduce", {8: "ring"}, 4, mpich, {"ring": "ring"})
    made = trees.rules([of], FOLDER)
    assert made is not None

    def check(tree: dict[str, dict[str, object]]) -> None:
        names = list(tree)
        if names and names[0].startswith(("comm_size", "avg_msg_size")):
            assert names[-1].endswith("=any")
        for below in tree.values():
            check(below)  # type: ignore[arg-type]

    for text in made.files.values():
        check(json.loads(text))


def test_an_operation_or_a_library_without_a_tree_has_no_rules_for_mpich(mpich: Path) -> None:
    assert trees.rules([chosen((5, 0, 2), "scan", {8: "ring"}, 4, mpich)], FOLDER) is None
    assert trees.rules([chosen((5, 0, 2), "allreduce", {8: "ring"}, 4, Path("/none"))], FOLDER) is None


# --------------------------------------------------------------------------------------------- settings of the kernel


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    root = tmp_path / "sys"
    for key, value in {
        "net.core.wmem_max": "212992",
        "net.ipv4.tcp_wmem": "4096\t16384\t4194304",
        "net.ipv4.tcp_congestion_control": "bbr",
        "net.ipv4.tcp_available_congestion_control": "reno bbr",
    }.items():
        path = table.path_of(key, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    return root


def test_candidates_are_what_this_kernel_has(kernel: Path) -> None:
    found = {(one.key, one.value) for one in table.candidates(kernel)}
    assert found == {
        ("net.core.wmem_max", "851968"),
        ("net.ipv4.tcp_wmem", "4096 16384 16777216"),
        ("net.ipv4.tcp_congestion_control", "reno"),
    }


def test_settings_of_tcp_are_no_candidates_for_datagrams(kernel: Path) -> None:
    assert {one.key for one in table.candidates(kernel, tcp=False)} == {"net.core.wmem_max"}


def test_what_cannot_be_written_is_no_candidate(kernel: Path) -> None:
    table.path_of("net.core.wmem_max", kernel).chmod(0o444)
    assert "net.core.wmem_max" not in {one.key for one in table.candidates(kernel)}


def test_a_change_is_put_back(kernel: Path, tmp_path: Path) -> None:
    state = tmp_path / "state" / "tune.json"
    changes = applied.Applied(kernel, state)
    changes.set("net.core.wmem_max", "1000000")
    assert table.read("net.core.wmem_max", kernel) == "1000000"
    assert json.loads(state.read_text())["before"] == {"net.core.wmem_max": "212992"}
    changes.revert()
    assert table.read("net.core.wmem_max", kernel) == "212992"
    assert not state.exists()


def test_what_is_to_stay_stays(kernel: Path, tmp_path: Path) -> None:
    changes = applied.Applied(kernel, tmp_path / "tune.json")
    changes.set("net.core.wmem_max", "1000000")
    changes.set("net.ipv4.tcp_congestion_control", "reno")
    changes.revert(keep=("net.core.wmem_max",))
    assert table.read("net.core.wmem_max", kernel) == "1000000"
    assert table.read("net.ipv4.tcp_congestion_control", kernel) == "bbr"


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait(10)
    return process.pid


def test_the_next_start_puts_back_what_a_killed_one_left(kernel: Path, tmp_path: Path) -> None:
    state = tmp_path / "tune.json"
    before = {"net.core.wmem_max": "100000"}
    state.write_text(json.dumps({"pid": ended_process(), "started": "1", "before": before}))
    said: list[str] = []
    applied.restore_left(said.append, kernel, state)
    assert table.read("net.core.wmem_max", kernel) == "100000"
    assert said == ["put back what an interrupted netpipe tune had left changed: net.core.wmem_max = 100000"]
    assert not state.exists()
    applied.restore_left(said.append, kernel, state)
    assert len(said) == 1


def test_while_another_process_has_changed_settings_nothing_starts(kernel: Path, tmp_path: Path) -> None:
    state = tmp_path / "tune.json"
    parent = os.getppid()
    started = applied._started(parent)
    state.write_text(json.dumps({"pid": parent, "started": started, "before": {"net.core.wmem_max": "1"}}))
    with pytest.raises(Failure, match=f"process {parent}"):
        applied.restore_left(lambda _: None, kernel, state)
    assert table.read("net.core.wmem_max", kernel) == "212992"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x"}'])
def test_a_damaged_state_file_is_named(kernel: Path, tmp_path: Path, text: str) -> None:
    state = tmp_path / "tune.json"
    state.write_text(text)
    with pytest.raises(Failure, match="damaged"):
        applied.restore_left(lambda _: None, kernel, state)


def test_what_ended_with_its_network_namespace_is_not_put_back_in_another(
    kernel: Path, tmp_path: Path
) -> None:
    state = tmp_path / "tune.json"
    before = {"net.core.wmem_max": "100000"}
    left = {"pid": ended_process(), "started": "1", "before": before}
    state.write_text(json.dumps({**left, "namespace": 1}))
    applied.restore_left(lambda _: None, kernel, state)
    assert table.read("net.core.wmem_max", kernel) == "212992"
    assert not state.exists()


def test_what_is_changed_in_another_network_namespace_is_put_back_there(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path("/proc/self/ns/net").stat().st_ino
    state, own = tmp_path / "tune.json", tmp_path / "own"
    own.touch()
    monkeypatch.setattr(applied, "OWN_NAMESPACE", own)
    left = {"pid": ended_process(), "started": "1", "before": {"net.core.wmem_max": "1"}}
    state.write_text(json.dumps({**left, "namespace": other}))
    with pytest.raises(Failure, match="in another network namespace"):
        applied.restore_left(lambda _: None, kernel, state)
    assert state.exists()


def test_what_ended_with_the_start_of_the_machine_is_forgotten_and_another_host_keeps_its_own(
    kernel: Path, tmp_path: Path
) -> None:
    """Hosts may share the folder of a user."""
    state = tmp_path / "tune.json"
    left = {"pid": ended_process(), "started": "1", "before": {"net.core.wmem_max": "1"}, "boot": "another"}
    said: list[str] = []
    state.write_text(json.dumps({**left, "host": "elsewhere"}))
    applied.restore_left(said.append, kernel, state)
    assert state.exists()
    state.write_text(json.dumps({**left, "host": socket.gethostname()}))
    applied.restore_left(said.append, kernel, state)
    assert not state.exists()
    assert table.read("net.core.wmem_max", kernel) == "212992"
    assert said == []


def test_what_this_process_has_changed_is_its_own(kernel: Path, tmp_path: Path) -> None:
    """The file says where and when it was written, so that the next process on this host puts it back."""
    state = tmp_path / "tune.json"
    applied.Applied(kernel, state).set("net.core.wmem_max", "1000000")
    left = json.loads(state.read_text())
    state.write_text(json.dumps({**left, "pid": ended_process()}))
    applied.restore_left(lambda _: None, kernel, state)
    assert table.read("net.core.wmem_max", kernel) == "212992"


def test_hosts_with_the_same_home_change_settings_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    here = applied.state_file()
    with applied.alone():
        monkeypatch.setattr(socket, "gethostname", lambda: "another.example.org")
        assert applied.state_file() != here
        with applied.alone():
            pass


def test_two_tuners_never_change_settings_at_once(tmp_path: Path) -> None:
    """Also between two trials of the first, when nothing is changed."""
    state = tmp_path / "state" / "tune.json"
    with applied.alone(state), pytest.raises(Failure, match="another netpipe tune --apply") as caught:
        applied.alone(state).__enter__()
    assert caught.value.exit_code == 2
    with applied.alone(state):
        pass


def test_settings_of_interfaces_are_commands_for_a_shell() -> None:
    beside = Estimate(1.0, 0.99, 1.01)
    gaining = verdict(Estimate(0.5, 0.45, 0.55), beside)
    each = [
        table.Candidate(nic.key_of("eth0.7", name), "1", value, "what it is")
        for name, value in (("mtu", "9000"), ("tso", "off"), ("rx_usecs", "0"), ("rx_ring", "4096"))
    ]
    tried = [Tried(one, gaining) for one in each]
    assert [line for line in nic_file(tried).splitlines() if not line.startswith("#")] == [
        "ip link set dev eth0.7 mtu 9000",
        "ethtool -K eth0.7 tso off",
        "ethtool -C eth0.7 rx-usecs 0",
        "ethtool -G eth0.7 rx 4096",
    ]
    assert sysctl_file(tried) == ""
    assert nic_file([]) == ""


def test_a_device_named_after_its_address_keeps_that_to_itself() -> None:
    assert nic.public("nic.enx0123456789ab.mtu") == "nic.enx*.mtu"
    assert nic.public("nic.eth0.mtu") == "nic.eth0.mtu"


def test_of_several_values_that_gain_the_fastest_is_written() -> None:
    beside = Estimate(1.0, 0.99, 1.01)
    tried = [
        Tried(table.Candidate("k", "a", value, "what it is"), verdict(Estimate(time, time, time), beside))
        for value, time in (("b", 0.8), ("c", 0.5), ("d", 1.0))
    ]
    assert [line for line in sysctl_file(tried).splitlines() if not line.startswith("#")] == ["k = c"]


def test_only_what_gains_is_written_for_sysctl(kernel: Path) -> None:
    beside = Estimate(1.0, 0.99, 1.01)
    gaining = verdict(Estimate(0.5, 0.45, 0.55), beside)
    nothing = verdict(Estimate(1.0, 0.9, 1.1), beside)
    each = table.candidates(kernel)
    text = sysctl_file([Tried(one, gaining if one.key == "net.core.wmem_max" else nothing) for one in each])
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["net.core.wmem_max = 851968"]
    assert sysctl_file([Tried(one, nothing) for one in each]) == ""


# ------------------------------------------------------------------------------------------------------------ the log


def test_what_hung_is_known_to_the_next_search_in_the_folder(tmp_path: Path) -> None:
    start, hung, slow = Start.of("x:a=1"), Changes.of({"b": "2"}), Changes.of({"c": "3"})
    asked = Round("screen", START, (hung, slow), 1.0)
    told = {
        hung: Failed("failed", "it hangs"),
        slow: Failed("slow", "20 times"),
        START: Estimate(1.0, 0.9, 1.1),
    }
    Log(tmp_path).round(asked, told, start, 1.0)
    assert Log(tmp_path).known_failures(start) == {hung: "it hangs"}
    assert Log(tmp_path).known_failures(Start.of("x")) == {}
    lines = [json.loads(line) for line in (tmp_path / "search.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["candidate", "candidate", "candidate", "round"]
    assert lines[0]["failed"] == {"kind": "failed", "why": "it hangs"}


def test_a_damaged_list_of_failures_is_named(tmp_path: Path) -> None:
    (tmp_path / "failures.json").write_text("{")
    with pytest.raises(Failure, match=r"failures\.json is damaged"):
        Log(tmp_path).known_failures(Start.of("x"))
