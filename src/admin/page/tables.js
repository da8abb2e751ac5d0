// Policies, clients, refusals, upstreams and nodes.

import { bar, byId, el, show, table } from "./elements.js";
import { explainKey, explainRefusal } from "./explained.js";
import { chooseLimit, removeRule } from "./forms.js";
import { ago, count, limit, long, percent, rate, span, summed, time } from "./words.js";

const tag = (kind, text) => el("span", { class: `tag ${kind}` }, text);
const small = (text) => el("small", {}, text);
const act = (key, label, click, text) => el("button", { class: "small", "data-key": key, "aria-label": label, click }, text);
const explains = (key, what, click) => act(`explain ${key}`, `Explain ${what}`, click, "Explain");
const share = (part, all) => el("div", { class: "share" }, bar(part / (all || 1)), percent(part, all));
const none = (text) => el("p", { class: "quiet" }, text);
const fill = (id, data, rows, empty, make) => show(id, data, () => (rows.length ? make() : none(empty)));

function inForce(policy) {
 const parts = [];
 for (const [kind, name] of [["patch", "Changed"], ["candidate", "In shadow"]]) {
  const rule = policy[kind];
  if (!rule) continue;
  const values = kind === "patch"
   ? ["limit", "burst", "soft", "mode"].filter((it) => it in rule).map((it) => (it === "limit" ? rule[it] : `${it} ${rule[it]}`)).join(", ")
   : limit(rule.limit);
  parts.push(tag("warn", name), ` ${values}${rule.ends ? ` until ${time(rule.ends)}` : ""}`, small(`${rule.actor}: “${rule.reason}”`));
  if (kind === "candidate") {
   const { shadow, all } = summed(rule.outcomes);
   const warms = new Date(rule.warming_until) > Date.now() ? `, not yet for a whole window (${time(rule.warming_until)})` : "";
   parts.push(small(`would refuse ${percent(shadow, all)} of ${count(all)} here${warms}`));
  }
  parts.push(act(`${kind} ${policy.name}`, `Remove what is ${name.toLowerCase()} of ${policy.name}`, () => removeRule(policy.name, kind), "Remove"), " ");
 }
 parts.push(...(policy.ignored ?? []).map((it) => small(`Not in force here: ${it}`)));
 return parts.length ? parts : "–";
}

export function showPolicies(policies) {
 const rows = policies.map((it) => ({ ...it, last: summed(it.outcomes["5m"]), seconds: it.outcomes["5m"].seconds }));
 const part = (it) => it.last.refused / (it.last.all || 1);
 rows.sort((a, b) => part(b) - part(a) || b.last.all - a.last.all);
 const columns = [
  ["Policy", (it) => [it.name, " ", it.mode === "shadow" ? tag("warn", "shadow") : "", small(`by ${it.key}`)]],
  ["Limit", (it) => [limit(it.limit), small([it.algorithm.replaceAll("_", " "), it.plans && `${Object.keys(it.plans.limits).length} plan(s)`].filter(Boolean).join(", "))]],
  ["Decisions", (it) => [count(it.last.all), small(`${rate(it.last.all / (it.seconds || 1))} a second`)]],
  ["Refused", (it) => [share(it.last.refused, it.last.all),
   it.last.shadow ? small(`${percent(it.last.shadow, it.last.all)} would be, in shadow`) : "",
   it.last.open ? tag("bad", `${count(it.last.open)} not judged`) : ""]],
  ["Near limit", (it) => (it.use?.measured ? [percent(it.use.near, 1), small(`of ${count(it.use.measured)} measured used over 80 %`)] : "–")],
  ["In force", inForce],
  ["Act", (it) => act(`change ${it.name}`, `Change the limit of ${it.name}`, () => chooseLimit(it.name), "Change")],
 ];
 fill("policy-table", rows, rows, "No policy has an effect here.", () => table("Policies", columns, rows));
}

/** All clients that are listed, each with its policy. */
export const clientsOf = (top) => top.policies.filter((it) => !it.policy.endsWith("~candidate"))
 .flatMap((policy) => policy.clients.map((it) => ({ ...it, policy: policy.policy, all: policy.requests })));

const NEAR = 0.8;

/** Policies grouped by plan, if some have plans. */
export function showPlans(policies, clients) {
 const rows = policies.filter((it) => it.plans).flatMap((it) => Object.entries({ ...it.plans.limits, "": it.limit }).map(([plan, its]) => {
  const near = clients.filter((one) => one.policy === it.name && (one.plan ?? "") === plan && one.use > NEAR);
  return { plan, policy: it.name, limit: its, near: near.length, ...summed(it.by_plan?.[plan]) };
 }));
 rows.sort((a, b) => !a.plan - !b.plan || a.plan.localeCompare(b.plan));
 byId("plan-part").hidden = !rows.length;
 const columns = [
  ["Plan", (it) => it.plan || "no plan"],
  ["Policy", (it) => it.policy],
  ["Limit", (it) => limit(it.limit)],
  ["Decisions", (it) => count(it.all)],
  ["Refused", (it) => share(it.refused, it.all)],
  ["Near limit", (it) => (it.near ? tag("warn", `▲ ${count(it.near)} listed`) : "–")],
 ];
 fill("plan-table", rows, rows, "", () => table("Policies by plan", columns, rows));
}

/** The clients: most refused first, or those first that have used the most of their limits. */
export function showTop(clients, order) {
 const byUse = order === "use" ? (a, b) => (b.use ?? 0) - (a.use ?? 0) : () => 0;
 const rows = clients.sort((a, b) => byUse(a, b) || b.refused - a.refused || b.requests - a.requests).slice(0, 10);
 const columns = [
  ["Key", (it) => [el("code", {}, it.text), small(`id ${it.id}`)]],
  ["Policy", (it) => [it.policy, small(it.plan && `plan ${it.plan}`)]],
  ["Used", (it) => (it.use === undefined ? "–" : [`${percent(it.use, 1)} of its limit`, it.use > NEAR ? tag("warn", it.use < 1 ? "▲ near" : "■ full") : ""])],
  ["Requests", (it) => [count(it.requests), small(`${percent(Math.min(it.requests, it.all), it.all)} of the policy's${it.error ? `; up to ${count(it.error)} too many` : ""}`)]],
  ["Refused", (it) => share(it.refused, it.requests)],
  ["Act", (it) => explains(`key ${it.id} ${it.policy}`, `key ${it.text}`, () => explainKey(it))],
 ];
 fill("top-table", rows, rows, "No client has been counted in this time.", () => table("Heaviest keys", columns, rows));
}

export function showRefusals(answer) {
 const rows = answer.items.slice(0, 12);
 const columns = [
  ["When", (it) => el("time", { datetime: it.time }, time(it.time))],
  ["Key", (it) => [el("code", {}, it.key?.text ?? "–"), small(it.policy)]],
  ["Used", (it) => [`${count(it.used)} of ${count(it.limit)}`, small(typeof it.wait_ms === "number" ? `told to wait ${span(it.wait_ms * 1000)}` : "will never fit")]],
  ["Request", (it) => [el("code", {}, `${it.method} ${it.path}`), small([it.route, it.source !== "store" && it.source].filter(Boolean).join(", "))]],
  ["Act", (it) => explains(`refusal ${it.request_id}`, `the refusal of ${it.method} ${it.path} at ${time(it.time)}`, () => explainRefusal(it))],
 ];
 fill("refusal-table", rows, rows, "No refusal is remembered.", () => table("Last refusals", columns, rows));
}

const STATES = { up: ["good", "✓ up"], starting: ["warn", "▲ starting"], down: ["bad", "■ down"], ejected: ["bad", "■ ejected"] };

export function showUpstreams(upstreams) {
 const rows = upstreams.flatMap((it) => it.endpoints.map((endpoint) => ({ ...endpoint, upstream: it })));
 const columns = [
  ["Endpoint", (it) => [el("code", {}, it.address), small(it.upstream.name)]],
  ["State", (it) => [tag(...(STATES[it.state] ?? ["warn", it.state])), it.for_ms ? small(`for another ${long(it.for_ms / 1000)}`) : ""]],
  ["In flight", (it) => (it.upstream.max_in_flight ? `${count(it.upstream.in_flight)} of ${count(it.upstream.max_in_flight)}` : "not bounded")],
 ];
 // The rest of an ejection counts down; that alone is no reason to draw anew.
 const data = rows.map((it) => ({ ...it, for_ms: it.for_ms && Math.round(it.for_ms / 5000) }));
 fill("upstream-table", data, rows, "This node answers itself: it has no upstreams.", () => table("Upstreams", columns, rows));
}

/** Whether the configuration of a node is that of this one. */
function sameness(sections) {
 if (!sections) return tag("warn", "▲ configuration of another version: not compared");
 return sections.length ? tag("bad", `■ configuration differs in ${sections.join(", ")}`) : tag("good", "✓ same configuration");
}

export function showNodes(nodes) {
 const rows = nodes.items;
 const columns = [
  ["Node", (it) => [el("code", {}, it.id), small([it.this && "this node", it.version, it.admin].filter(Boolean).join(", "))]],
  ["Seen", (it) => (it.this ? "now" : it.seen ? ago(it.seen) : "alive")],
  ["A second", (it) => [`${rate(it.requests_per_s)} requests`, small(`${rate(it.refusals_per_s)} refused`)]],
  ["State", (it) => [
   sameness(it.differs_in), " ",
   it.breakers_open ? tag("bad", "■ store away") : "", small(it.memory_bytes ? `${count(Math.round(it.memory_bytes / 1048576))} MiB` : ""),
   ...(it.ignored_patches ?? []).map((one) => small(`Not in force: ${one.policy}: ${one.because}`)),
  ]],
 ];
 fill("node-table", rows, rows, "No node is known.", () => table("Nodes", columns, rows));
}
