// SPDX-License-Identifier: Apache-2.0
// Panels: what the patterns say, as lines or maps, and the yardsticks over the run.
import { data } from "./data.js";
import { begin, changed } from "./drawing.js";
import { MOST_DETAILED, axis, config, css, esc, fade, layout, narrow, palette, swatch } from "./looks.js";
import { bandTrace, markTrace, strokeTraces } from "./strokes.js";

const ink = (of) => (of.color === null ? css("--soft") : palette()[of.color]);

function lineTraces(view) {
  const detailed = view.series.length <= MOST_DETAILED;
  const marked = view.series.filter((of) => !of.faint && (detailed || !of.joined));
  return marked.filter((of) => detailed).map((of) => bandTrace(of, false, fade(ink(of), 0.2))).concat(
    view.series.flatMap((of) => strokeTraces(of, { color: ink(of), width: of.faint || !detailed ? 1.3 : 2, dash: of.dash })),
    markTrace(marked, ink, 5),
    view.series.map((of) => ({
      type: "scatter", mode: "none", x: of.x, y: of.y, hoverinfo: "text", text: of.text.map((text) => "<b>" + esc(of.label) + "</b><br>" + esc(text)),
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
    name.append(swatch(ink(of), of.faint ? 1.3 : 2.5, of.dash), of.label);
    return name;
  }));
  Plotly.react(host, lineTraces(view), layout(host, view.x, view.y), config);
}

// One row for each yardstick, above each other on one time axis.
function drawYardsticks() {
  const host = document.getElementById("plot-yardsticks");
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

export function beginPanels() {
  document.querySelectorAll(".panel").forEach((figure) => {
    const place = Number(figure.dataset.panel);
    const select = figure.querySelector("select");
    const names = data.panels[place].views.map((view) => view.label);
    select.replaceChildren(...names.map((name, i) => new Option(name, String(i))));
    select.hidden = names.length < 2;
    select.addEventListener("change", () => { views[place] = Number(select.value); changed("panel-" + place); });
    begin("panel-" + place, () => drawPanel(place));
  });
  begin("plot-yardsticks", drawYardsticks);
}
