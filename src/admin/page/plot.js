// Charts of values over time, each with a sentence, a legend and a table.

import { el, svg, table } from "./elements.js";
import { time } from "./words.js";

const LEFT = 52, RIGHT = 8, TOP = 8, BOTTOM = 20;

/** The round number that is above `value`: a line never lies on the frame. */
function round(value) {
 if (value <= 0) return 1;
 const wanted = value * 1.05;
 const power = 10 ** Math.floor(Math.log10(wanted));
 return [1, 2, 4, 5, 8, 10].map((it) => it * power).find((it) => it >= wanted * 0.999);
}

function scale(chart, points, height) {
 const values = points.flatMap((p) => chart.lines.map((line) => line.at(p))).filter((it) => it !== null);
 const inner = height - TOP - BOTTOM;
 if (chart.log) {
  const low = 1000;
  // The next power of ten: what is slowest lies below the frame.
  const high = 10 ** (Math.floor(Math.log10(Math.max(10 * low, ...values)) + 1e-9) + 1);
  const y = (v) => TOP + inner * (1 - Math.max(0, Math.log(v / low) / Math.log(high / low)));
  const ticks = [];
  for (let tick = low; tick <= high; tick *= 10) ticks.push(tick);
  return { y, ticks };
 }
 const high = round(Math.max(0, ...values));
 return { y: (v) => TOP + inner * (1 - v / high), ticks: [0, high / 2, high] };
}

function draw(chart, points, changes, width, height) {
 const { y, ticks } = scale(chart, points, height);
 const times = points.map((p) => +new Date(p.time));
 const [first, last] = [times[0], times.at(-1)];
 const x = (t) => LEFT + (width - LEFT - RIGHT) * (last > first ? (t - first) / (last - first) : 1);
 const floor = height - BOTTOM;
 const parts = ticks.flatMap((tick) => [
  svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
  svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, chart.shown(tick)),
 ]);
 const label = (t, anchor) => svg("text", { x: x(t), y: height - 4, "text-anchor": anchor }, time(t));
 parts.push(label(first, "start"));
 if (width > 260 && last > first) parts.push(label(last, "end"));
 for (const at of changes.filter((it) => it >= first && it <= last)) {
  parts.push(svg("line", { class: "change", x1: x(at), x2: x(at), y1: TOP, y2: floor }));
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
   if (line.area) parts.push(svg("path", { class: line.area, d: `${path}L${run.at(-1)[0]} ${floor}L${run[0][0]} ${floor}Z` }));
   parts.push(svg("path", { class: `line ${line.style}`, d: run.length > 1 ? path : `${path}h1` }));
  }
 }
 return { parts, x: (index) => x(times[index]), y };
}

/**
 * A chart in a container. `moved(share)` is called while the pointer is at this share of its
 * time; null when it leaves. What the chart shows is given with each drawing.
 */
export class Plot {
 constructor(container, title, moved, height = 112) {
  Object.assign(this, { title, height, chart: null, points: [] });
  this.picture = svg("svg", { "aria-hidden": "true", height });
  this.legend = el("ul", { class: "legend" });
  this.sentence = el("p");
  this.rows = el("div", { class: "scroll" });
  this.picture.addEventListener("pointermove", (event) => {
   const box = this.picture.getBoundingClientRect();
   moved((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT));
  });
  this.picture.addEventListener("pointerleave", () => moved(null));
  this.details = el("details", { toggle: () => this.tabulate() }, el("summary", {}, `${title} as a table`), this.rows);
  container.append(el("figure", { class: "chart", "aria-label": title },
   el("h3", {}, title), this.sentence, this.picture, this.legend, this.details));
 }

 draw(chart, points, changes) {
  Object.assign(this, { chart, points });
  const width = Math.max(200, this.picture.clientWidth);
  const { parts, x, y } = draw(chart, points, changes, width, this.height);
  this.picture.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
  this.picture.replaceChildren(...parts);
  this.sentence.textContent = chart.sentence(points);
  Object.assign(this, { x, y });
  this.tabulate();
 }

 tabulate() {
  if (!this.details.open || !this.chart) return;
  const { lines } = this.chart;
  const columns = [["Until", (p) => time(p.time)], ...lines.map((line) => [line.name, (p) => this.words(line, p)])];
  this.rows.replaceChildren(table(this.title, columns, [...this.points].reverse()));
 }

 words(line, point) {
  return line.words ? line.words(point) : this.chart.shown(line.at(point));
 }

 /** Marks one time, and shows the values of it. Returns them in words. */
 mark(index) {
  const point = this.points[index];
  if (!point) return "";
  const { lines } = this.chart;
  this.picture.querySelector(".cursor-group")?.remove();
  const words = lines.map((line) => this.words(line, point));
  const marks = lines.filter((line) => line.at(point) !== null).map((line) =>
   svg("circle", { class: `dot ${line.style.split(" ")[0]}`, cx: this.x(index), cy: this.y(line.at(point)), r: 3.5 }));
  this.picture.append(svg("g", { class: "cursor-group" },
   svg("line", { class: "cursor", x1: this.x(index), x2: this.x(index), y1: TOP, y2: this.height - BOTTOM }), ...marks));
  this.legend.replaceChildren(...lines.map((line, i) => el("li", {},
   svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, svg("path", { class: `line ${line.style}`, d: "M0 5H26" })),
   `${line.name}: `, el("strong", {}, words[i]))));
  return lines.map((line, i) => `${line.name} ${words[i]}`).join(", ");
 }
}

/** A small chart of values, without axes: its highest value is at the top. */
export function spark(values, style = "l2") {
 const width = 110, height = 22;
 const most = Math.max(...values, 0);
 const x = (index) => (values.length > 1 ? (index * width) / (values.length - 1) : width);
 const y = (value) => height - 1.5 - (most ? (value / most) * (height - 4) : 0);
 const path = values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
 const area = style === "l2" ? "area2" : "area4";
 return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
  most ? svg("path", { class: area, d: `${path}L${width} ${height}L0 ${height}Z` }) : "",
  svg("path", { class: `line ${most ? style : "l0"}`, d: values.length > 1 ? path : `M0 ${height - 1.5}H${width}` }));
}

