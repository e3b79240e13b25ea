// SPDX-License-Identifier: Apache-2.0
// The tools above the figures of curves: the baseline, the axis of values, the download.
import { choices } from "./choices.js";
import { ofValues } from "./curves.js";
import { data, unpacked } from "./data.js";
import { drawAll } from "./drawing.js";

export function beginTools() {
  const select = document.getElementById("choose-baseline");
  const own = data.curves.map((curve, place) => [curve, place]).filter(([curve, place]) => !curve.other
    && Object.entries(data.figures).every(([name, figure]) => !ofValues(name) || figure.lines.some((line) => line.curve === place && line.joined)));
  select.replaceChildren(new Option("none", "-1"), ...own.map(([curve, place]) => new Option(curve.label, String(place))));
  select.addEventListener("change", () => { choices.baseline = Number(select.value); drawAll(); });
  const axes = document.getElementById("turn-axes");
  axes.addEventListener("click", () => {
    choices.turned = !choices.turned;
    axes.setAttribute("aria-pressed", String(choices.turned));
    drawAll();
  });
  const download = document.getElementById("download");
  if (download) download.addEventListener("click", async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([await unpacked("points-csv")], { type: "text/csv" }));
    link.download = "points.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  document.getElementById("tools").hidden = false;
}
