# SPDX-License-Identifier: Apache-2.0
"""The modules of the report's script, and the one script that they become."""

from __future__ import annotations

import re

from netpipe.render.page.script import bundled
from netpipe.render.page.template import TEMPLATES

SCRIPTS = {path.stem: path.read_text() for path in (TEMPLATES / "report").glob("*.js")}
IMPORTED = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";$', re.MULTILINE)


def test_the_modules_of_the_script_use_what_they_import_and_declare_each_name_once() -> None:
    declared = re.compile(r"^(export )?(?:async )?(?:function|const|let) (\w+)", re.MULTILINE)
    names = [name for text in SCRIPTS.values() for _, name in declared.findall(text)]
    assert len(names) > 40
    assert len(set(names)) == len(names)
    for text in SCRIPTS.values():
        body = IMPORTED.sub("", text)
        for several, module in IMPORTED.findall(text):
            exported = {name for export, name in declared.findall(SCRIPTS[module]) if export}
            assert set(several.split(", ")) <= exported
            assert all(re.search(rf"\b{name}\b", body) for name in several.split(", "))


def test_the_script_has_each_module_behind_those_that_it_needs() -> None:
    made = bundled("report", "report")
    assert not re.search("^(import|export) ", made, re.MULTILINE)
    idea = {name: text.splitlines()[1] for name, text in SCRIPTS.items()}
    assert all(made.count(line) == 1 for line in idea.values())
    for name, text in SCRIPTS.items():
        for _, module in IMPORTED.findall(text):
            assert made.index(idea[module]) < made.index(idea[name])
