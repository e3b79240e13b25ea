# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: it answers at once, completes words, and finds its commands by itself."""

from __future__ import annotations

import os
import re
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


@pytest.mark.parametrize("name", commands())
def test_every_command_explains_itself(netpipe: Netpipe, name: str) -> None:
    said = netpipe(name, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: netpipe {name}")


@pytest.mark.parametrize(
    "name", [n for n in commands() if n not in ("doctor", "plot", "report")]
)  # they have pages
def test_the_reference_page_has_every_option(name: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text()
    section = next(part for part in page.split("\n## ") if f"netpipe {name}" in part.splitlines()[0])
    command = cli.group.get_command(click.Context(cli.group), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option):
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
        ("netpipe run tcp:", 2, {"tcp:sndbuf=", "tcp:wait="}),
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


def test_serve_makes_a_token_that_only_its_owner_reads(fake: Path, tmp_path: Path) -> None:
    fake.write_text('#!/bin/sh\necho "$@"\n')
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
        assert done.stdout == f"serve --port=0 --token-file={token} --max-size=8Q --once\n"
        assert (f"a new token is in {token}" in done.stderr) is told
        assert token.read_text().strip() not in done.stderr


def test_the_token_in_the_environment_is_taken(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETPIPE_TOKEN", "x" * 32)
    fake.write_text('#!/bin/sh\necho "$@"\n')
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
