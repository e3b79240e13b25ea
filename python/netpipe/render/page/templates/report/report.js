// SPDX-License-Identifier: Apache-2.0
// Draws the report's plots with plotly. The page is read and answers before anything is drawn: library and data are unpacked behind it.
import { drawFigure } from "./curves.js";
import { data, read, unpacked } from "./data.js";
import { beginDistribution } from "./distribution.js";
import { begin, drawAll, printed } from "./drawing.js";
import { beginLegend } from "./legend.js";
import { dark } from "./looks.js";
import { beginPanels } from "./panels.js";
import { beginTools } from "./tools.js";

async function start() {
  if (!("DecompressionStream" in window)) {
    document.querySelectorAll("#too-old").forEach((hint) => { hint.hidden = false; });
    return;
  }
  const library = document.createElement("script");
  const [source, text] = await Promise.all(["library", "data"].map(unpacked));
  library.textContent = source;
  document.head.append(library);
  await new Promise((go) => { setTimeout(go); });
  read(text);

  // Without a curve the page has no place for any of these: what a library costs to open has panels alone.
  if (data.curves.length > 0) {
    beginLegend();
    beginTools();
    Object.keys(data.figures).forEach((name) => begin("plot-" + name, () => drawFigure(name)));
    beginDistribution();
  }
  beginPanels();
  drawAll();
  // Plain wheels scroll the page. With Ctrl, which is also what a pinch on a touch pad says, they zoom.
  document.querySelectorAll(".plot").forEach((host) => host.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) event.stopPropagation();
  }, { capture: true, passive: true }));

  dark.addEventListener("change", drawAll);
  const paper = matchMedia("print");
  paper.addEventListener("change", () => printed(paper.matches));
  addEventListener("beforeprint", () => printed(true));
  addEventListener("afterprint", () => printed(false));
}

start();
