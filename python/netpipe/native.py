# SPDX-License-Identifier: Apache-2.0
"""Finds netpipe-worker and asks it what it knows: modules, patterns, their options, the keys of a plan, exit codes.
None of that is written down in Python again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from netpipe.failure import DONE, FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.remembered import once

WORKER = "netpipe-worker"
ANSWER_S = 30.0  # most answers take milliseconds, but probing a library may take seconds


def prefixes() -> list[tuple[Path, str]]:
    """Prefixes (folders with bin/ and lib/netpipe/modules) where the native part may be, in the order of the search,
    each with the reason for looking there.
    """
    chosen = os.environ.get("NETPIPE_NATIVE")
    if chosen:
        return [(Path(chosen), "NETPIPE_NATIVE")]
    package = Path(__file__).resolve().parent
    found = [(package / "_native", "the installed package")]
    source = package.parents[1]
    if (source / "CMakeLists.txt").is_file():
        found.append((source / "build", "the source checkout"))
    return found


def worker() -> Path:
    """The path of netpipe-worker. Raises Failure (3) if it is not found."""
    looked = prefixes()
    for prefix, _ in looked:
        path = prefix / "bin" / WORKER
        if path.is_file() and os.access(path, os.X_OK):
            return path
    places = " nor in ".join(f"{prefix / 'bin'} ({why})" for prefix, why in looked)
    remedy = (
        "correct NETPIPE_NATIVE or unset it"
        if os.environ.get("NETPIPE_NATIVE")
        else "build it with 'make build', install it with 'pip install .', or set NETPIPE_NATIVE to its prefix"
    )
    raise Failure(UNAVAILABLE, f"there is no {WORKER} in {places}; {remedy}")


def said(stderr: str) -> str:
    """The sentences of a worker's standard error as one line, without its name in front of them."""
    lines = [line.strip().removeprefix(f"{WORKER}:").strip() for line in stderr.splitlines()]
    return "; ".join(line for line in lines if line)


def how_it_ended(returncode: int, stderr: str) -> str:
    """The end of a worker as a sentence. A `returncode` below 0 is a signal, as in subprocess."""
    if returncode < 0:
        try:
            ended = f"was killed by {signal.Signals(-returncode).name}"
            if returncode == -signal.SIGKILL:
                ended += " (out of memory, or by the watchdog of a module that blocks signals)"
        except ValueError:
            ended = f"was killed by signal {-returncode}"
    else:
        ended = f"ended with exit code {returncode}"
    words = said(stderr)
    return f"{WORKER} {ended}" + (f": {words[-2000:]}" if words else "")


def ask(arguments: Sequence[str], text: str = "") -> Any:
    """Asks the worker and returns its JSON. Raises Failure with the worker's own sentence and exit code."""
    command = (str(worker()), *arguments)
    answer = once((*command, text), lambda: _answer(command, text))
    try:
        return json.loads(answer)
    except ValueError:
        raise Failure(
            FAILED,
            f"{WORKER} {arguments[0]} returned invalid JSON: {answer[:80]!r}; "
            f"is {command[0]} the same version as this netpipe?",
        ) from None


def _answer(command: Sequence[str], text: str) -> bytes:
    """What the worker prints. Raises Failure."""
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise Failure(FAILED, f"{WORKER} {command[1]} did not answer within {ANSWER_S:.0f} s") from None
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{command[0]} cannot be started: {error.strerror}") from None
    stderr = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        words = said(stderr)
        if USAGE <= done.returncode <= FAILED and words:
            raise Failure(done.returncode, words)
        raise Failure(FAILED, how_it_ended(done.returncode, stderr))
    return done.stdout


def keys() -> dict[str, Any]:
    """What needs no module: the keys of a plan, the options that all variants and patterns have, exit codes in rising
    severity, the words of waiting, where modules are looked for. `netpipe-worker keys`, within milliseconds.
    """
    answer: dict[str, Any] = ask(["keys"])
    return answer


def default_of(name: str) -> str | None:
    """What a plan without this key has; None: nothing. Raises KeyError for an unknown key."""
    defaults: dict[str, str | None] = {key["name"]: key["default"] for key in keys()["plan_keys"]}
    return defaults[name]


def worst(codes: Iterable[int]) -> int:
    """The most serious of these exit codes; DONE if there are none. An unknown code counts as a failure."""
    severity = [code["code"] for code in keys()["exit_codes"]]
    return max((code if code in severity else FAILED for code in (DONE, *codes)), key=severity.index)


def list_(module_files: Sequence[str] = ()) -> dict[str, Any]:
    """The same, and all modules (those of the files too) and patterns with their options: `netpipe-worker list`."""
    answer: dict[str, Any] = ask(["list", *module_files])
    return answer


def plan(text: str) -> dict[str, Any]:
    """Checks and resolves a plan: `netpipe-worker plan`. `text` as in docs/reference/worker.md."""
    answer: dict[str, Any] = ask(["plan"], text)
    return answer


def place(pin: str, ranks: int) -> dict[str, Any]:
    """The processors of a program's ranks on this host: `netpipe-worker place`. `pin` as --pin takes it."""
    answer: dict[str, Any] = ask(["place", pin, str(ranks)])
    return answer


def environment() -> dict[str, Any]:
    """The facts of this host: `netpipe-worker environment`."""
    answer: dict[str, Any] = ask(["environment"])
    return answer
