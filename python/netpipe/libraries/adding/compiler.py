# SPDX-License-Identifier: Apache-2.0
"""Which library a compiler is for, and which version. The library's header tells, so only the preprocessor runs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries import Family, Header, families
from netpipe.libraries.adding.layers import Layer
from netpipe.libraries.starting.scratch import Scratch
from netpipe.remembered import once

LIMIT_S = 120.0  # for one call of a compiler: the first one over a network file system is slow


WORD = "netpipe_found_library"  # marks our line among those of the header


@dataclass(frozen=True, slots=True)
class Library:
    compiler: Path
    family: Family
    version: str  # "4.1.4"
    environment: Mapping[str, str] = field(default_factory=dict)  # that this compiler works in

    @property
    def title(self) -> str:
        return f"{self.family.title} {self.version}"


def signs(layer: Layer) -> list[tuple[Family, Header]]:
    """How the layer's families are told apart, in the order in which to look."""
    return [(family, header) for family in families(layer.families) for header in family.headers]


def probe(layer: Layer) -> str:
    """C whose preprocessed text names the first family whose macro is defined, and the version."""
    lines = [f"#include <{layer.header}>"]
    tests = []
    for place, (family, header) in enumerate(signs(layer)):
        if header.include:
            lines += [f"#ifdef {header.macro}", f"#include <{header.include}>", "#endif"]
        tests += [f"#{'el' if place else ''}if defined {header.macro}"]
        tests += [f"{WORD} {family.name} {' '.join(header.version)}"]
    return "\n".join([*lines, *tests, "#endif", ""])


def settle(compiler: Path) -> Path:
    """An absolute path that still means this library when the host's alternatives change: /usr/bin/mpicc becomes
    /usr/bin/mpicc.openmpi, but not opal_wrapper, which would not know what to compile.
    """
    names = tuple(name for family in families() for name in family.compilers)
    path = settled = compiler.absolute()
    for _ in range(16):  # a longer chain is a loop
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        if path.name.startswith(names):
            settled = path
    return settled


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, limit_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """The output of a compiler or another tool. Raises Failure (3) if it does not start or does not end."""
    limit_s = limit_s or LIMIT_S
    words = [str(word) for word in command]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {}), "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        raise Failure(UNAVAILABLE, f"cannot start {words[0]}: {error.strerror}") from None
    with process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise Failure(UNAVAILABLE, f"{words[0]} was still running after {limit_s:g} s") from None
        finally:
            # Most are scripts: what they started holds our pipes, and would survive an interrupt.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def condensed(stderr: str) -> str:
    """The line that matters of a tool's output: its first error, else its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    marks = ("error:", "cannot find", "undefined reference", "not found", "No such file")
    errors = [line for line in lines if any(mark in line for mark in marks)]
    return (errors or lines[-1:] or ["it said nothing"])[0][:300]


def identify(
    layer: Layer, compiler: Path, environment: Mapping[str, str] | None = None, limit_s: float | None = None
) -> Library:
    """Raises Failure: 2 if it does not compile for this layer, 3 if it does not work."""
    what = f"the {layer.compiler} of a library for {layer.title}"
    if not compiler.exists():
        raise Failure(USAGE, f"{compiler} does not exist; name {what} (netpipe doctor finds them)")
    if not compiler.is_file() or not os.access(compiler, os.X_OK):
        raise Failure(USAGE, f"{compiler} is not a program; name {what}")
    environment = {**whereabouts(compiler), **(environment or {})}
    question = ("identify", layer.name, str(compiler), *environment.items())
    return once(question, lambda: _identify(layer, compiler, environment, limit_s))


def _identify(layer: Layer, compiler: Path, environment: Mapping[str, str], limit_s: float | None) -> Library:
    # Not from standard input: LAM's wrapper passes only files to the compiler.
    with Scratch("netpipe-compiler-") as folder:
        source = folder / "probe.c"
        source.write_text(probe(layer))
        done = run([compiler, "-E", source], environment, limit_s)
    # The preprocessor puts a macro of a system header on a line of its own, behind one that says where it is from.
    text = " ".join(line for line in done.stdout.splitlines() if not line.startswith("#"))
    found = text.partition(WORD)[2].replace('"', "").split()
    name, *parts = found or [""]
    family = next((one for one in families(layer.families) if one.name == name), None)
    if family is not None:
        return Library(settle(compiler), family, ".".join(parts), environment)
    if done.returncode != 0 and lacks(layer.header, done.stderr):
        raise Failure(
            USAGE,
            f"{compiler} finds no {layer.header}: it is not a compiler for {layer.title}, or its headers are not "
            f"installed{f' ({layer.get})' if layer.get else ''}",
        )
    if done.returncode != 0:
        raise Failure(UNAVAILABLE, f"{compiler} does not work: {condensed(done.stderr)}")
    raise Failure(USAGE, f"{compiler} is not a compiler for {layer.title}: it preprocesses C to nothing")


def lacks(header: str, stderr: str) -> bool:
    """Whether GCC, Clang or Intel's compiler says that it is this header that is missing."""
    name = re.escape(header)
    sign = rf"{name}: No such file|'{name}' file not found|open source file \"{name}\""
    return re.search(sign, stderr) is not None


def whereabouts(compiler: Path) -> dict[str, str]:
    """The environment for a compiler that has to be told where it is."""
    prefix = compiler.absolute().parent.parent
    found: dict[str, str] = {}
    for family in families():
        if family.marker and (prefix / family.marker).is_file():
            found |= family.environment(prefix)
    return found


def shown(library: Library) -> list[str]:
    """The command that this compiler stands for; [] if it does not say."""
    import shlex

    for question in ("-show", "-showme"):
        done = run([library.compiler, question], library.environment)
        words = shlex.split(done.stdout.strip()) if done.returncode == 0 else []
        if len(words) > 1:
            return words
    return []
