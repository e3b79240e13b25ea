// SPDX-License-Identifier: Apache-2.0
// Which parts of a curve are drawn and how, by the rules of render/drawing/strokes.py: a stroke is pale where an interval is wide, none goes
// through a point that says nothing, and no band folds.
import { MOST_MARKED } from "./looks.js";

const PALE = 0.4;

// Places of points that are joined, by whether their stroke is pale.
function strokesOf(line) {
  const [loose, mute] = [new Set(line.loose), new Set(line.mute)];
  const found = { full: [], pale: [] };
  for (let i = 0; line.joined && i + 1 < line.x.length; i++) {
    if (mute.has(i) || mute.has(i + 1)) continue;
    const some = loose.has(i) || loose.has(i + 1) ? found.pale : found.full;
    const last = some[some.length - 1];
    if (last && last[last.length - 1] === i) last.push(i + 1);
    else some.push([i, i + 1]);
  }
  return found;
}

// Places of points between which the interval is filled: along the other axis each list rises or falls.
function bandRanges(line, along) {
  const mute = new Set(line.mute);
  const found = [];
  let rises = null;
  for (let i = 0; i < along.length; i++) {
    const last = found[found.length - 1];
    if (mute.has(i)) continue;
    if (!last || last[last.length - 1] !== i - 1) {
      found.push([i]);
      rises = null;
      continue;
    }
    const goes = along[i] >= along[i - 1];
    if (rises === null || goes === rises) last.push(i);
    else found.push([i - 1, i]);
    rises = goes;
  }
  return found;
}

const gapped = (lists, of) => lists.flatMap((list) => [...list.map((i) => of[i]), null]);

// The band of a line as one trace of plotly; all its outlines turn in one direction, so that nothing is filled twice.
export function bandTrace(line, onX, fill) {
  const along = onX ? line.y : line.x;
  const [there, round] = [[], []];
  bandRanges(line, along).forEach((list) => {
    const order = along[list[list.length - 1]] >= along[list[0]] ? list : [...list].reverse();
    const back = [...order].reverse();
    there.push(...order.map((i) => along[i]), ...back.map((i) => along[i]), null);
    round.push(...order.map((i) => line.low[i]), ...back.map((i) => line.high[i]), null);
  });
  return { type: "scatter", mode: "none", x: onX ? round : there, y: onX ? there : round, fill: "toself", fillcolor: fill, hoverinfo: "skip" };
}

// The strokes of a line as traces of plotly: pale ones, then full ones.
export function strokeTraces(line, look) {
  const { full, pale } = strokesOf(line);
  return [[pale, PALE], [full, 1]].filter(([lists]) => lists.length > 0).map(([lists, opacity]) => (
    { type: "scatter", mode: "lines", x: gapped(lists, line.x), y: gapped(lists, line.y), line: look, opacity, hoverinfo: "skip" }));
}

// The points of all lines as one trace of plotly: loose ones pale and small, others full. Of many points only those are there that are loose or
// that no stroke reaches. `inkOf` a line is its colour.
export function markTrace(lines, inkOf, size) {
  const found = { x: [], y: [], color: [], size: [], opacity: [], symbol: [] };
  lines.forEach((line) => {
    const { full, pale } = strokesOf(line);
    const loose = new Set(line.loose);
    const reached = new Set([...full, ...pale].flat());
    line.x.forEach((x, i) => {
      if (!loose.has(i) && line.joined && line.x.length > MOST_MARKED && reached.has(i)) return;
      found.x.push(x);
      found.y.push(line.y[i]);
      found.color.push(inkOf(line));
      found.size.push(loose.has(i) ? size * 0.7 : size);
      found.opacity.push(loose.has(i) ? PALE : 1);
      found.symbol.push(line.joined ? "circle" : "diamond");
    });
  });
  const { x, y, ...marker } = found;
  return { type: "scatter", mode: "markers", x, y, marker: { ...marker, line: { width: 0 } }, hoverinfo: "skip" };
}
