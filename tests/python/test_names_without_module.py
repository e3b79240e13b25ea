# SPDX-License-Identifier: Apache-2.0
"""Names that a user may give although no module has them: layers of the papers, and the model of a link."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netpipe import theory
from netpipe.launch.discontinued import NAMES, PAGE

if TYPE_CHECKING:
    from conftest import Netpipe

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_every_layer_whose_hardware_is_gone() -> None:
    text = (ROOT / PAGE).read_text().lower()
    assert [name for name in sorted(NAMES) if f"| {name} " not in text] == []


@pytest.mark.parametrize("words", [("run", "gm:recv=hybrid"), ("run", "tcp", "gm"), ("list", "gm")])
def test_a_layer_whose_hardware_is_gone_is_not_taken_for_a_slip_of_the_pen(
    netpipe: Netpipe, words: tuple[str, ...]
) -> None:
    said = netpipe(*words)
    assert (said.code, said.err) == (
        2,
        f"netpipe: there is no module 'gm': its hardware is gone; {PAGE} says which layer carries its idea today\n",
    )
    assert "did you mean 'tcp'?" in netpipe("list", "tpc").err


def test_the_settings_of_the_model_are_listed(netpipe: Netpipe) -> None:
    said = netpipe("list", "theory")
    assert (said.code, said.err) == (0, "")
    page = (ROOT / "docs" / "modules" / "theory.md").read_text()
    for one in theory.settings():
        assert one["help"] in said.out
        assert f"| `{one['name']}` |" in page
        more = {"rate": "", "header": ",rate=1g,mtu=1460"}.get(one["name"], ",rate=1g")
        theory.parse(f"theory:{one['name']}={one['example']}{more}")
    both = netpipe("list", "tcp", "theory:rate=10g").out
    assert both.index("tcp: made-up") < both.index("theory: what a link would do")
    assert json.loads(netpipe("list", "theory", "--json").out)["theory"] == theory.settings()
    assert netpipe("list", "theorie").err.endswith("did you mean 'theory'?\n")
