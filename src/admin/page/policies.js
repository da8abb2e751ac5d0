// The tables of policies and of their plans.

import { changeForm, removeRule } from "./change.js";
import { showChartOf, sparks } from "./charts.js";
import { bar, byId, el, small, tag } from "./elements.js";
import { spark } from "./plot.js";
import { during } from "./results.js";
import { liveTable, open, opener } from "./rows.js";
import { count, limit, percent, plural, rate, summed, time } from "./words.js";

export const share = (part, all, kind = "") => el("div", { class: `share ${kind}` }, bar(part / (all || 1)), percent(part, all));

/** Of a policy in shadow, what it would refuse. */
const refused = (it) => (it.mode === "shadow" && it.last.all
 ? [share(it.last.shadow, it.last.all, "would")]
 : [share(it.last.refused, it.last.all)]).concat(it.last.open ? tag("bad", `${count(it.last.open)} not judged`) : []);

const KINDS = [["patch", "Changed"], ["candidate", "In shadow"]];

/** What is changed of a policy, or tried. */
function inForce(policy) {
 const parts = [];
 for (const [kind, name] of KINDS.filter(([kind]) => policy[kind])) {
  const rule = policy[kind];
  const plans = Object.entries(rule.plans ?? {}).map(([plan, its]) => `plan ${plan} ${its}`);
  const values = kind === "patch"
   ? ["limit", "burst", "soft", "mode"].filter((it) => it in rule).map((it) => (it === "limit" ? rule[it] : `${it} ${rule[it]}`)).concat(plans).join(", ")
   : [limit(rule.limit), ...plans].join(", ");
  const about = [`${rule.actor}: “${rule.reason}”`];
  if (kind === "candidate") {
   const { shadow, all } = summed(rule.outcomes);
   about.unshift(`would refuse ${percent(shadow, all)} of ${count(all)} here`);
   if (new Date(rule.warming_until) > Date.now()) about.push(`not yet for a whole window (${time(rule.warming_until)})`);
  }
  const place = el("div", { class: "result", tabindex: "-1", hidden: "" });
  const remove = el("button", { class: "small", type: "button", "data-key": kind, "aria-label": `Remove what is ${name.toLowerCase()} of ${policy.name}` }, "Remove");
  remove.addEventListener("click", () => during(remove, place, async () => {
   open("policy-table", policy.name, `Change ${policy.name}`, () => [place]);
   await removeRule(policy, kind, place);
  }));
  parts.push(el("div", { class: "rule" }, tag("warn", name), ` ${values}${rule.ends ? ` until ${time(rule.ends)}` : ""} `, remove), small(about.join(" · ")));
 }
 parts.push(...(policy.ignored ?? []).map((it) => small(`Not in force here: ${it}`)));
 return parts.length ? parts : "–";
}

/** The refusals of the last minutes as a small chart, and the last value. */
function trend(it) {
 const isShadow = it.mode === "shadow";
 const values = it.trend[isShadow ? "shadow" : "refused"];
 const last = values.at(-1) ?? 0;
 return el("button", {
  class: "plain", type: "button", "data-key": "chart", "aria-label": `Chart of ${it.name}: ${rate(last)} a second are refused${isShadow ? " in shadow" : ""} now`,
  click: () => showChartOf(it.name),
 }, spark(values, isShadow ? "l4" : "l2"), el("span", {}, rate(last)));
}

const COLUMNS = [
 { title: "Policy", cell: (it) => [it.name, it.mode === "shadow" && tag("warn", "in shadow")] },
 { title: "Counts by", class: "cut known", cell: (it) => el("span", { class: "quiet", title: it.key }, it.key) },
 { title: "Limit", cell: (it) => [limit(it.limit), it.plans && el("span", { class: "quiet" }, ` + ${plural(Object.keys(it.plans.limits).length, "plan")}`)] },
 { title: "Refused a second", class: "wide", cell: trend },
 { title: "Refused, 5 min", cell: refused },
 { title: "Decisions", class: "num", cell: (it) => [rate(it.last.all / (it.seconds || 1)), el("span", { class: "unit" }, " /s")] },
 { title: "Near limit", class: "num", cell: (it) => (it.use?.measured ? percent(it.use.near, 1) : "–") },
 { title: "Unsettled", class: "num wider-only", cell: (it) => (it.unsettled ? count(Object.values(it.unsettled).reduce((sum, one) => sum + one, 0)) : "–") },
 { title: "Changed", class: "loose", cell: inForce },
 { title: "Act", class: "act", cell: (it) => opener("policy-table", it.name, "Change", `Change ${it.name}`, () => changeForm(it)) },
];

let policyTable = null;
const NO_TREND = { refused: [], shadow: [] };

/** The policies, those first that have refused most in five minutes. */
export function showPolicies(policies) {
 policyTable ??= liveTable("policy-table", { caption: "Policies", columns: COLUMNS, key: (it) => it.name, empty: "No policy has an effect here.", most: 12 });
 const trends = sparks();
 const rows = policies.map((it) => ({ ...it, last: summed(it.outcomes["5m"]), seconds: it.outcomes["5m"].seconds, trend: trends.get(it.name) ?? NO_TREND }));
 rows.sort((a, b) => b.last.refused - a.last.refused || b.last.shadow - a.last.shadow || b.last.all - a.last.all);
 policyTable.update(rows);
}

/** How many policies are shown: as many need their refusals over time. */
export const shownPolicies = () => Math.min(100, Math.max(12, policyTable?.shown() ?? 0));

const NEAR = 0.8;

const PLAN_COLUMNS = [
 { title: "Plan", cell: (it) => it.plan || "no plan" },
 { title: "Policy", cell: (it) => it.policy.name },
 { title: "Limit", cell: (it) => limit(it.limit) },
 { title: "Refused", cell: (it) => share(it.refused, it.all) },
 { title: "Decisions", class: "num", cell: (it) => count(it.all) },
 { title: "Near limit", cell: (it) => (it.near ? tag("warn", `▲ ${count(it.near)} listed`) : "–") },
 { title: "Act", class: "act", cell: (it) => opener("plan-table", `${it.plan} ${it.policy.name}`, "Change", `Change ${it.plan || "the limit without a plan"} of ${it.policy.name}`, () => changeForm(it.policy, it.plan)) },
];

let planTable = null;

/** Policies grouped by plan, if some have plans. */
export function showPlans(policies, clients) {
 const rows = policies.filter((it) => it.plans).flatMap((policy) => Object.entries({ ...policy.plans.limits, "": policy.limit }).map(([plan, its]) => {
  const near = clients.filter((one) => one.policy === policy.name && (one.plan ?? "") === plan && one.use > NEAR);
  return { plan, policy, limit: its, near: near.length, ...summed(policy.by_plan?.[plan]) };
 }));
 rows.sort((a, b) => !a.plan - !b.plan || a.plan.localeCompare(b.plan));
 byId("plan-part").hidden = !rows.length;
 if (!rows.length && !planTable) return;
 planTable ??= liveTable("plan-table", { caption: "Policies by plan", columns: PLAN_COLUMNS, key: (it) => `${it.plan} ${it.policy.name}`, empty: "" });
 planTable.update(rows);
}
