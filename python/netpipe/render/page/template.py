# SPDX-License-Identifier: Apache-2.0
"""What all pages have in common: their templates, and how foreign text and tables get into them.

Whatever comes from a file that is shown is text: a template escapes it, control characters too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from netpipe.escapes import printable

if TYPE_CHECKING:
    from jinja2 import Template

    from netpipe.render.page.tables import Table

TEMPLATES = Path(__file__).parent / "templates"
_BETWEEN = "\x1f"  # in no text that is printable


def template(name: str) -> Template:
    """The template of a page. It has the filter `rows`, for the body of a table."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["rows"] = _rows
    return environment.get_template(name)


def text_of(name: str) -> str:
    """A file beside the templates that goes into a page as it is: styles and scripts."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _visible(value: Any) -> Any:
    """What a template prints; plain texts without control characters. The subclass of str is markup, already safe."""
    return printable(value) if type(value) is str else value


def _rows(table: Table) -> Markup:
    """The body of a table. A template takes ten times as long, and there are tables of a hundred thousand cells. HTML
    ends a cell and a row where the next one begins; end tags were more than a quarter of the bytes of a large table.
    """
    opening = ['<td class="w">' if column.left else "<td>" for column in table.columns]
    lines = []
    for place, row in enumerate(table.rows):
        cells = str(escape(_BETWEEN.join(map(printable, row)))).split(_BETWEEN)
        faint = table.faint and table.faint[place]
        lines.append('<tr class="faint">\n' if faint else "<tr>\n")
        lines += [f"{tag}{cell}" for tag, cell in zip(opening, cells, strict=True)]
    return Markup("".join(lines))  # noqa: S704  (escaped above)
