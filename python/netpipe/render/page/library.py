# SPDX-License-Identifier: Apache-2.0
"""plotly.js as a page carries it: only what the pages draw with, compressed.

The library that the plotly package brings is 4.8 MB, two thirds of which draw maps, in three dimensions or kinds of
plots that no page has. It is a bundle of modules that call each other by name, `var NAME=W((exports, module)=>{...})`,
and its last one registers the kinds of plots. With only those that are used registered there, the modules that nothing
reaches are left out: 1.2 MB, or 0.5 MB compressed and as text. A bundle that is built in another way is taken whole,
and a test draws pages with what is left (tests/python/test_report.py).
"""

from __future__ import annotations

import functools
import re

from netpipe.render.page.block import packed

KINDS = frozenset({"heatmap"})  # besides scatter, which is always there
_MODULE = re.compile(r"var ([\w$]+)=W\((?:\(|[\w$]+=>)")
_CALL = re.compile(r"(?<![\w$.])([\w$]+)\(\)")
_KIND = re.compile(r'moduleType:"trace",name:"(\w+)"|name:"(\w+)",[^}]*?moduleType:"trace"')
_REGISTERED = re.compile(r"register\(\[([^\]]*)\]\)")


@functools.cache
def compressed() -> str:
    """What a page needs of the library."""
    from plotly.offline import get_plotlyjs

    return packed(reduced(get_plotlyjs()).encode())


def reduced(library: str) -> str:
    """The library without the modules that KINDS do not need; the whole library where its modules cannot be told."""
    found = list(_MODULE.finditer(library))
    if not found:
        return library
    ends = [one.start() for one in found[1:]] + [len(library)]
    head = library[: found[0].start()]
    modules = {one[1]: library[one.start() : end] for one, end in zip(found, ends, strict=True)}
    _, tail = modules.popitem()
    calls = {name: {one for one in _CALL.findall(text) if one in modules} for name, text in modules.items()}
    registered = _REGISTERED.search(tail)
    if registered is None or len(modules) + 1 != len(found):
        return library

    def kind(name: str) -> str | None:
        for one in (name, *calls[name]):
            if told := _KIND.search(modules[one]):
                return told[1] or told[2]
        return None

    kinds = {kind(name): name for name in _CALL.findall(registered[1]) if name in modules}
    if not kinds.keys() >= KINDS:
        return library
    chosen = ",".join(f"{kinds[one]}()" for one in sorted(KINDS))
    tail = tail.replace(registered[0], f"register([{chosen}])")
    # Behind some modules stands code that belongs to none and that others use, in part wrapped by Ea(): they stay, but
    # for the library of maps.
    maps = {name for name, text in modules.items() if "maplibre" in text}
    shared = [
        name
        for name, text in modules.items()
        if (not text.endswith("});") or "=Ea(" in text) and not maps & {name, *calls[name]}
    ]
    needed: set[str] = set()
    wanted = [one for one in _CALL.findall(head + tail) if one in modules] + shared
    while wanted:
        name = wanted.pop()
        if name not in needed:
            needed.add(name)
            wanted += calls[name]
    return head + "".join(text for name, text in modules.items() if name in needed) + tail
