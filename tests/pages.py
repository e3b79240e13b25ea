# SPDX-License-Identifier: Apache-2.0
"""Pages as a browser reads them, and text that tries to become part of one."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from typing import Any

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script> {{7*7}} {% raw %} ]]> \u2028 &amp;"


class Page(HTMLParser):
    """A page as a browser reads it: elements, what they point to, and the text of those that show any."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.shown: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)
            if tag == "script":
                self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.shown.append(data)
        elif self._inside[-1] == "script":
            self.scripts[-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.shown).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    def data(self) -> dict[str, Any]:
        place = [attributes.get("id") for name, attributes in self.elements if name == "script"].index("data")
        return whole(self.scripts[place])


def data_of(page: str) -> dict[str, Any]:
    """What the scripts of a report draw."""
    data = re.search(r'<script type="application/gzip" id="data">(.*?)</script>', page)
    assert data
    return whole(data[1])


def whole(block: str) -> dict[str, Any]:
    """As report/data.js puts it together again."""
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(block)))
    lines = [line for figure in data["figures"].values() for line in figure["lines"]]
    views = [*data["yardsticks"], *(view for panel in data["panels"] for view in panel["views"])]
    lines += [line for view in views for line in view.get("series", ())]
    arrays = data.pop("arrays")
    for line in lines:
        line.update({key: arrays[line[key]] for key in ("size", "x", "y", "low", "high") if key in line})
    return data
