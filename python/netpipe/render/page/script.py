# SPDX-License-Identifier: Apache-2.0
"""The script of a page. It is written as modules, one idea a file, and a page is one file: there they stand one after
another in one scope, each behind those that it imports. So no name may be declared by two of them.
"""

from __future__ import annotations

import re

from netpipe.render.page.template import text_of

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def bundled(folder: str, first: str) -> str:
    """A module of a folder beside the templates, with all that it imports, as one script."""
    made: dict[str, str] = {}

    def add(name: str) -> None:
        text = text_of(f"{folder}/{name}.js")
        for needed in _IMPORT.findall(text):
            if needed not in made:
                add(needed)
        made[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    add(first)
    return f'(() => {{\n"use strict";\n{"".join(made.values())}}})();\n'
