// SPDX-License-Identifier: Apache-2.0
// Draws the report's plots with plotly from the data beside it (block.py). Names come from a file that anybody may have written, and plotly
// reads some tags in text: esc() makes them plain. The page is read and answers before anything is drawn: library and data are unpacked
// behind it, a figure is drawn when it comes near to what is seen, and each in a task of its own.
"use strict";

(async () => {
  if (!("DecompressionStream" in window)) {
    document.querySelectorAll("#too-old").forEach((hint) => { hint.hidden = false; });
    return;
  }
  const unpacked = (id) => {
    const letters = atob(document.getElementById(id).textContent);
    const packed = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const pause = () => new Promise((go) => { setTimeout(go); });
  const library = document.createElement("script");
  const [source, text] = await Promise.all(["library", "data"].map(unpacked));
  library.textContent = source;
  document.head.append(library);
  await pause();

  const data = JSON.parse(text);
  // Numbers that several lines have stand in the data once: each line has the place of its own.
  const whole = (of) => ["size", "x", "y", "low", "high"].filter((key) => key in of).forEach((key) => { of[key] = data.arrays[of[key]]; });
  Object.values(data.figures).forEach((figure) => figure.lines.forEach(whole));
  [...data.panels, { views: data.yardsticks }].forEach(({ views: some }) => some.forEach((view) => (view.series || []).forEach(whole)));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const MOST_DETAILED = 24;  // curves of a figure that are drawn with their intervals and points: more are a thicket, and take seconds
  const MOST_MARKED = 40;  // sizes of a curve that is drawn with a point at each
  const hidden = new Set();
  const chosen = { curve: 0, size: null };
  let printing = false;
  let baseline = -1;  // the curve that others of its pattern are drawn over; -1: none
  let turned = false;  // is the axis of values linear where it was logarithmic, and the other way round?

  const esc = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => data.palette[dark.matches && !printing ? "dark" : "light"];
  const color = (curve) => palette()[data.curves[curve].color];
  const fade = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
  const config = { displayModeBar: false, displaylogo: false, doubleClick: "reset", scrollZoom: true };

  const narrow = (host) => host.clientWidth < 460;  // every other tick then, or they would have to be slanted

  function axis(of, vertical, sparse) {
    const ticks = of.ticks.filter((_, i) => !sparse || of.ticks.length < 6 || i % 2 === 0);
    return {
      type: of.log ? "log" : "linear",
      range: of.log ? of.range.map(Math.log10) : of.range,
      tickvals: ticks.map((tick) => tick[0]),
      ticktext: ticks.map((tick) => tick[1]),
      tickangle: 0,
      title: vertical ? undefined : { text: of.label, standoff: 8 },
      gridcolor: css("--rule"), linecolor: css("--soft"), showline: true, zeroline: false, ticks: "outside", ticklen: 3,
      tickcolor: css("--soft"), automargin: true,
    };
  }

  function layout(host, x, y) {
    return {
      width: host.clientWidth, height: host.clientHeight, showlegend: false,
      uirevision: [baseline, turned].join(),  // else what was zoomed stays so when curves come and go
      xaxis: axis(x, false, narrow(host)), yaxis: axis(y, true, false),
      hovermode: "closest", dragmode: touch.matches ? false : "zoom",  // a finger scrolls the page
      margin: { l: 8, r: 14, t: 8, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--ink") },
      hoverlabel: { bgcolor: css("--page"), bordercolor: css("--soft"), font: { color: css("--ink"), size: 12 }, align: "left" },
    };
  }

  function band(line, figure) {
    const along = figure.bandOnX ? line.y : line.x;
    const round = line.low.concat([...line.high].reverse());
    const there = along.concat([...along].reverse());
    return {
      type: "scatter", mode: "none", x: figure.bandOnX ? round : there, y: figure.bandOnX ? there : round, fill: "toself",
      fillcolor: fade(color(line.curve), 0.22), hoverinfo: "skip",
    };
  }

  // A line is one path, but each point is one of its own, one that is not seen too: only points that are seen are drawn.
  function curveTrace(name, line, detailed) {
    const of = data.curves[line.curve];
    const texts = (name === "loss" ? data.lossHover : data.hover)[line.curve];
    const marked = detailed && line.size.length <= MOST_MARKED;
    return {
      type: "scatter", mode: !line.joined ? "markers" : marked ? "lines+markers" : "lines", x: line.x, y: line.y,
      line: { color: color(line.curve), width: detailed ? 2 : 1.2, dash: of.dash },
      marker: { color: color(line.curve), size: 5, opacity: 1, symbol: line.joined ? "circle" : "diamond" },
      customdata: line.size.map((size) => [line.curve, size]),
      hoverinfo: "text",
      text: line.size.map((size) => "<b>" + esc(of.label) + "</b><br>" + (texts[size] || []).map(esc).join("<br>")),
    };
  }

  function ringTrace(line) {
    return {
      type: "scatter", mode: "markers", x: line.hollow.map((i) => line.x[i]), y: line.hollow.map((i) => line.y[i]), hoverinfo: "skip",
      marker: {
        color: css("--page"), size: line.hollow.length > 40 ? 5 : 7, opacity: 1, symbol: line.joined ? "circle" : "diamond",
        line: { color: color(line.curve), width: 1.4 },
      },
    };
  }

  // Rates are dashed, times dotted, the same in every figure.
  const boundDash = (bound) => (bound.quantity === "time" ? "1.5px,2.5px" : bound.dash);

  function boundTrace(bound) {
    return {
      type: "scatter", mode: "lines", x: bound.x, y: bound.y, line: { color: css("--soft"), width: 1, dash: boundDash(bound) },
      hoverinfo: "text", text: esc(bound.label),
    };
  }

  const ofValues = (name) => name === "throughput" || name === "latency";

  // The lines over the one of the baseline, at the sizes of both. The interval is that of two independent medians, on logarithms
  // (reading/estimate.py, MOVER): too wide for curves that were measured by turns.
  function overBaseline(figure) {
    const base = figure.lines.find((line) => line.curve === baseline && line.joined);
    const at = new Map(base.size.map((size, i) => [size, i]));
    const group = data.curves[baseline].group;
    const lines = figure.lines.filter((line) => data.curves[line.curve].group === group).map((line) => {
      const both = line.size.map((size, i) => [i, at.get(size)]).filter(([, j]) => j !== undefined);
      const reach = (i, j, up) => Math.exp(Math.hypot(
        Math.log(line.y[i] / (up ? line.high : line.low)[i]), Math.log(base.y[j] / (up ? base.low : base.high)[j])));
      const alone = line.curve === baseline;
      const y = both.map(([i, j]) => line.y[i] / base.y[j]);
      return {
        ...line, y, size: both.map(([i]) => line.size[i]), x: both.map(([i]) => line.x[i]),
        low: both.map(([i, j], nth) => (alone ? 1 : y[nth] / reach(i, j, false))),
        high: both.map(([i, j], nth) => (alone ? 1 : y[nth] * reach(i, j, true))),
        hollow: both.map(([i], nth) => (line.hollow.includes(i) ? nth : -1)).filter((nth) => nth >= 0),
      };
    }).filter((line) => line.y.length > 0);
    const values = lines.flatMap((line) => line.y).filter((value) => value > 0);
    const [low, high] = [Math.min(0.8, ...values) / 1.1, Math.max(1.25, ...values) * 1.1];
    const y = turned ? { log: false, range: [0, high * 1.02] } : { log: true, range: [low, high] };
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

  function drawFigure(name) {
    const over = baseline >= 0 && ofValues(name);
    const whole = data.figures[name];
    const figure = over ? overBaseline(whole) : turned && ofValues(name) ? { ...whole, y: whole.turned } : whole;
    const said = document.querySelector("#caption-" + name + " span");
    said.textContent = over ? "over that of " + data.curves[baseline].label : "";
    const host = document.getElementById("plot-" + name);
    const lines = figure.lines.filter((line) => !hidden.has(line.curve));
    const detailed = lines.length <= MOST_DETAILED;
    const traces = figure.bounds.map(boundTrace).concat(
      detailed ? lines.filter((line) => line.joined).map((line) => band(line, figure)) : [], lines.map((line) => curveTrace(name, line, detailed)),
      detailed ? lines.filter((line) => line.hollow.length > 0).map(ringTrace) : []);
    const first = !host.classList.contains("js-plotly-plot");
    Plotly.react(host, traces, layout(host, figure.x, figure.y), config);
    if (!first) return;
    host.on("plotly_click", (event) => {
      const picked = event.points.find((point) => point.customdata);
      if (picked && !data.curves[picked.customdata[0]].other) choose(picked.customdata[0], picked.customdata[1]);
    });
  }

  // ------------------------------------------------------------------------------------------- distribution

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
    const of = (data.histograms[chosen.curve] || {})[chosen.size];
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
    const ink = color(chosen.curve);
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

  function choose(curve, size) {
    chosen.curve = curve;
    const sizes = Object.keys(data.histograms[curve] || {});
    const picker = document.getElementById("choose-size");
    picker.replaceChildren(...sizes.map((one) => new Option(sizeText(Number(one)), one)));
    const wanted = String(size);
    chosen.size = sizes.includes(wanted) ? wanted : sizes.includes("8") ? "8" : sizes[0];
    document.getElementById("choose-curve").value = String(curve);
    if (chosen.size !== undefined) picker.value = chosen.size;
    picker.hidden = sizes.length === 0;
    changed("plot-distribution");
  }

  const sizeText = (bytes) => (bytes >= 1 << 20 && bytes % (1 << 18) === 0 ? bytes / (1 << 20) + " MiB"
    : bytes >= 1024 && bytes % 256 === 0 ? bytes / 1024 + " KiB" : bytes + " B");

  // --------------------------------------------------------------------------------------------- yardsticks

  // One row for each yardstick, above each other on one time axis.
  function drawYardsticks() {
    const host = document.getElementById("plot-yardsticks");
    if (!host) return;
    const rows = data.yardsticks;
    const looks = layout(host, rows[0].x, rows[0].y);
    delete looks.xaxis;
    delete looks.yaxis;
    looks.annotations = [];
    const gap = 0.16;
    const height = (1 - gap * (rows.length - 1)) / rows.length;
    const traces = rows.flatMap((view, row) => {
      const id = row ? String(row + 1) : "";
      const bottom = 1 - height - row * (height + gap);
      const last = row === rows.length - 1;
      looks["xaxis" + id] = { ...axis(view.x, !last, narrow(host)), anchor: "y" + id, showticklabels: last };
      looks["yaxis" + id] = { ...axis(view.y, true, true), anchor: "x" + id, domain: [bottom, bottom + height] };
      looks.annotations.push({ xref: "paper", yref: "paper", x: 0, y: bottom + height, xanchor: "left", yanchor: "bottom", yshift: 2,
        text: view.label, showarrow: false, font: { size: 11, color: css("--soft") } });
      return lineTraces(view).map((trace) => ({ ...trace, xaxis: "x" + id, yaxis: "y" + id }));
    });
    looks.margin.t = 22;
    Plotly.react(host, traces, looks, config);
  }

  // ------------------------------------------------------------------------------------------------ controls

  function swatch(stroke, width, dash) {
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("width", "20");
    drawing.setAttribute("height", "8");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const pattern = dash === "solid" ? "" : dash.replaceAll("px", "");
    Object.entries({ x1: 0, x2: 20, y1: 4, y2: 4, stroke, "stroke-width": width, "stroke-dasharray": pattern })
      .forEach(([name, value]) => line.setAttribute(name, value));
    drawing.append(line);
    return drawing;
  }

  // Of many patterns one is shown at a time, or all; and of many curves of a pattern those that the page has chosen (first), or all.
  const groups = [...new Set(data.curves.map((curve) => curve.group))];
  let group = groups.length > 1 && data.curves.length > 14 ? groups[0] : "";
  let everything = false;

  function showGroup() {
    hidden.clear();
    data.curves.forEach((curve, place) => { if ((group && curve.group !== group) || !(curve.first || everything)) hidden.add(place); });
  }

  function groupChoice() {
    const select = document.createElement("select");
    select.setAttribute("aria-label", "Pattern shown");
    select.append(new Option("all patterns", ""), ...groups.map((name) => new Option(name, name)));
    select.value = group;
    select.addEventListener("change", () => {
      group = select.value;
      showGroup();
      drawAll();
      document.querySelector("#legend select").focus();
    });
    return select;
  }

  function curveButton(place) {
    const curve = data.curves[place];
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.curve = String(place);
    button.setAttribute("aria-pressed", String(!hidden.has(place)));
    button.append(swatch(color(place), 2.5, curve.dash), curve.label);
    button.addEventListener("click", () => {
      if (!hidden.delete(place)) hidden.add(place);
      drawAll();
      document.querySelector("#legend button[data-curve='" + place + "']").focus();
    });
    return button;
  }

  // The names of the curves that are not drawn at first, in a fold, with a button for all of them.
  function moreCurves(places) {
    const fold = document.createElement("details");
    const summary = document.createElement("summary");
    const drawn = places.filter((place) => !hidden.has(place)).length;
    summary.textContent = places.length + " more curves, " + (drawn || "none") + " drawn";
    const all = document.createElement("button");
    all.type = "button";
    all.id = "draw-all";
    all.setAttribute("aria-pressed", String(everything));
    all.textContent = "Draw all";
    all.addEventListener("click", () => {
      everything = !everything;
      showGroup();
      drawAll();
      document.getElementById("draw-all").focus();
    });
    const names = document.createElement("div");
    names.append(all, ...places.map(curveButton));
    fold.append(summary, names);
    return fold;
  }

  function drawLegend() {
    const open = document.querySelector("#legend details[open]") !== null;
    const places = data.curves.map((_, place) => place).filter((place) => !group || data.curves[place].group === group);
    const more = places.filter((place) => !data.curves[place].first);
    const buttons = places.filter((place) => data.curves[place].first).map(curveButton);
    const bounds = Object.values(data.figures).flatMap((figure) => figure.bounds).filter((bound) => bound.quantity !== "kept");
    const named = [...new Map(bounds.map((bound) => [bound.label, bound])).values()].map((bound) => {
      const name = document.createElement("span");
      name.append(swatch(css("--soft"), 1.2, boundDash(bound)), bound.label);
      return name;
    });
    const rest = more.length > 0 ? [moreCurves(more)] : [];
    rest.forEach((fold) => { fold.open = open; });
    document.getElementById("legend").replaceChildren(...(groups.length > 1 ? [groupChoice()] : []), ...buttons, ...named, ...rest);
    const drawn = data.curves.length - hidden.size;
    const crowded = document.getElementById("crowded");
    crowded.hidden = drawn <= MOST_DETAILED;
    crowded.textContent = "A figure with more than " + MOST_DETAILED + " curves has lines alone, without intervals and points.";
  }

  // --------------------------------------------------------------------------------------- what the patterns say

  function lineTraces(view) {
    const ink = (of) => (of.color === null ? css("--soft") : palette()[of.color]);
    const detailed = view.series.length <= MOST_DETAILED;
    const bands = view.series.filter((of) => detailed && !of.faint && of.joined).map((of) => ({
      type: "scatter", mode: "none", x: of.x.concat([...of.x].reverse()), y: of.low.concat([...of.high].reverse()), fill: "toself",
      fillcolor: fade(ink(of), 0.2), hoverinfo: "skip",
    }));
    return bands.concat(view.series.map((of) => ({
      type: "scatter", mode: !of.joined ? "markers" : of.faint || !detailed || of.x.length > MOST_MARKED ? "lines" : "lines+markers", x: of.x, y: of.y,
      line: { color: ink(of), width: of.faint || !detailed ? 1.3 : 2, dash: of.dash },
      marker: { color: ink(of), size: of.joined ? 5 : 6, opacity: 1 }, hoverinfo: "text",
      text: of.text.map((text) => "<b>" + esc(of.label) + "</b><br>" + esc(text)),
    })));
  }

  // As the others is the page's own colour; faster goes to blue, slower to orange.
  function mapTrace(view) {
    const flat = view.z.flat().filter((value) => value !== null);
    const reach = Math.max(0.2, ...flat.map((value) => Math.abs(Math.log2(Math.max(value, 0.01)))));
    const names = ["÷", "×"].map((sign) => sign + Number((2 ** reach).toPrecision(2)));
    return {
      type: "heatmap", x: view.x, y: view.y, text: view.text.map((row) => row.map(esc)), hoverinfo: "text", xgap: 1, ygap: 1, hoverongaps: false,
      z: view.z.map((row) => row.map((value) => (value === null ? null : Math.log2(Math.max(value, 0.01))))), zmin: -reach, zmax: reach,
      colorscale: [[0, palette()[0]], [0.5, css("--faint")], [1, palette()[1]]],
      colorbar: { thickness: 10, outlinewidth: 0, tickvals: [-reach, 0, reach], ticktext: [names[0], "1", names[1]], ticks: "" },
    };
  }

  const views = {};  // of each panel, the one that is shown

  function drawPanel(place) {
    const panel = data.panels[place];
    const view = panel.views[views[place] || 0];
    const host = document.getElementById("panel-" + place);
    const key = host.parentNode.querySelector(".key-line");
    if (panel.kind === "map") {
      const looks = layout(host, { log: false, range: null, ticks: [], label: "" }, { log: false, range: null, ticks: [], label: "" });
      const plain = { type: "category", automargin: true, showgrid: false, zeroline: false, ticks: "", tickangle: 0 };
      // As many names as there is room for.
      const every = Math.ceil(view.x.length / 8);
      const named = view.x.filter((_, i) => i % every === 0);
      looks.xaxis = { ...plain, title: { text: view.xTitle, standoff: 8 }, tickvals: named, ticktext: named };
      looks.yaxis = { ...plain, title: { text: view.yTitle, standoff: 8 }, autorange: "reversed" };
      Plotly.react(host, [mapTrace(view)], looks, config);
      return;
    }
    key.replaceChildren(...view.series.filter((of) => of.label).map((of) => {
      const name = document.createElement("span");
      name.append(swatch(palette()[of.color], of.faint ? 1.3 : 2.5, of.dash), of.label);
      return name;
    }));
    Plotly.react(host, lineTraces(view), layout(host, view.x, view.y), config);
  }

  document.querySelectorAll(".panel").forEach((figure) => {
    const place = Number(figure.dataset.panel);
    const select = figure.querySelector("select");
    const names = data.panels[place].views.map((view) => view.label);
    select.replaceChildren(...names.map((name, i) => new Option(name, String(i))));
    select.hidden = names.length < 2;
    select.addEventListener("change", () => { views[place] = Number(select.value); changed("panel-" + place); });
  });

  // ------------------------------------------------------------------------------------- which figures are drawn, and when

  // By the id of its place: how a figure is drawn, whether it is near to what is seen, and whether it shows what was chosen since. What is
  // not near is drawn when it comes near, or when the page is printed.
  const figures = new Map();
  const near = new IntersectionObserver((entries) => {
    entries.forEach(({ target, isIntersecting }) => { figures.get(target.id).near = isIntersecting; });
    drawNext();
  }, { rootMargin: "600px" });
  // Not plotly's own `responsive`, which looks at the window only: a plot follows its place on the page.
  const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    const { width, height } = figures.get(target.id);
    if (target.clientWidth > 0 && width && (target.clientWidth !== width || target.clientHeight !== height)) changed(target.id);
  }));

  function begin(id, draw) {
    const host = document.getElementById(id);
    if (!host) return;
    figures.set(id, { host, draw, near: false });
    changed(id);
    near.observe(host);
    resized.observe(host);
  }

  function draw(figure) {
    figure.width = figure.host.clientWidth;
    figure.height = figure.host.clientHeight;
    figure.stale = false;
    figure.draw();
    figure.host.removeAttribute("aria-busy");
    // The size on paper is known only when it is too late to draw: a figure is printed as it is on the screen, in another size.
    figure.host.style.setProperty("--shape", figure.width + " / " + figure.height);
    figure.host.querySelectorAll(".main-svg").forEach((one) => one.setAttribute("viewBox", [0, 0, figure.width, figure.height].join(" ")));
  }

  function changed(id) {
    const figure = figures.get(id);
    if (!figure) return;
    figure.stale = true;
    figure.host.setAttribute("aria-busy", "true");
    drawNext();
  }

  // Each in a task of its own, so that the page answers between two.
  let waiting = 0;
  function drawNext() {
    if (waiting) return;
    waiting = setTimeout(() => {
      waiting = 0;
      const next = [...figures.values()].find((figure) => figure.near && figure.stale);
      if (!next) return;
      drawNext();  // whatever becomes of this one
      draw(next);
    });
  }

  function drawAll() {
    if (data.curves.length > 0) drawLegend();
    [...figures.keys()].forEach(changed);
  }

  function print(begins) {
    if (printing === begins) return;
    printing = begins;
    drawAll();
    if (printing) [...figures.values()].filter((figure) => figure.stale).forEach(draw);
  }

  // Without a curve the page has no place for any of them: what a library costs to open has panels alone.
  function beginCurves() {
    const curves = document.getElementById("choose-curve");
    const own = data.curves.map((curve, place) => [curve, place]).filter(([curve]) => !curve.other);
    curves.replaceChildren(...own.map(([curve, place]) => new Option(curve.label, String(place))));
    curves.addEventListener("change", () => choose(Number(curves.value), chosen.size));
    document.getElementById("choose-size").addEventListener("change", (event) => choose(chosen.curve, event.target.value));
    // The last curve that has a distribution: it stands on all the others.
    const first = data.histograms.map((sizes) => Object.keys(sizes).length > 0).lastIndexOf(true);
    choose(Math.max(0, first), "8");
    if (first < 0) document.getElementById("distribution").hidden = true;
    showGroup();
  }

  function beginTools() {
    const select = document.getElementById("choose-baseline");
    const own = data.curves.map((curve, place) => [curve, place]).filter(([curve, place]) => !curve.other
      && Object.entries(data.figures).every(([name, figure]) => !ofValues(name) || figure.lines.some((line) => line.curve === place && line.joined)));
    select.replaceChildren(new Option("none", "-1"), ...own.map(([curve, place]) => new Option(curve.label, String(place))));
    select.addEventListener("change", () => { baseline = Number(select.value); drawAll(); });
    const axes = document.getElementById("turn-axes");
    axes.addEventListener("click", () => {
      turned = !turned;
      axes.setAttribute("aria-pressed", String(turned));
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

  if (data.curves.length > 0) {
    beginCurves();
    beginTools();
  }
  Object.keys(data.figures).forEach((name) => begin("plot-" + name, () => drawFigure(name)));
  if (data.curves.length > 0) begin("plot-distribution", drawDistribution);
  document.querySelectorAll(".panel").forEach(({ dataset }) => begin("panel-" + dataset.panel, () => drawPanel(Number(dataset.panel))));
  begin("plot-yardsticks", drawYardsticks);
  drawAll();
  // Plain wheels scroll the page. With Ctrl, which is also what a pinch on a touch pad says, they zoom.
  document.querySelectorAll(".plot").forEach((host) => host.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) event.stopPropagation();
  }, { capture: true, passive: true }));

  dark.addEventListener("change", drawAll);
  const paper = matchMedia("print");
  paper.addEventListener("change", () => print(paper.matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
})();
