// The heaviest clients, and the last refusals.

import { clientPanel } from "./client.js";
import { el, small, tag } from "./elements.js";
import { share } from "./policies.js";
import { liveTable, opener } from "./rows.js";
import { amount, count, percent, span, time } from "./words.js";

/** All clients that are listed, each with its policy. */
export const clientsOf = (top) => top.policies.filter((it) => !it.policy.endsWith("~candidate"))
 .flatMap((policy) => policy.clients.map((it) => ({ ...it, policy: policy.policy, all: policy.requests })));

const NEAR = 0.8;
const key = (text) => el("code", { title: text }, text);

function used(it) {
 if (it.use === undefined) return "–";
 return [percent(it.use, 1), " ", it.use > NEAR ? tag("warn", it.use < 1 ? "▲ near" : "■ full") : ""];
}

const TOP = [
 { title: "Key", class: "cut", cell: (it) => key(it.text) },
 { title: "Id", class: "wider-only", cell: (it) => el("code", { class: "quiet" }, it.id) },
 { title: "Policy", class: "cut", cell: (it) => el("span", {}, it.policy, it.plan && el("span", { class: "quiet" }, `, plan ${it.plan}`)) },
 { title: "Refused", cell: (it) => share(it.refused, it.requests) },
 { title: "Requests", class: "num", cell: (it) => [it.error ? "≤ " : "", count(it.requests)] },
 { title: "Of the policy", class: "num wider-only", cell: (it) => percent(Math.min(it.requests, it.all), it.all) },
 { title: "Used of its limit", cell: used },
 { title: "Act", class: "act", cell: (it) => opener("top-table", `${it.id} ${it.policy}`, "Explain, act", `Explain ${it.text} under ${it.policy}, and act`, () => clientPanel({
  policy: it.policy, key: `~${it.id}`, plan: it.plan, text: it.text,
  about: `${count(it.requests)} requests, ${percent(it.refused, it.requests)} refused${it.error ? `, up to ${count(it.error)} too many counted` : ""}`,
 })) },
];

let topTable = null;

/** The clients: most refused first, or those first that have used the most of their limits. */
export function showTop(clients, order, policy) {
 topTable ??= liveTable("top-table", { caption: "Heaviest keys", columns: TOP, key: (it) => `${it.id} ${it.policy}`, empty: "No client has been counted in this time." });
 const byUse = order === "use" ? (a, b) => (b.use ?? 0) - (a.use ?? 0) : () => 0;
 topTable.update(clients.filter((it) => !policy || it.policy === policy).sort((a, b) => byUse(a, b) || b.refused - a.refused || b.requests - a.requests).slice(0, 50));
}

const waited = (it) => (typeof it.wait_ms === "number" ? span(it.wait_ms * 1000) : "never fits");
const usedOf = (it) => `${amount(it.used, it.unit)} of ${amount(it.limit, it.unit)}`;
const number = (it) => String(it.sequence);

const REFUSALS = [
 { title: "When", cell: (it) => el("time", { datetime: it.time }, time(it.time)) },
 { title: "Key", class: "cut", cell: (it) => key(it.key.text) },
 { title: "Policy", class: "cut", cell: (it) => it.policy },
 { title: "Used", class: "num", cell: usedOf },
 { title: "Told to wait", class: "num", cell: waited },
 { title: "Request", class: "cut long", cell: (it) => el("code", { title: `${it.method} ${it.path}` }, `${it.method} ${it.path}`) },
 { title: "Route", class: "wide-only", cell: (it) => [it.route, it.source === "store" ? "" : small(`judged by ${it.source}`)] },
 { title: "Act", class: "act", cell: (it) => opener("refusal-table", number(it), "Explain, act", `Explain the refusal of ${it.method} ${it.path} at ${time(it.time)}, and act`, () => clientPanel({
  policy: it.policy, key: `~${it.key.id}`, plan: it.plan, text: it.key.text, request: it,
  about: `refused at ${time(it.time)} with ${usedOf(it)} used, told to wait ${waited(it)}, judged by ${it.source}, request ${it.request_id}`,
 })) },
];

let refusalTable = null;

export function showRefusals(answer) {
 refusalTable ??= liveTable("refusal-table", { caption: "Last refusals", columns: REFUSALS, key: number, empty: "No refusal is remembered." });
 refusalTable.update(answer.items);
}
