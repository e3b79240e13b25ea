// SPDX-License-Identifier: Apache-2.0
// The figures of curves, absolute or over a baseline.
import { choices } from "./choices.js";
import { data } from "./data.js";
import { choose } from "./distribution.js";
import { MOST_DETAILED, color, config, css, esc, fade, layout } from "./looks.js";
import { bandTrace, markTrace, strokeTraces } from "./strokes.js";

// What a curve answers when it is pointed at: each of its points, seen or not.
function answers(name, line) {
  const of = data.curves[line.curve];
  const texts = (name === "loss" ? data.lossHover : data.hover)[line.curve];
  return {
    type: "scatter", mode: "none", x: line.x, y: line.y, line: { color: color(line.curve) },
    customdata: line.size.map((size) => [line.curve, size]),
    hoverinfo: "text",
    text: line.size.map((size) => "<b>" + esc(of.label) + "</b><br>" + [...(texts[size] || []), ...(of.source ? [of.source] : [])].map(esc).join("<br>")),
  };
}

function boundTrace(bound) {
  return {
    type: "scatter", mode: "lines", x: bound.x, y: bound.y, line: { color: css("--soft"), width: 1, dash: bound.dash },
    hoverinfo: "text", text: esc(bound.label),
  };
}

export const ofValues = (name) => name === "throughput" || name === "latency";

// By size how many times as long one curve takes as another with its limits, where the two were measured by turns.
function timesAsLong(curve, base) {
  for (const [first, second, sizes, ...columns] of data.ratios) {
    if ((first !== curve || second !== base) && (first !== base || second !== curve)) continue;
    const turned = first === base;
    return new Map(sizes.map((size, nth) => {
      const [value, low, high] = columns.map((column) => column[nth]);
      return [size, turned ? [1 / value, 1 / high, 1 / low] : [value, low, high]];
    }));
  }
  return new Map();
}

// The lines over the one of the baseline, at the sizes of both: by pairs where the curves were measured by turns. Else
// the interval is that of two independent medians, on logarithms (reading/estimate.py, MOVER).
function overBaseline(figure, name) {
  const base = figure.lines.find((line) => line.curve === choices.baseline && line.joined);
  const at = new Map(base.size.map((size, i) => [size, i]));
  const group = data.curves[choices.baseline].group;
  const lines = figure.lines.filter((line) => data.curves[line.curve].group === group).map((line) => {
    const both = line.size.map((size, i) => [i, at.get(size)]).filter(([, j]) => j !== undefined);
    const reach = (i, j, up) => Math.exp(Math.hypot(
      Math.log(line.y[i] / (up ? line.high : line.low)[i]), Math.log(base.y[j] / (up ? base.low : base.high)[j])));
    const alone = line.curve === choices.baseline;
    const known = timesAsLong(line.curve, choices.baseline);
    const ratio = ([i, j]) => {
      const times = known.get(line.size[i]);
      if (alone) return [1, 1, 1];
      if (times) return name === "throughput" ? [1 / times[0], 1 / times[2], 1 / times[1]] : times;
      const value = line.y[i] / base.y[j];
      return [value, value / reach(i, j, false), value * reach(i, j, true)];
    };
    const [y, low, high] = [0, 1, 2].map((which) => both.map((places) => ratio(places)[which]));
    // A ratio of pairs may be sure where both times are not.
    const beyond = (width, places) => [...both.keys()].filter((nth) => (alone || known.has(line.size[both[nth][0]])
      ? (high[nth] - low[nth]) / 2 / y[nth] > width : places.includes(both[nth][0])));
    return {
      ...line, y, size: both.map(([i]) => line.size[i]), x: both.map(([i]) => line.x[i]), low, high,
      loose: beyond(data.widths.loose, line.loose), mute: beyond(data.widths.mute, line.mute),
    };
  }).filter((line) => line.y.length > 0);
  const values = lines.flatMap((line) => line.y).filter((value) => value > 0);
  const [low, high] = [Math.min(0.8, ...values) / 1.1, Math.max(1.25, ...values) * 1.1];
  const y = choices.turned ? { log: false, range: [0, high * 1.02] } : { log: true, range: [low, high] };
  return { ...figure, lines, bounds: [], y: { ...y, ticks: ratioTicks(y.log ? low : 0, y.range[1], y.log) } };
}

function ratioTicks(low, high, log) {
  const found = [];
  if (!log) {
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e4].find((one) => high / one <= 8) || high / 5;
    for (let nth = 0; nth * step <= high; nth++) found.push(nth * step);
  } else {
    const factors = high / low > 1000 ? [1] : high / low > 20 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 3, 5, 7];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      found.push(...factors.map((factor) => factor * 10 ** power).filter((value) => value >= low && value <= high));
    }
  }
  return found.map((value) => [value, Number(value.toPrecision(3)) + "×"]);
}

export function drawFigure(name) {
  const over = choices.baseline >= 0 && ofValues(name);
  const whole = data.figures[name];
  const figure = over ? overBaseline(whole, name) : choices.turned && ofValues(name) ? { ...whole, y: whole.turned } : whole;
  const said = document.querySelector("#caption-" + name + " span");
  said.textContent = over ? "over that of " + data.curves[choices.baseline].label : "";
  const host = document.getElementById("plot-" + name);
  const lines = figure.lines.filter((line) => !choices.hidden.has(line.curve));
  const detailed = lines.length <= MOST_DETAILED;
  const traces = figure.bounds.map(boundTrace).concat(
    detailed ? lines.map((line) => bandTrace(line, figure.bandOnX, fade(color(line.curve), 0.22))) : [],
    lines.flatMap((line) => strokeTraces(line, { color: color(line.curve), width: detailed ? 2 : 1.2, dash: data.curves[line.curve].dash })),
    markTrace(lines.filter((line) => detailed || !line.joined), (line) => color(line.curve), 5),
    lines.map((line) => answers(name, line)));
  const first = !host.classList.contains("js-plotly-plot");
  Plotly.react(host, traces, layout(host, figure.x, figure.y), config);
  if (!first) return;
  host.on("plotly_click", (event) => {
    const picked = event.points.find((point) => point.customdata);
    if (picked && !data.curves[picked.customdata[0]].other) choose(picked.customdata[0], picked.customdata[1]);
  });
}
