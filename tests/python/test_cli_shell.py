# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: it answers at once, completes words, and finds its commands by itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from netpipe import cli
from netpipe.cli.serve import instructions
from netpipe.launch import token as tokens

if TYPE_CHECKING:
    from conftest import Netpipe

HEAVY = ("polars", "scipy", "matplotlib", "plotly", "rich", "jinja2", "numpy")


def commands() -> list[str]:
    return cli.group.list_commands(click.Context(cli.group))


def test_an_interrupt_while_it_loads_ends_it_as_one_does_later(fake: Path, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", "list"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "netpipe: interrupted\n")


def test_help_loads_nothing_heavy(fake: Path) -> None:
    code = (
        "import sys; from netpipe import cli; code = cli.call(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], code, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "[] 0\n"
    for name in commands():
        assert re.search(rf"^  {name} +\w", done.stdout, re.MULTILINE), f"{name} has no summary"


@pytest.mark.parametrize("command", ["list", "suite list"])
def test_lists_load_no_numbers(fake: Path, command: str) -> None:
    some = tuple(name for name in HEAVY if name != "rich")
    code = (
        f"import sys; from netpipe import cli; code = cli.call({command.split()!r}); "
        f"print([name for name in {some!r} if name in sys.modules], code, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.splitlines()[-1] == "[] 0"


def all_commands(group: click.Group = cli.group, above: str = "") -> dict[str, click.Command]:
    """By full name, with the commands of commands; the first is netpipe itself."""
    found: dict[str, click.Command] = {above: group}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        full = f"{above} {name}".strip()
        found |= all_commands(command, full) if isinstance(command, click.Group) else {full: command}
    return found


def test_summaries_of_commands_fit_a_terminal(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    there = [name for name, command in all_commands().items() if isinstance(command, click.Group)]
    assert {"", "lab", "suite", "history", "modules", "modules add"} <= set(there)
    for name in there:
        text = netpipe(*name.split(), "--help").out
        assert max(map(len, text.splitlines())) <= 80
        assert "..." not in text.partition("Commands:")[2], name


def test_defaults_are_written_in_one_style(fake: Path) -> None:
    """Click writes [default: 3], and so do the texts of options whose default only netpipe knows."""
    for name, command in all_commands().items():
        for option in command.get_params(click.Context(command)):
            text = getattr(option, "help", None) or ""
            assert not re.search(r"Default:|  \[(?!default)", text), f"{name} {option.opts}: {text}"


def test_run_explains_itself_without_a_worker(netpipe: Netpipe, fake: Path) -> None:
    assert "--perturbation" in netpipe("run", "--help").out
    fake.unlink()
    said = netpipe("run", "--help")
    assert (said.code, said.err) == (0, "")
    words = " ".join(said.out.split())
    assert (
        "More options come from netpipe-worker, which cannot be asked: there is no netpipe-worker in" in words
    )
    assert "--pattern" in words
    assert "--perturbation" not in words
    Path("netpipe.toml").write_text('[run]\ntarget = "3%"\n')
    assert netpipe("run", "--help").code == 0
    said = netpipe("run", "tcp", "--budget", "1")
    assert said.code == 3
    assert "there is no netpipe-worker in" in said.err


def test_presets_are_told_in_the_help_and_on_the_page(netpipe: Netpipe) -> None:
    from netpipe.command.presets import PRESETS, preset_text

    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text()
    words = " ".join(netpipe("run", "--help").out.split())
    # An option whose default the default preset changes says so.
    assert " [default: adaptive] " in words
    assert "Start everything this many times [default: 4]" in words
    PRESETS["default"] = {"schedule": "adaptive", "launches": "4"}  # as it is without the fixture
    for name, options in PRESETS.items():
        assert f"| `{name}` | {f'`{preset_text(name)}`' if options else 'none'} |" in page
        assert not options or f"{name}: {preset_text(name)}" in words


@pytest.mark.parametrize("name", commands())
def test_every_command_explains_itself(netpipe: Netpipe, name: str) -> None:
    said = netpipe(name, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: netpipe {name}")


# they have pages
@pytest.mark.parametrize("name", [n for n in commands() if n not in ("doctor", "plot", "report")])
def test_the_reference_page_has_every_option(fake: Path, name: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text()
    section = next(part for part in page.split("\n## ") if f"netpipe {name}" in part.splitlines()[0])
    command = cli.group.get_command(click.Context(cli.group), name)
    assert command is not None
    for option in command.get_params(click.Context(command)):
        if isinstance(option, click.Option) and option.opts[-1] != "--help":
            assert f"`{option.opts[-1]}" in section, f"{option.opts[-1]} of netpipe {name}"


def test_variables_are_named_as_options_are(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETPIPE_LIST_JSON", "1")
    assert netpipe("list").out.startswith("{")
    monkeypatch.setenv("NETPIPE_RUN_DRY_RUN", "1")
    monkeypatch.setenv("NETPIPE_RUN_JSON", "1")
    assert netpipe("run").out.startswith("{")


def test_the_version_is_that_of_the_source(netpipe: Netpipe) -> None:
    version = (Path(__file__).resolve().parents[2] / "VERSION").read_text()
    assert netpipe("--version").out == f"netpipe {version}"


def test_alone_it_shows_its_help(netpipe: Netpipe) -> None:
    said = netpipe()
    assert said.code == 2
    assert said.out == ""
    assert "Usage: netpipe [OPTIONS] COMMAND" in said.err


def test_python_runs_it_as_a_module(fake: Path) -> None:
    arguments = [sys.executable, "-m", "netpipe", "rum"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("netpipe: there is no command 'rum'; did you mean 'run'?")


# ------------------------------------------------------------------------------------------------------ completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_one_for_its_shell(netpipe: Netpipe, tmp_path: Path, shell: str) -> None:
    said = netpipe("completion", shell)
    assert said.code == 0
    assert f"_NETPIPE_COMPLETE={shell}_complete" in said.out
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(said.out)
        subprocess.run([shell, "-n", script], check=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "last", "offered"),
    [
        ("netpipe r", 1, {"run", "report"}),
        ("netpipe run t", 2, {"tcp"}),
        ("netpipe run tcp:", 2, {"tcp:sndbuf=", "tcp:wait=", "tcp:pages="}),
        ("netpipe run tcp:sndbuf=1k,w", 2, {"tcp:sndbuf=1k,wait="}),
        ("netpipe run tcp:wait=", 2, {"tcp:wait=block", "tcp:wait=poll", "tcp:wait=hybrid"}),
        ("netpipe run tcp:sndbuf=1k,wait=poll|h", 2, {"tcp:sndbuf=1k,wait=poll|hybrid"}),
        ("netpipe run --pattern s", 3, {"stream"}),
        ("netpipe run --pattern stream:", 3, {"stream:reuse="}),
        ("netpipe run --pattern ping:", 3, set()),
        ("netpipe list s", 2, {"shm", "stream"}),
        ("netpipe run --preset q", 3, {"quick"}),
    ],
)
def test_words_are_completed(fake: Path, words: str, last: int, offered: set[str]) -> None:
    environment = {
        **os.environ,
        "_NETPIPE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(last),
    }
    code = "from netpipe.cli import main; main()"
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert {line.partition(",")[2] for line in done.stdout.split("\n") if line} == offered


def completed(line: str, shell: str) -> list[str]:
    """What netpipe answers in the environment in which the script of the shell calls it: see `netpipe completion`."""
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    number = words[-1] if shell == "fish" else str(len(words) - 1)
    variables = {
        "_NETPIPE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": number,
    }
    done = subprocess.run(
        [sys.executable, "-c", "from netpipe.cli import main; main()"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    if shell == "zsh":  # three lines each: kind, word, help
        return [word.replace("\\:", ":") for word in done.stdout.splitlines()[1::3]]
    return [said.partition(",")[2].partition("\t")[0] for said in done.stdout.splitlines() if said]


def bash_completes(line: str, tmp_path: Path) -> list[str]:
    """What a real bash offers, with its own splitting of the line into words at : and =."""
    script = tmp_path / "complete.bash"
    command = tmp_path / "netpipe"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m netpipe "$@"\n')
    command.chmod(0o755)
    # The words as readline has them: separators are words of their own.
    pieces = re.findall(r"'[^']*|[^\s:=]+|[:=]+", line)
    words = [*pieces, *([""] if line.endswith(" ") else [])]
    quoted = " ".join(shlex.quote(word) for word in words)
    script.write_text(
        "COMP_WORDBREAKS=$' \\t\\n\"\\'@><=;|&(:'\n"
        "source <(netpipe completion bash)\n"
        f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}\n"
        '_netpipe_completion\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return sorted(filter(None, done.stdout.splitlines()))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("netpipe ru", ["run"]),
        ("netpipe run t", ["tcp"]),
        pytest.param("netpipe run tcp:wa", ["wait="], marks=pytest.mark.gate),
        ("netpipe run tcp:", ["pages=", "sndbuf=", "wait="]),
        ("netpipe run tcp:wait=", ["block", "hybrid", "poll"]),
        ("netpipe run tcp:wait=po", ["poll"]),
        ("netpipe run tcp:sndbuf=1k,wait=bl", ["block"]),
        ("netpipe run 'tcp:wait=poll|h", ["tcp:wait=poll|hybrid"]),
        ("netpipe run tcp shm:wait=h", ["hybrid"]),
        ("netpipe suite run netpipe-c", ["netpipe-classic"]),
        ("netpipe run --pattern stream:re", ["reuse="]),
        ("netpipe show --variant ", ["shm:wait=poll", "tcp"]),
        ("netpipe show --variant shm:wa", ["wait=poll"]),
    ],
)
def test_bash_completes_settings(netpipe: Netpipe, tmp_path: Path, line: str, offered: list[str]) -> None:
    if "--variant" in line:
        netpipe("run", "tcp", "shm:wait=poll", "--sizes", "8")
    assert bash_completes(line, tmp_path) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_are_completed_from_the_run_file_on_the_line(netpipe: Netpipe, shell: str) -> None:
    netpipe("run", "null", "--sizes", "8")  # run.jsonl, which is not on the line
    netpipe("run", "tcp", "shm", "--pattern", "stream", "--sizes", "8", "-o", "mine.jsonl")
    netpipe("export", "mine.jsonl", "-o", "points.csv")
    netpipe("import", "points.csv", "-o", "imported.jsonl")
    for name in ("show", "plot", "export", "explain", "check", "compare"):
        assert completed(f"netpipe {name} mine.jsonl --variant ", shell) == ["tcp", "shm"], name
    assert completed("netpipe compare run.jsonl mine.jsonl --variant ", shell) == ["null", "tcp", "shm"]
    assert completed("netpipe show mine.jsonl --variant s", shell) == ["shm"]
    assert completed("netpipe show --variant ", shell) == ["null"]
    assert completed("netpipe explain --variant ", shell) == ["null"]
    assert completed("netpipe show mine.jsonl --variant tcp --pattern ", shell) == ["stream"]
    assert sorted(completed("netpipe show imported.jsonl --variant ", shell)) == ["shm", "tcp"]
    assert completed("netpipe show gone.jsonl --variant ", shell) == []


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("netpipe run mp", ["mpi", "mpi@one", "mpi@two"]),
        ("netpipe run al", ["all"]),
        ("netpipe run mpi:", ["mpi:transport=", "mpi:sndbuf=", "mpi:pages="]),
        ("netpipe run mpi:tr", ["mpi:transport="]),
        ("netpipe run mpi:transport=", ["mpi:transport=shm", "mpi:transport=tcp"]),
        ("netpipe run --launcher s", ["srun", "ssh"]),
        ("netpipe tune tcp --goal c", ["curve", "collective="]),
        ("netpipe tune tcp --launcher ss", ["ssh"]),
    ],
)
def test_names_that_stand_for_several_are_completed(
    fake: Path, monkeypatch: pytest.MonkeyPatch, line: str, offered: list[str]
) -> None:
    monkeypatch.setenv("FAKE_WORKER", "libraries")
    assert completed(line, "bash") == offered


def test_without_a_worker_nothing_is_completed_and_nothing_said(fake: Path) -> None:
    fake.unlink()
    environment = {
        **os.environ,
        "_NETPIPE_COMPLETE": "bash_complete",
        "COMP_WORDS": "netpipe run t",
        "COMP_CWORD": "2",
    }
    arguments = [sys.executable, "-c", "from netpipe.cli import main; main()"]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")


# ----------------------------------------------------------------------------------------------------------- serve


# A worker that can serve, and says with what.
TAKES = ("bind", "port", "token-file", "max-size")
KEYS = json.dumps(
    {
        "serve_options": [
            *(
                {"name": name, "metavar": "WORD", "default": f"{name} 7", "help": f"The {name}"}
                for name in TAKES
            ),
            *(
                {"name": name, "metavar": "", "default": "", "help": f"Only {name}"}
                for name in ("once", "check")
            ),
        ]
    }
)
KNOWS = f"""#!/bin/sh
[ "$1" = keys ] && echo '{KEYS}' && exit
"""
SERVES = (
    KNOWS
    + """
case "$2" in --check) echo "{}";; *) echo "$@";; esac
"""
)


def test_serve_makes_a_token_that_only_its_owner_reads(fake: Path, tmp_path: Path) -> None:
    fake.write_text(SERVES)
    for told in (True, False):  # the second time it is there
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", "serve", "--port", "0", "--max-size", "8Q", "--once"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        token = tmp_path / "config" / "netpipe" / "token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert len(token.read_text().strip()) >= 32
        assert done.stdout == f"serve --port=0 --max-size=8Q --token-file={token} --once\n"
        assert (f"a new token is in {token}" in done.stderr) is told
        assert token.read_text().strip() not in done.stderr


def test_a_server_that_cannot_start_makes_no_token(fake: Path, netpipe: Netpipe, tmp_path: Path) -> None:
    fake.write_text(KNOWS + "echo \"netpipe-worker: --port: '99999' is not a port\" >&2; exit 2\n")
    said = netpipe("serve", "--port", "99999")
    assert (said.code, said.err) == (2, "netpipe: --port: '99999' is not a port\n")
    said = netpipe("serve", "--bind", "x" * 254)
    assert (said.code, said.err) == (
        2,
        "netpipe: --bind: a host name has at most 253 characters, this one 254\n",
    )
    assert not (tmp_path / "config").exists()


def test_the_options_of_serve_are_those_of_the_worker_with_its_defaults(fake: Path, netpipe: Netpipe) -> None:
    fake.write_text(SERVES)
    helped = " ".join(netpipe("serve", "--help").out.split())
    in_order = "--bind WORD The bind [default: bind 7] --port WORD The port [default: port 7]"
    assert in_order in helped, "in the worker's order"
    assert "--once Only once." in helped
    assert "--check" not in helped
    assert "created if needed]" in helped, "this side makes a token where the worker would want one"
    assert "token-file 7" not in helped


def test_the_token_in_the_environment_is_taken(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETPIPE_TOKEN", "x" * 32)
    fake.write_text(SERVES)
    arguments = [sys.executable, "-m", "netpipe", "serve"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "serve\n"
    assert "x" * 32 not in done.stderr


@pytest.mark.parametrize(
    ("settings", "last"),
    [
        ({}, "in another terminal: netpipe run tcp --host 127.0.0.1"),
        (
            {"bind": "10.1.2.3", "port": "7"},
            "then, on the other host: netpipe run tcp --host 10.1.2.3 --port 7",
        ),
        (
            {"bind": "10.1.2.3", "token-file": "/k"},
            "then, on the other host: netpipe run tcp --host 10.1.2.3 --token-file /k",
        ),
    ],
)
def test_serve_says_what_to_run_on_the_other_host(settings: dict[str, str], last: str) -> None:
    assert instructions(settings)[-1] == last


def test_run_takes_the_token_of_this_host(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from netpipe import native
    from netpipe.session import Request, Session

    asked: list[str] = []
    answer = native.plan
    monkeypatch.setattr(native, "plan", lambda text: asked.append(text) or answer(text))

    def token_file(**settings: str) -> str | None:
        Session(Request(["tcp"], settings=settings))
        lines = dict(line.partition(" ")[::2] for line in asked[-1].splitlines())
        return lines.get("token-file")

    assert token_file(host="there") is None
    tokens.make(tokens.default_path())
    assert token_file(host="there") == str(tokens.default_path())
    assert token_file(host="there", **{"token-file": "mine"}) == "mine"
    assert token_file() is None
    monkeypatch.setenv("NETPIPE_TOKEN", "x" * 32)
    assert token_file(host="there") is None
