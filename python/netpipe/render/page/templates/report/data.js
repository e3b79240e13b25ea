// SPDX-License-Identifier: Apache-2.0
// What the page draws (block.py packs it): the data of plots.py.
export const data = {};

// The text of a packed block of the page, by its id.
export function unpacked(id) {
  const letters = atob(document.getElementById(id).textContent);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// Fills `data`. Numbers that several lines have stand in it once: each line gets the place of its own.
export function read(text) {
  Object.assign(data, JSON.parse(text));
  const whole = (of) => ["size", "x", "y", "low", "high"].filter((key) => key in of).forEach((key) => { of[key] = data.arrays[of[key]]; });
  Object.values(data.figures).forEach((figure) => figure.lines.forEach(whole));
  [...data.panels, { views: data.yardsticks }].forEach(({ views }) => views.forEach((view) => (view.series || []).forEach(whole)));
}
