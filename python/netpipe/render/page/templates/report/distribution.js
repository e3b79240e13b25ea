// SPDX-License-Identifier: Apache-2.0
// The distribution of the times of one curve at one size.
import { choices } from "./choices.js";
import { data } from "./data.js";
import { begin, changed } from "./drawing.js";
import { color, config, css, fade, layout } from "./looks.js";

function timeText(ns) {
  const [step, unit] = ns >= 999.5e6 ? [1e9, "s"] : ns >= 999.5e3 ? [1e6, "ms"] : ns >= 999.5 ? [1e3, "µs"] : [1, "ns"];
  return Number((ns / step).toPrecision(3)) + " " + unit;
}

function timeTicks(low, high) {
  const found = [];
  const wide = high / low > 50;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of wide ? [1] : high / low > 4 ? [1, 2, 5] : [1, 1.2, 1.4, 1.7, 2, 2.5, 3, 4, 5, 6, 7, 8]) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) found.push([value, timeText(value)]);
    }
  }
  return found;
}

function drawDistribution() {
  const host = document.getElementById("plot-distribution");
  const of = (data.histograms[choices.curve] || {})[choices.size];
  if (!of) {
    document.getElementById("modes").textContent = "";
    Plotly.purge(host);
    host.replaceChildren(document.createTextNode("No distribution was recorded."));
    host.className = "plot hint";
    return;
  }
  if (host.className !== "plot") {
    host.replaceChildren();
    host.className = "plot";
  }
  const total = of.count.reduce((sum, count) => sum + count, 0);
  const share = of.count.map((count) => (100 * count) / total);
  const floor = 50 / total;  // half of one operation, in percent: where a logarithmic bar can stand
  const ink = color(choices.curve);
  const x = [], y = [];
  of.low.forEach((low, i) => {
    x.push(low, low, low * of.factor, low * of.factor, null);
    y.push(floor, share[i], share[i], floor, null);
  });
  const top = Math.max(...share) * 1.6;
  const left = Math.min(of.low[0], of.marks[0][1]) / of.factor;
  const right = Math.max(of.low[of.low.length - 1] * of.factor, ...of.marks.map((mark) => mark[1])) * of.factor;
  const what = of.what;
  const ticksY = [100, 10, 1, 0.1, 0.01, 0.001, 0.0001].filter((value) => value >= floor && value <= top).map((value) => [value, value + " %"]);
  const looks = layout(host,
    { log: true, range: [left, right], ticks: timeTicks(left, right), label: "time of one operation (" + total + " " + what + ")" },
    { log: true, range: [floor, top], ticks: ticksY, label: "" });
  const marks = of.marks;
  // Each below the one before, so that near ones do not meet; on the right its text stands to the left of its line.
  looks.annotations = marks.map(([label, at], i) => {
    const far = Math.log(at / left) > 0.7 * Math.log(right / left);
    return {
      x: Math.log10(at), y: Math.log10(top), text: label + " " + timeText(at), showarrow: false, yanchor: "top",
      xanchor: far ? "right" : "left", xshift: far ? -3 : 3, yshift: -15 * i,
      font: { size: 11, color: css("--soft") }, bgcolor: fade(css("--page"), 0.75), borderpad: 0,
    };
  });
  document.getElementById("modes").textContent = of.modes.length ? of.modes.length + " modes: " + of.modes.join(", ") + "." : "";
  Plotly.react(host, [
    { type: "scatter", mode: "lines", x, y, fill: "toself", fillcolor: fade(ink, 0.35), line: { color: ink, width: 1 }, hoverinfo: "skip" },
    ...marks.map(([, at]) => ({ type: "scatter", mode: "lines", x: [at, at], y: [floor, top], hoverinfo: "skip",
      line: { color: css("--soft"), width: 1, dash: "5px,3px" } })),
    { type: "scatter", mode: "markers", x: of.low.map((low) => low * Math.sqrt(of.factor)), y: share, marker: { opacity: 0, size: 10 },
      hoverinfo: "text", text: of.low.map((low, i) =>
        timeText(low) + " to " + timeText(low * of.factor) + "<br>" + of.count[i] + " of " + total + " " + what) },
  ], looks, config);
}

// Shows this curve at this size, or at one that it has.
export function choose(curve, size) {
  choices.curve = curve;
  const sizes = Object.keys(data.histograms[curve] || {});
  const picker = document.getElementById("choose-size");
  picker.replaceChildren(...sizes.map((one) => new Option(sizeText(Number(one)), one)));
  const wanted = String(size);
  choices.size = sizes.includes(wanted) ? wanted : sizes.includes("8") ? "8" : sizes[0];
  document.getElementById("choose-curve").value = String(curve);
  if (choices.size !== undefined) picker.value = choices.size;
  picker.hidden = sizes.length === 0;
  changed("plot-distribution");
}

const sizeText = (bytes) => (bytes >= 1 << 20 && bytes % (1 << 18) === 0 ? bytes / (1 << 20) + " MiB"
  : bytes >= 1024 && bytes % 256 === 0 ? bytes / 1024 + " KiB" : bytes + " B");

export function beginDistribution() {
  const curves = document.getElementById("choose-curve");
  const own = data.curves.map((curve, place) => [curve, place]).filter(([curve]) => !curve.other);
  curves.replaceChildren(...own.map(([curve, place]) => new Option(curve.label, String(place))));
  curves.addEventListener("change", () => choose(Number(curves.value), choices.size));
  document.getElementById("choose-size").addEventListener("change", (event) => choose(choices.curve, event.target.value));
  // The last curve that has a distribution: it stands on all the others.
  const first = data.histograms.map((sizes) => Object.keys(sizes).length > 0).lastIndexOf(true);
  choose(Math.max(0, first), "8");
  if (first < 0) document.getElementById("distribution").hidden = true;
  begin("plot-distribution", drawDistribution);
}
