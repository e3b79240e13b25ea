// SPDX-License-Identifier: Apache-2.0
// Which figures are drawn, and when: each when it comes near to what is seen, in a task of its own, so that the page answers between two; all
// where the page is printed.
import { choices } from "./choices.js";

// By the id of its place: how a figure is drawn, whether it is near to what is seen, and whether it shows what was chosen since.
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

// The figure at this place is drawn by `how`, from now on and whenever it is out of date. A page need not have the place.
export function begin(id, how) {
  const host = document.getElementById(id);
  if (!host) return;
  figures.set(id, { host, how, near: false });
  changed(id);
  near.observe(host);
  resized.observe(host);
}

function draw(figure) {
  figure.width = figure.host.clientWidth;
  figure.height = figure.host.clientHeight;
  figure.stale = false;
  figure.how();
  figure.host.removeAttribute("aria-busy");
  // The size on paper is known only when it is too late to draw: a figure is printed as it is on the screen, in another size.
  figure.host.style.setProperty("--shape", figure.width + " / " + figure.height);
  figure.host.querySelectorAll(".main-svg").forEach((one) => one.setAttribute("viewBox", [0, 0, figure.width, figure.height].join(" ")));
}

// The figure at this place is out of date.
export function changed(id) {
  const figure = figures.get(id);
  if (!figure) return;
  figure.stale = true;
  figure.host.setAttribute("aria-busy", "true");
  drawNext();
}

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

const beside = [];  // what is no figure, and changes with all of them

// `how` is called whenever all figures are out of date, at once.
export function drawnBeside(how) {
  beside.push(how);
}

// All figures are out of date.
export function drawAll() {
  beside.forEach((how) => how());
  [...figures.keys()].forEach(changed);
}

// Draws all figures for paper, or for the screen again.
export function printed(begins) {
  if (choices.printing === begins) return;
  choices.printing = begins;
  drawAll();
  if (begins) [...figures.values()].filter((figure) => figure.stale).forEach(draw);
}
