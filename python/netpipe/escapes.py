# SPDX-License-Identifier: Apache-2.0
"""Control characters in foreign text, made visible. The names, reasons and messages in a run file may come from another
host. A terminal would obey an escape sequence in them, XML does not allow it, and a reversed direction of writing
hides what a line says.

Every renderer does this at the one place where its text leaves: the console, the page, the figure, the table.
"""

from __future__ import annotations

import re

# breaks a line, or turns its direction
_WRITING = r"\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_WRITING}\ud800-\udfff\ufffe\uffff]")
_BEYOND_ASCII = re.compile(rf"[\x7f-\x9f{_WRITING}]")


def printable(text: str) -> str:
    r"""The text with \x1b in place of an escape character, and so on. Tabs and line feeds stay."""
    if text.isascii() and text.isprintable():  # nearly all
        return text
    return _CONTROL.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def printable_json(text: str) -> str:
    """The same value as JSON text without raw control characters. An encoder leaves those beyond ASCII as they are."""
    return _BEYOND_ASCII.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
