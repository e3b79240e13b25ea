// SPDX-License-Identifier: Apache-2.0
// How figures look: colours of the scheme, axes, the frame of a plot, the sign of a line in a legend. Names come from a file that anybody may
// have written, and plotly reads some tags in text: esc() makes them plain.
import { choices } from "./choices.js";
import { data } from "./data.js";

export const MOST_DETAILED = 24;  // curves of a figure that are drawn with their intervals and points: more are a thicket, and take seconds
export const MOST_MARKED = 40;  // sizes of a curve that is drawn with a point at each
export const config = { displayModeBar: false, displaylogo: false, doubleClick: "reset", scrollZoom: true };
export const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)");

export const esc = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const palette = () => data.palette[dark.matches && !choices.printing ? "dark" : "light"];
export const color = (curve) => palette()[data.curves[curve].color];
export const fade = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
export const narrow = (host) => host.clientWidth < 460;  // every other tick then, or they would have to be slanted

export function axis(of, vertical, sparse) {
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

export function layout(host, x, y) {
  return {
    width: host.clientWidth, height: host.clientHeight, showlegend: false,
    uirevision: [choices.baseline, choices.turned].join(),  // else what was zoomed stays so when curves come and go
    xaxis: axis(x, false, narrow(host)), yaxis: axis(y, true, false),
    hovermode: "closest", dragmode: touch.matches ? false : "zoom",  // a finger scrolls the page
    margin: { l: 8, r: 14, t: 8, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--ink") },
    hoverlabel: { bgcolor: css("--page"), bordercolor: css("--soft"), font: { color: css("--ink"), size: 12 }, align: "left" },
  };
}

// A piece of a line, to stand beside its name.
export function swatch(stroke, width, dash) {
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
