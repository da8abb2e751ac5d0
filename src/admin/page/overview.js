// What is wrong, the figures of this second, and what changed.

import { byId, el, show } from "./elements.js";
import { ago, atMost, count, deed, long, percent, rate, time } from "./words.js";

const WORDS = { ok: "✓ Working", degraded: "▲ Degraded", draining: "■ Finishing" };

function say(state, text) {
 const place = byId("state");
 place.dataset.state = state;
 if (place.textContent !== text) place.textContent = text;
 document.title = `${text.slice(0, 1)} Tollgate`;
}

/** The status that was shown last. */
let last = null;

/** A caller that sees the API keys alone does not learn how the node is. */
export function showSignedIn({ name, teams }) {
 say("ok", "✓ Signed in");
 byId("contact").textContent = `${name}, for API keys${teams ? ` of ${teams.join(", ")}` : ""} alone`;
 document.body.classList.remove("stale");
}

/** The state: the only part that is read aloud when it changes. */
export function showState(status) {
 last = status;
 say(status.state, WORDS[status.state] ?? status.state);
 byId("node").textContent = `${status.version} at ${location.host}`;
 show("reasons", [status.state, status.reasons, Math.floor(Date.now() / 60000)], () => reasons(status));
 byId("store").textContent = status.nodes > 1
  ? `${status.nodes} nodes share the store.`
  : "No other node shares the store, or it is in memory.";
}

const REFUSALS = "refuses_unusually_many";
let choose = null;
/** `work` shows the clients of the policy that it is given. */
export const whenChosen = (work) => { choose = work; };

/** A text in which the name of a policy leads to its clients. */
function linked(text) {
 const [, before, name, after] = /^(.*policy ")([^"]+)(".*)$/.exec(text) ?? [];
 // A report on a configuration points at places in its lines.
 if (text.includes("\n")) return [el("pre", { tabindex: "0", role: "group", "aria-label": "Report" }, text)];
 if (!name) return [text];
 return [before, el("button", { class: "link", type: "button", "data-key": name, "aria-label": `Clients of ${name}`, click: () => choose(name) }, name), after];
}

/** What is wrong, by code: several policies or upstreams with the same trouble are one item. */
function grouped(all) {
 const groups = new Map();
 for (const it of all) groups.set(it.code, [...(groups.get(it.code) ?? []), it]);
 // That policies refuse much may follow from what else is wrong.
 const ordered = [...groups.values()].sort((a, b) => (a[0].code === REFUSALS) - (b[0].code === REFUSALS));
 return ordered.map((group) => {
  const { code, advice } = group[0];
  const since = group.map((it) => it.since).sort()[0];
  const many = group.length > 1 ? ` (${group.length})` : "";
  return el("li", { class: "bad" },
   el("strong", {}, `▲ ${code.replaceAll("_", " ")}${many}, since ${time(since)} (${ago(since)})`),
   group.length > 1 ? el("ul", {}, ...group.map((it) => el("li", {}, ...linked(it.text)))) : [...linked(group[0].text), group[0].text.includes("\n") ? "" : ": "],
   el("em", {}, advice));
 });
}

function reasons(status) {
 const all = grouped(status.reasons);
 if (status.state === "draining") all.unshift(el("li", { class: "warn" }, el("strong", {}, "■ This node finishes its last requests"), "Ask another node."));
 if (!all.length) all.push(el("li", { class: "good" }, el("strong", {}, "✓ This node knows of nothing that is wrong"), "Its store answers, its upstreams are up, and its last reload worked."));
 return all;
}

/** There is no contact: what is shown is old, and whether anything is wrong is not known. */
export function showAway(since, why) {
 say("away", `■ No contact since ${time(since)}`);
 byId("contact").textContent = `What you see is from then: ${why}`;
 document.body.classList.add("stale");
 const known = last?.reasons ?? [];
 show("reasons", ["away", +since, known], () => [
  el("li", { class: "bad" }, el("strong", {}, `■ No contact with this node since ${time(since)}`),
   "It is not known what is wrong now. The node may have stopped, or the connection to it."),
  ...grouped(known),
 ]);
}

/** The figures of the last second. `minute`: those of the last minute; `trouble`: what is old. */
export function showFigures(second, minute, trouble) {
 document.body.classList.remove("stale");
 byId("contact").textContent = `Live, ${time(second.time)}${trouble}`;
 const of = minute ?? second;
 const wide = minute ? `over ${long(minute.seconds)}` : "now";
 const judged = Object.values(of.sources).reduce((a, b) => a + b, 0) - (of.sources.unasked ?? 0);
 const store = of.sources.store ?? 0;
 const share = (part) => (of.requests ? `${percent(part, of.requests)} ${wide}` : `no request ${wide}`);
 const items = [
  ["Requests", rate(second.per_second.requests), "/s", `${count(second.active)} in progress`],
  ["Refused", rate(second.per_second.refused), "/s", share(of.refused)],
  ["Answered with 5xx", rate(second.per_second.errors), "/s", share(of.by_class["5xx"] ?? 0)],
  ["Duration, p99", atMost(of.duration_us.p99), "", `p50 ${atMost(of.duration_us.p50)}`],
  ["Own time, p99", atMost(of.own_us.p99), "", "without upstreams"],
  ["Decision, p99", atMost(of.decision_ns.p99, 1000), "", wide],
  ["Judged by the store", judged ? percent(store, judged) : "–", "", judged > store && judged ? "the rest by this node alone, or not" : wide],
  ["Busiest worker", second.busy.busiest === null ? "–" : percent(second.busy.busiest, 1), "", `of ${second.busy.workers}, in this second`],
 ];
 show("figures", items, () => items.map(([name, value, unit, note]) => el("div", {}, el("dt", {}, name),
  el("dd", {}, el("span", { class: "value" }, value), " ", el("span", { class: "unit" }, unit)), el("dd", { class: "note" }, note))));
}

const ABOUT = ["actor", "since", "reason", "ends", "id", "secrets", "last_used"];
const isSaid = ([name, it]) => !ABOUT.includes(name) && it !== null && !(it instanceof Object && !Object.keys(it).length);
const said = (it) => (it instanceof Object
 ? Object.entries(it).filter(isSaid).map(([name, value]) => `${name} ${said(value)}`).join(", ") : it);

/** The last changes, the newest first. Returns their times. */
export function showChanges(status, entries) {
 const load = status && {
  time: status.loaded,
  text: status.generation === 1 ? "The node began with its configuration" : `Configuration ${status.generation} came into use`,
 };
 const all = entries.map((it) => {
  const change = [it.before, it.after].filter((value) => value !== undefined).map(said).join(" → ");
  return { time: it.time, text: deed(it), by: `${it.actor || "unknown"} from ${it.peer}`, change, reason: it.after?.reason };
 });
 const items = [...all, load].filter(Boolean).sort((a, b) => new Date(b.time) - new Date(a.time));
 const item = (it) => el("li", {}, el("time", { datetime: it.time }, `${time(it.time)}, ${ago(it.time)}`),
  el("span", {}, it.text, it.change && ": ", it.change && el("code", {}, it.change), it.reason && ` “${it.reason}”`,
   it.by && el("span", { class: "quiet" }, ` by ${it.by}`)));
 show("audit", [items, Math.floor(Date.now() / 60000)], () => {
  const rest = items.slice(3);
  const more = el("li", {}, el("details", {}, el("summary", {}, `${rest.length} more`),
   el("ol", { class: "changes" }, ...rest.slice(0, 60).map(item))));
  return [...items.slice(0, 3).map(item), ...(rest.length ? [more] : [])];
 });
 return items.map((it) => +new Date(it.time));
}
