# SPDX-License-Identifier: Apache-2.0
"""The daemons of layers whose ranks netpipe starts itself (process model NP_DAEMONS of module.h). The daemon of a layer
is one file or folder in this folder, named as the layer, with one class:

    @daemon
    class Layerd(Daemon): ...

It is started before the first worker that opens the layer, serves all launches of the run, and ends with it. The ranks
find it by variables in their environment, which may be others on each host.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from netpipe.libraries.starting.scratch import Scratch

FOLDERS = "netpipe-daemon-"  # how the scratch folders of daemons begin
SHORT = Path("/tmp")  # noqa: S108  where the usual place has a longer name than sockets can have
HERE = ""  # in the place of a host's name: this one

# Variables of ranks, by the name of their host and by HERE.
Contact = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Site:
    """Where the ranks of a run are, and how commands get there."""

    hosts: tuple[str, ...] = ()  # as the user named them; empty: all ranks are on this host
    address: str = ""  # of this host, that the ranks connect to; empty: all hosts are this one
    remote_shell: Path | None = None  # reaches other hosts; None: ssh
    by_shell: bool = True  # False: srun starts the ranks, and there may be no other way to their hosts


class Daemon:
    """One daemon, or all that a layer needs, private to a run."""

    title: ClassVar[str] = ""  # in sentences
    longest_folder: ClassVar[int] = 4096  # that it can put its files into, in bytes

    def start(self, folder: Path, given_up: Callable[[], bool], site: Site) -> Contact:
        """Returns the variables by which ranks find it: those of HERE, and of each host of the site. Stops waiting when
        given_up() is true. Raises Failure: 3 when something is missing or a host is not reached, 4 when it does not
        start. What was started until then `stop` ends.
        """
        raise NotImplementedError

    def alive(self) -> bool:
        raise NotImplementedError

    def last_words(self) -> str:
        """Why it ended by itself, as far as it said so; one line, or nothing."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends it, whatever state it is in, and waits for that. May be called again."""
        raise NotImplementedError


_kinds: dict[str, type[Daemon]] = {}


def daemon(kind: type[Daemon]) -> type[Daemon]:
    """Registers the daemon of the layer that its file is named after, as a class decorator."""
    _kinds[kind.__module__.rpartition(".")[2]] = kind
    return kind


def kinds() -> Mapping[str, type[Daemon]]:
    """By the name of their layer."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _kinds


class Daemons:
    """The daemons of one run."""

    def __init__(self, known: Callable[[], Mapping[str, type[Daemon]]] | None = None) -> None:
        self._known = known or kinds
        self._running: dict[str, tuple[Daemon, Scratch, Contact]] = {}

    def start(
        self, layers: Iterable[str], given_up: Callable[[], bool], site: Site | None = None
    ) -> Mapping[str, str]:
        """Starts those that these layers need and that do not run. Returns the environment of a worker of this host
        that opens these layers. Raises Failure.
        """
        variables: dict[str, str] = {}
        for layer in sorted(set(layers) & set(self._known())):
            if layer not in self._running:
                self._start(layer, given_up, site or Site())
            variables |= self._running[layer][2][HERE]
        return variables

    def variables(self, host: str) -> Mapping[str, str]:
        """By which ranks on this host, as the site names it, find those that run."""
        return {
            name: value
            for _, _, contact in self._running.values()
            for name, value in contact.get(host, {}).items()
        }

    def lost(self) -> list[str]:
        """A sentence about each daemon that ended by itself since the last call. The next start makes another."""
        sentences = []
        for layer, (one, _, _) in list(self._running.items()):
            if not one.alive():
                words = one.last_words()
                sentences.append(f"{one.title} ended during the run" + (f": {words}" if words else ""))
                self._end(layer)
        return sentences

    def close(self) -> None:
        for layer in list(self._running):
            self._end(layer)

    def _start(self, layer: str, given_up: Callable[[], bool], site: Site) -> None:
        one = self._known()[layer]()
        folder = Scratch(FOLDERS)
        if len(str(folder.path)) > one.longest_folder:
            folder.close()
            folder = Scratch(FOLDERS, SHORT)
        try:
            self._running[layer] = (one, folder, one.start(folder.path, given_up, site))
        except BaseException:
            one.stop()
            folder.close()
            raise

    def _end(self, layer: str) -> None:
        one, folder, _ = self._running.pop(layer)
        one.stop()
        folder.close()
