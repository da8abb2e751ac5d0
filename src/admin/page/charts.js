// Charts, each with a sentence and a table, and a common cursor.

import { byId, el, svg, table } from "./elements.js";
import { atMost, percent, rate, span, time } from "./words.js";

const HEIGHT = 150, LEFT = 52, RIGHT = 8, TOP = 8, BOTTOM = 22;

const per = (point) => point.per_second;

/** What each chart shows of a point. `at` is its height, null where there is nothing. */
const CHARTS = [
 {
  id: "requests", title: "Requests in a second", shown: rate,
  lines: [
   { name: "all", style: "l1", area: "area1", at: (p) => per(p).requests },
   { name: "answered with 5xx", style: "l2 dash", at: (p) => per(p).errors },
  ],
  sentence: (points) => {
   const values = points.map((p) => per(p).requests);
   const errors = total(points, (p) => p.by_class["5xx"] ?? 0);
   const all = total(points, (p) => p.requests);
   return `Between ${rate(Math.min(...values))} and ${rate(Math.max(...values))} a second. ${
    errors ? `${percent(errors, all)} were answered with 5xx.` : "None was answered with 5xx."}`;
  },
 },
 {
  id: "refused", title: "Refused in a second", shown: rate,
  lines: [{ name: "refused", style: "l2", area: "area2", at: (p) => per(p).refused }],
  sentence: (points) => {
   const refused = total(points, (p) => p.refused);
   if (!refused) return "No request was refused.";
   const most = points.reduce((a, b) => (per(b).refused > per(a).refused ? b : a));
   return `${percent(refused, total(points, (p) => p.requests))} of all requests were refused, most at ${
    time(most.time)}: ${rate(per(most).refused)} a second.`;
  },
 },
 {
  id: "duration", title: "Duration of requests", shown: (us) => span(us), log: true,
  lines: [
   { name: "p99", style: "l3", at: (p) => edge(p.duration_us.p99), words: (p) => atMost(p.duration_us.p99) },
   { name: "p50", style: "l1 dash", at: (p) => edge(p.duration_us.p50), words: (p) => atMost(p.duration_us.p50) },
  ],
  sentence: (points) => {
   const known = points.filter((p) => p.duration_us.p99);
   if (!known.length) return "There was no request.";
   const worst = known.reduce((a, b) => (edge(b.duration_us.p99) > edge(a.duration_us.p99) ? b : a));
   return `Half took ${atMost(known.at(-1).duration_us.p50)} at the end. The slowest 1 % were worst at ${
    time(worst.time)}: p99 ${atMost(worst.duration_us.p99)}.`;
  },
 },
];

const total = (points, of) => points.reduce((sum, it) => sum + of(it), 0);
// What is above the last step is drawn a step higher.
const edge = (bucket) => (bucket ? bucket.to ?? bucket.over * 2 : null);

/** The round number that is not below `value`. */
function round(value) {
 if (value <= 0) return 1;
 const power = 10 ** Math.floor(Math.log10(value));
 return [1, 2, 5, 10].map((it) => it * power).find((it) => it >= value * 0.999);
}

function scale(chart, points) {
 const values = points.flatMap((p) => chart.lines.map((line) => line.at(p))).filter((it) => it !== null);
 const inner = HEIGHT - TOP - BOTTOM;
 if (chart.log) {
  const low = 1000;
  const high = Math.max(10 * low, ...values);
  const y = (v) => TOP + inner * (1 - Math.max(0, Math.log(v / low) / Math.log(high / low)));
  const ticks = [];
  for (let tick = low; tick <= high; tick *= 10) ticks.push(tick);
  return { y, ticks };
 }
 const high = round(Math.max(0, ...values));
 return { y: (v) => TOP + inner * (1 - v / high), ticks: [0, high / 2, high] };
}

function draw(chart, points, changes, width) {
 const { y, ticks } = scale(chart, points);
 const times = points.map((p) => +new Date(p.time));
 const [first, last] = [times[0], times.at(-1)];
 const x = (t) => LEFT + (width - LEFT - RIGHT) * (last > first ? (t - first) / (last - first) : 1);
 const parts = ticks.map((tick) => [
  svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
  svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, chart.shown(tick)),
 ]).flat();
 const label = (t, anchor) => svg("text", { x: x(t), y: HEIGHT - 5, "text-anchor": anchor }, time(t));
 parts.push(label(first, "start"));
 if (width > 260 && last > first) parts.push(label(last, "end"));
 for (const at of changes.filter((it) => it >= first && it <= last)) {
  parts.push(svg("line", { class: "change", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }));
 }
 for (const line of chart.lines) {
  const runs = [[]];
  points.forEach((p, index) => {
   const value = line.at(p);
   if (value === null) runs.push([]);
   else runs.at(-1).push([x(times[index]), y(value)]);
  });
  for (const run of runs.filter((it) => it.length)) {
   const path = run.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
   const floor = HEIGHT - BOTTOM;
   if (line.area) parts.push(svg("path", { class: line.area, d: `${path}L${run.at(-1)[0]} ${floor}L${run[0][0]} ${floor}Z` }));
   parts.push(svg("path", { class: `line ${line.style}`, d: run.length > 1 ? path : `${path}h1` }));
  }
 }
 return { parts, x: (index) => x(times[index]), y };
}

const drawn = new Map();
let state = { points: [], changes: [] };

function frame(chart) {
 const picture = svg("svg", { "aria-hidden": "true", height: HEIGHT });
 const legend = el("ul", { class: "legend" });
 const parts = { picture, legend, sentence: el("p"), rows: el("div", { class: "scroll" }) };
 picture.addEventListener("pointermove", (event) => {
  const box = picture.getBoundingClientRect();
  const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
  const cursor = byId("cursor");
  cursor.value = Math.round(share * cursor.max);
  moved();
 });
 picture.addEventListener("pointerleave", () => { byId("cursor").value = byId("cursor").max; moved(); });
 const details = el("details", { toggle: (event) => event.target.open && rows(chart) }, el("summary", {}, `${chart.title} as a table`), parts.rows);
 byId("charts").append(el("figure", { class: "chart", "aria-label": chart.title },
  el("h3", {}, chart.title), parts.sentence, picture, legend, details));
 drawn.set(chart.id, { ...parts, details });
}

function rows(chart) {
 const words = (line) => (p) => (line.words ? line.words(p) : chart.shown(line.at(p)));
 const columns = [["Until", (p) => time(p.time)], ...chart.lines.map((line) => [line.name, words(line)])];
 drawn.get(chart.id).rows.replaceChildren(table(chart.title, columns, [...state.points].reverse()));
}

/** Moves the cursor of all charts to the time that the slider says. */
function moved() {
 const { points } = state;
 const cursor = byId("cursor");
 const index = Math.min(Number(cursor.value), points.length - 1);
 const point = points[index];
 if (!point) return;
 const said = CHARTS.map((chart) => {
  const part = drawn.get(chart.id);
  part.picture.querySelector(".cursor-group")?.remove();
  const words = chart.lines.map((line) => (line.words ? line.words(point) : chart.shown(line.at(point))));
  const marks = chart.lines.filter((line) => line.at(point) !== null).map((line) =>
   svg("circle", { class: `dot ${line.style.split(" ")[0]}`, cx: part.x(index), cy: part.y(line.at(point)), r: 4 }));
  part.picture.append(svg("g", { class: "cursor-group" },
   svg("line", { class: "cursor", x1: part.x(index), x2: part.x(index), y1: TOP, y2: HEIGHT - BOTTOM }), ...marks));
  part.legend.replaceChildren(...chart.lines.map((line, i) => el("li", {},
   svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, svg("path", { class: `line ${line.style}`, d: "M0 5H26" })),
   `${line.name}: `, el("strong", {}, words[i]))));
  return chart.lines.map((line, i) => `${line.name} ${words[i]}`).join(", ");
 });
 const when = `${Math.round(point.seconds)} s until ${time(point.time)}`;
 byId("cursor-time").textContent = when;
 cursor.setAttribute("aria-valuetext", `${when}: ${said.join("; ")}`);
}

/** Draws the charts. `changes`: the times at which something was changed. */
export function drawCharts(points, changes, step) {
 const cursor = byId("cursor");
 const atEnd = cursor.value === cursor.max;
 // The step in progress is too short to be compared.
 const complete = points.filter((p, index) => index < points.length - 1 || p.seconds > 0.9 * step);
 state = { points: complete.length ? complete : points, changes };
 if (!drawn.size) {
  CHARTS.forEach(frame);
  cursor.addEventListener("input", moved);
  new ResizeObserver(redraw).observe(byId("charts"));
 }
 byId("cursor-row").hidden = state.points.length < 2;
 cursor.max = Math.max(0, state.points.length - 1);
 if (atEnd) cursor.value = cursor.max;
 redraw();
}

function redraw() {
 if (!state.points.length) return;
 for (const chart of CHARTS) {
  const part = drawn.get(chart.id);
  const width = Math.max(200, part.picture.clientWidth);
  const { parts, x, y } = draw(chart, state.points, state.changes, width);
  part.picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  part.picture.replaceChildren(...parts);
  part.sentence.textContent = chart.sentence(state.points);
  Object.assign(part, { x, y });
  if (part.details.open) rows(chart);
 }
 moved();
}
