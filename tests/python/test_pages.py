# SPDX-License-Identifier: Apache-2.0
"""Every pattern and every layer has its page, pages that list some list those that there are, and no link is dead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PATTERNS = sorted(path.stem for path in (ROOT / "src" / "patterns").glob("*.cpp"))
LAYERS = sorted(path.parent.name for path in (ROOT / "src" / "modules").glob("*/module.toml"))


def test_there_are_patterns_and_layers() -> None:
    assert {"pingpong", "collective"} <= set(PATTERNS)
    assert {"tcp", "mpi"} <= set(LAYERS)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_has_a_section_and_a_row(pattern: str) -> None:
    text = (DOCS / "patterns.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert pattern in {name for heading in headings for name in heading.split(", ")}, "write what it does"
    assert f"\n| `{pattern}` | " in text, "add it to the table"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_has_a_page(layer: str) -> None:
    assert (DOCS / "modules" / f"{layer}.md").read_text(encoding="utf-8").startswith(f"# {layer}")


@pytest.mark.parametrize("layer", LAYERS)
def test_the_page_of_patterns_knows_which_layers_have_empty_messages(layer: str) -> None:
    """Their modules set `empty` in their limits, themselves or in the kit that they share."""
    folder = ROOT / "src" / "modules"
    text = "".join(path.read_text(encoding="utf-8") for path in (folder / layer).rglob("*.[ch]*"))
    if '"kit/services/queued.h"' in text:
        text += (folder / "kit" / "services" / "queued.h").read_text(encoding="utf-8")
    page = (DOCS / "patterns.md").read_text(encoding="utf-8").partition("## Empty messages")[2]
    those, others = page.partition("\n## ")[0].split("A stream of bytes")
    has = "limits->empty = " in text
    assert (f"`{layer}`" in those, f"`{layer}`" in others) == (has, not has)


# ------------------------------------------------------------------------------------------------------------- links

PAGES = sorted(
    [*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```|^ {4}.*?$", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """Without blocks of code."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Of its headings, as GitHub makes them: a name that occurs again has a number."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#+ (.*)", prose(path), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith(("https:", "http:", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = page if not file else page.parent / file
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
