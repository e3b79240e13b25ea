// SPDX-License-Identifier: Apache-2.0
// The names of the curves, and which of them are drawn.
import { choices } from "./choices.js";
import { data } from "./data.js";
import { drawAll, drawnBeside } from "./drawing.js";
import { MOST_DETAILED, color, css, swatch } from "./looks.js";

// Of many patterns one is shown at a time, or all; and of many curves of a pattern those that the page has chosen (first), or all.
let groups = [];
let group = "";  // the one that is shown; "": all
let everything = false;

function showGroup() {
  choices.hidden.clear();
  data.curves.forEach((curve, place) => { if ((group && curve.group !== group) || !(curve.first || everything)) choices.hidden.add(place); });
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
  button.setAttribute("aria-pressed", String(!choices.hidden.has(place)));
  button.append(swatch(color(place), 2.5, curve.dash), curve.label);
  button.addEventListener("click", () => {
    if (!choices.hidden.delete(place)) choices.hidden.add(place);
    drawAll();
    document.querySelector("#legend button[data-curve='" + place + "']").focus();
  });
  return button;
}

// The names of the curves that are not drawn at first, in a fold, with a button for all of them.
function moreCurves(places) {
  const fold = document.createElement("details");
  const summary = document.createElement("summary");
  const drawn = places.filter((place) => !choices.hidden.has(place)).length;
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
    name.append(swatch(css("--soft"), 1.2, bound.dash), bound.label);
    return name;
  });
  const rest = more.length > 0 ? [moreCurves(more)] : [];
  rest.forEach((fold) => { fold.open = open; });
  document.getElementById("legend").replaceChildren(...(groups.length > 1 ? [groupChoice()] : []), ...buttons, ...named, ...rest);
  const drawn = data.curves.length - choices.hidden.size;
  const crowded = document.getElementById("crowded");
  crowded.hidden = drawn <= MOST_DETAILED;
  crowded.textContent = "A figure with more than " + MOST_DETAILED + " curves has lines alone, without intervals and points.";
}

export function beginLegend() {
  groups = [...new Set(data.curves.map((curve) => curve.group))];
  if (groups.length > 1 && data.curves.length > 14) group = groups[0];
  showGroup();
  drawnBeside(drawLegend);
}
