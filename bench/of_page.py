# SPDX-License-Identifier: Apache-2.0
"""How long a report takes to open, in a headless Chromium without a network. No peer has such a page, so the target is
a number; and beside it an empty page is opened, which says how fast the browser and the machine are at that moment.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measured import ROOT, MissingError, Result, shown

from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.render.page.page import page

sys.path.insert(0, str(ROOT / "tests" / "python"))
import browser  # type: ignore[import-not-found]
import large  # type: ignore[import-not-found]

MOST_S, MOST_BYTES = 1.0, {"default": 2 << 20, "sheet": 6 << 20}
# As netpipe run writes them: 13 variants, and all that a machine has under several patterns.
OF_A_RUN = {"sizes": 124, "launches": 4, "visits": 12, "buckets": 20}
SHAPES = {
    "default": ("default run, 13 curves", {"curves": 13, **OF_A_RUN}),
    "sheet": ("full sheet, 120 curves of 6 patterns", {"curves": 120, "patterns": 6, **OF_A_RUN}),
}
EMPTY = "<!doctype html><title>empty</title><p>empty"
# What can be clicked is there once the legend has its buttons. The first figure is drawn when it comes into view.
WATCH = """new MutationObserver(() => {
  if (window.clickable === undefined && document.querySelector("#legend button")) window.clickable = performance.now();
}).observe(document, { childList: true, subtree: true });"""
OPENED = """const of = performance.getEntriesByType("navigation")[0];
const seen = performance.getEntriesByName("first-contentful-paint")[0];
const whole = %s;
return of.loadEventEnd && seen && whole ? [seen.startTime, Math.max(of.loadEventEnd, whole)] : null;"""


def opening(rounds: int) -> list[Result]:
    """From the begin of the navigation until the first text is seen, and until the page is whole and can be clicked."""
    if browser.MISSING is not None:
        raise MissingError(browser.MISSING)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty.html").write_text(EMPTY)
        with browser.browser(folder) as window:
            window.devtools("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
            for kind, (what, shape) in SHAPES.items():
                large.write(folder / "run.jsonl", **shape)
                made = folder / "report.html"
                made.write_text(page(Reading(Run.read(folder / "run.jsonl"))))
                seen_s: list[float] = []
                whole_s: list[float] = []
                empty_s: list[float] = []
                for _ in range(max(1, rounds)):
                    window.open(made, 1280)
                    seen, whole = window.until(OPENED % "window.clickable")
                    window.open(folder / "empty.html", 1280)
                    empty = window.until(OPENED % "1")[1]
                    for times, ms in ((seen_s, seen), (whole_s, whole), (empty_s, empty)):
                        times.append(ms / 1000)
                size = made.stat().st_size
                fits = max(whole_s) <= MOST_S and size <= MOST_BYTES[kind]
                target = f"<= {MOST_S:g} s and {MOST_BYTES[kind] >> 20} MiB"
                for event, times, wanted, met in (
                    ("first text seen", seen_s, "none", True),
                    ("whole, and can be clicked", whole_s, target, fits),
                ):
                    figure = f"{size / 2**20:.2f} MiB"
                    row = (shown(times, 3, " s"), shown(empty_s, 3, " s"), figure, wanted, met)
                    results.append(Result("page", f"report of a {what}: {event}", *row))
    return results


COMPARISONS = {"page": opening}
