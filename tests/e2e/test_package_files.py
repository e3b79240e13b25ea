# SPDX-License-Identifier: Apache-2.0
"""The files in packaging/ that are made from the commands, or that call them."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT

SHELL = ROOT / "packaging" / "shell"
FILES = ("netpipe.1", "netpipe.bash", "_netpipe", "netpipe.fish")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", SHELL / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_what_the_commands_make_of_it(generate: ModuleType, worker: Path, name: str) -> None:
    made = generate.files()
    assert set(made) == set(FILES)
    assert (SHELL / name).read_text(encoding="utf-8") == made[name], (
        "a command has changed: python packaging/shell/generate.py"
    )


def test_the_man_page_has_every_command_and_no_error() -> None:
    text = (SHELL / "netpipe.1").read_text(encoding="utf-8")
    for name in ("run", "lab up", "lab exec", "suite run", "modules add", "history show"):
        assert re.search(rf"^\.SS netpipe {name} ", text, re.MULTILINE), name
    if (groff := shutil.which("groff")) is None:
        pytest.skip("groff, which would read the page, is not installed (apt install groff-base)")
    command = [groff, "-man", "-Tutf8", "-ww", "-z", SHELL / "netpipe.1"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert said.stderr == ""


@pytest.mark.parametrize(
    ("shell", "name"), [("bash", "netpipe.bash"), ("zsh", "_netpipe"), ("fish", "netpipe.fish")]
)
def test_a_completion_is_a_script_of_its_shell(shell: str, name: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n", SHELL / name], check=True, timeout=60)


@pytest.mark.deep
def test_the_workflow_gates_on_a_run(tmp_path: Path) -> None:
    """Its commands, in the order in which the main branch and then a pull request would run them."""
    text = (ROOT / "packaging" / "github" / "performance.yml").read_text(encoding="utf-8")
    commands = [shlex.split(words) for words in re.findall(r"run: \.venv/bin/netpipe (.*)", text)]
    by_name = {words[0]: words for words in commands}
    assert set(by_name) == {"run", "check", "history"}

    def call(*words: str) -> int:
        environment = {**os.environ, "NETPIPE_HISTORY": str(tmp_path / "history")}
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        print(done.stdout, done.stderr)
        return done.returncode

    assert call(*by_name["run"]) == 0
    assert call(*by_name["history"]) == 0
    assert call(*by_name["run"]) == 0
    assert call(*by_name["check"]) in (0, 1)
    # A layer that is slower by far: as if the change had made it so.
    slower = ["tcp:wait=block" if word == "tcp:wait=poll" else word for word in by_name["run"]]
    assert call(*slower) == 0
    renamed = (tmp_path / "run.jsonl").read_text().replace("tcp:wait=block", "tcp:wait=poll")
    (tmp_path / "run.jsonl").write_text(renamed)
    assert call(*by_name["check"]) == 1
