// The charts of the node, those of the refusals by policy, and their common cursor.

import { byId } from "./elements.js";
import { Plot } from "./plot.js";
import { atMost, percent, rate, span, time } from "./words.js";

const per = (point) => point.per_second;
const total = (points, of) => points.reduce((sum, it) => sum + of(it), 0);
// What is above the last step is drawn a step higher.
const edge = (bucket) => (bucket ? bucket.to ?? bucket.over * 2 : null);

/** What each chart of the node shows of a point. `at` is its height, null where there is nothing. */
const CHARTS = [
 {
  title: "Requests in a second", shown: rate,
  lines: [
   { name: "all", style: "l1", area: "area1", at: (p) => per(p).requests },
   { name: "answered with 5xx", style: "l2 dash", at: (p) => per(p).errors },
  ],
  sentence: (points) => {
   const values = points.map((p) => per(p).requests);
   const all = total(points, (p) => p.requests);
   if (!all) return "There was no request.";
   const errors = total(points, (p) => p.by_class["5xx"] ?? 0);
   const [least, most] = [rate(Math.min(...values)), rate(Math.max(...values))];
   return `${least === most ? most : `${least} to ${most}`} a second; ${errors ? percent(errors, all) : "none"} answered with 5xx.`;
  },
 },
 {
  title: "Refused in a second", shown: rate,
  lines: [{ name: "refused", style: "l2", area: "area2", at: (p) => per(p).refused }],
  sentence: (points) => {
   const refused = total(points, (p) => p.refused);
   if (!refused) return "No request was refused.";
   const most = points.reduce((a, b) => (per(b).refused > per(a).refused ? b : a));
   return `${percent(refused, total(points, (p) => p.requests))} of requests; most at ${time(most.time)}: ${rate(per(most).refused)} a second.`;
  },
 },
 {
  title: "Duration of requests", shown: (us) => span(us), log: true,
  lines: [
   { name: "p99", style: "l3", at: (p) => edge(p.duration_us.p99), words: (p) => atMost(p.duration_us.p99) },
   { name: "p50", style: "l1 dash", at: (p) => edge(p.duration_us.p50), words: (p) => atMost(p.duration_us.p50) },
  ],
  sentence: (points) => {
   const known = points.filter((p) => p.duration_us.p99);
   if (!known.length) return "There was no request.";
   const worst = known.reduce((a, b) => (edge(b.duration_us.p99) > edge(a.duration_us.p99) ? b : a));
   return `Slowest at ${time(worst.time)}: p99 ${atMost(worst.duration_us.p99)}.`;
  },
 },
];

const STYLES = ["l2", "l3", "l4", "l1", "l5 dash", "l6 dash"];
const LISTED = STYLES.length - 1;
const EMPTY = { points: [], changes: [], policies: [] };
let state = EMPTY;
let plots = [];
let large = null;

/** Of a policy, the values in a second: `what` is decisions, refused or shadow_refused. */
const of = (policy, what) => (p) => policy[what][p.index] / (p.seconds || 1);
const sum = (values) => values.reduce((a, b) => a + b, 0);

/** The chart of the policies that refuse most, or of one policy. */
function byPolicy(chosen) {
 const policies = state.policies;
 if (chosen) {
  const one = policies.find((it) => it.policy === chosen);
  const tried = policies.find((it) => it.policy === `${chosen}~candidate`);
  const lines = one ? [
   { name: "decisions", style: "l1 dash", at: of(one, "decisions") },
   { name: "refused", style: "l2", area: "area2", at: of(one, "refused") },
  ] : [];
  if (one && sum(one.shadow_refused)) lines.push({ name: "would be refused, in shadow", style: "l4", at: of(one, "shadow_refused") });
  if (tried) lines.push({ name: "would be refused by the limit in shadow", style: "l3", at: of(tried, "shadow_refused") });
  const sentence = () => (one
   ? `${chosen} refused ${percent(sum(one.refused), sum(one.decisions))} of its decisions in this time.`
   : `${chosen} decided nothing in this time.`);
  return { shown: rate, lines, sentence };
 }
 const refusing = policies.filter((it) => sum(it.refused));
 const lines = refusing.slice(0, LISTED).map((it, index) => ({ name: it.policy, style: STYLES[index], at: of(it, "refused") }));
 const rest = refusing.slice(LISTED);
 if (rest.length) {
  lines.push({ name: `${rest.length} others`, style: STYLES[LISTED], at: (p) => sum(rest.map((it) => of(it, "refused")(p))) });
 }
 const all = sum(refusing.map((it) => sum(it.refused)));
 const sentence = () => (all
  ? `${refusing[0].policy} refused most: ${percent(sum(refusing[0].refused), all)} of all refusals.`
  : "No policy refused a request in this time.");
 return { shown: rate, lines, sentence };
}

function drawLarge() {
 if (!byId("by-policy").open || !state.points.length) return;
 large ??= new Plot(byId("by-policy-chart"), "Refusals in a second by policy", point, 240);
 large.draw(byPolicy(byId("by-policy-which").value), state.points, state.changes);
}

/** Opens the large chart for one policy. */
export function showChartOf(policy) {
 const part = byId("by-policy");
 part.open = true;
 byId("by-policy-which").value = policy;
 drawLarge();
 moved();
 part.scrollIntoView({ block: "nearest" });
 byId("by-policy-which").focus({ preventScroll: true });
}

/** The refusals of policies in a second, and those in shadow, by name. */
export const sparks = () => new Map(state.policies.map((it) => [it.policy, {
 refused: state.points.map(of(it, "refused")), shadow: state.points.map(of(it, "shadow_refused")),
}]));

function point(share) {
 const cursor = byId("cursor");
 cursor.value = share === null ? cursor.max : Math.round(share * cursor.max);
 moved();
}

/** Moves the cursor of all charts to the time that the slider says. */
function moved() {
 const { points } = state;
 const cursor = byId("cursor");
 const index = Math.min(Number(cursor.value), points.length - 1);
 const at = points[index];
 if (!at) return;
 const said = plots.map((plot) => plot.mark(index));
 if (large && byId("by-policy").open) large.mark(index);
 const when = `${Math.round(at.seconds)} s until ${time(at.time)}`;
 byId("cursor-time").textContent = when;
 cursor.setAttribute("aria-valuetext", `${when}: ${said.join("; ")}`);
}

/** Draws the charts. `changes`: the times at which something was changed. */
export function drawCharts(history, changes) {
 const cursor = byId("cursor");
 const atEnd = cursor.value === cursor.max;
 const items = history.items.map((it, index) => ({ ...it, index }));
 // The step in progress is too short to be compared.
 const complete = items.filter((p) => p.index < items.length - 1 || p.seconds > 0.9 * history.step);
 state = { points: complete.length ? complete : items, changes, policies: history.policies ?? [] };
 if (!plots.length) {
  plots = CHARTS.map((chart) => new Plot(byId("charts"), chart.title, point));
  cursor.addEventListener("input", moved);
  byId("by-policy").addEventListener("toggle", () => { drawLarge(); moved(); });
  byId("by-policy-which").addEventListener("change", () => { drawLarge(); moved(); });
  new ResizeObserver(redraw).observe(byId("charts"));
 }
 byId("cursor-row").hidden = state.points.length < 2;
 cursor.max = Math.max(0, state.points.length - 1);
 if (atEnd) cursor.value = cursor.max;
 redraw();
}

function redraw() {
 if (!state.points.length) return;
 plots.forEach((plot, index) => plot.draw(CHARTS[index], state.points, state.changes));
 drawLarge();
 moved();
}
