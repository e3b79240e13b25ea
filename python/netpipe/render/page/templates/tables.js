// SPDX-License-Identifier: Apache-2.0
// The tables of the report: those in closed folds become elements when they are opened, and all of them sort.
"use strict";

// A click on the name of a column sorts its table: by numbers with their units, else by words; what is not known stands last.
(() => {
  const units = {
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, ns: 1, "µs": 1e3, ms: 1e6, s: 1e9,
    bps: 1, kbps: 1e3, Mbps: 1e6, Gbps: 1e9, Tbps: 1e12,
  };
  const unit = /(?:^|[^A-Za-zµ])(B|[KMGT]iB|ns|µs|ms|s|[kMGT]?bps)(?![A-Za-z])/;

  function number(text) {
    const plain = text.replace(/[\u202f\u2009]/g, "").replace(/^[<>~±]\s*/, "");
    const found = plain.match(/^-?\d+(\.\d+)?/);
    if (!found) return NaN;
    const of = plain.match(unit);
    const more = plain.match(/^[\d.]+ [KMGT]?i?B([+-]\d+)/);  // 64 KiB+3
    return Number(found[0]) * (of ? units[of[1]] : 1) + (more ? Number(more[1]) : 0);
  }

  function sort(table, place) {
    const head = table.tHead.rows[0].cells[place];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => {
      const text = (row.cells[place] || {}).textContent || "";
      return { row, text, number: number(text), empty: text.trim() === "" || text.trim() === "–" };
    });
    const numbers = rows.every((one) => one.empty || !Number.isNaN(one.number));
    const order = (a, b) => (numbers ? a.number - b.number : a.text.localeCompare(b.text, "en", { numeric: true }));
    rows.sort((a, b) => a.empty - b.empty || (a.empty ? 0 : down ? order(b, a) : order(a, b)));
    table.tBodies[0].append(...rows.map((one) => one.row));
  }

  function sortable(within) {
    within.querySelectorAll(".scroll > table:not(.stack)").forEach((table) => {
      [...table.tHead.rows[0].cells].forEach((head, place) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        button.addEventListener("click", () => sort(table, place));
        head.append(button);
      });
    });
  }

  // A hundred thousand cells take longer to read than the rest of the page. Where scripts run, a noscript element is one text, so what is in a
  // fold costs nothing until it is opened; where none run it is there as ever.
  function unfold(kept) {
    const made = document.createElement("template");
    made.innerHTML = kept.textContent;
    sortable(made.content);
    kept.replaceWith(made.content);
  }

  sortable(document);
  document.querySelectorAll("details > noscript").forEach((kept) => {
    const fold = kept.parentNode;
    if (fold.open) unfold(kept);
    else fold.addEventListener("toggle", () => unfold(kept), { once: true });
  });
})();
