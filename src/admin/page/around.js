// Upstreams, and the nodes that share the store.

import { el, small, tag } from "./elements.js";
import { liveTable } from "./rows.js";
import { ago, count, long, rate } from "./words.js";

const STATES = { up: ["good", "✓ up"], starting: ["warn", "▲ starting"], down: ["bad", "■ down"], ejected: ["bad", "■ ejected"] };
const BAD = ["down", "ejected", "starting", "up"];

const ENDPOINTS = [
 { title: "Endpoint", class: "cut", cell: (it) => el("code", { title: it.address }, it.address) },
 { title: "Upstream", cell: (it) => it.upstream },
 { title: "State", cell: (it) => [tag(...(STATES[it.state] ?? ["warn", it.state])), it.for_ms ? ` for another ${long(it.for_ms / 1000)}` : ""] },
 { title: "In flight", class: "num", cell: (it) => (it.most ? `${count(it.in_flight)} of ${count(it.most)}` : "–") },
];

let endpoints = null;

/** The endpoints, those first that get no requests. */
export function showUpstreams(upstreams) {
 endpoints ??= liveTable("upstream-table", { caption: "Upstreams", columns: ENDPOINTS, key: (it) => `${it.upstream} ${it.address}`, empty: "This node answers itself: it has no upstreams." });
 // The rest of an ejection counts down; that alone is no reason to draw anew.
 endpoints.update(upstreams.flatMap((it) => it.endpoints.map((endpoint) => ({
  ...endpoint, for_ms: endpoint.for_ms && Math.round(endpoint.for_ms / 5000) * 5000, upstream: it.name, in_flight: it.in_flight, most: it.max_in_flight,
 }))).sort((a, b) => BAD.indexOf(a.state) - BAD.indexOf(b.state)));
}

/** Whether the configuration of a node is that of this one. */
function sameness(sections) {
 if (!sections) return tag("warn", "▲ configuration of another version: not compared");
 return sections.length ? tag("bad", `■ configuration differs in ${sections.join(", ")}`) : tag("good", "✓ same configuration");
}

const NODES = [
 { title: "Node", cell: (it) => [el("code", {}, it.id), it.this && el("span", { class: "quiet" }, " this node")] },
 { title: "Seen", cell: (it) => (it.this ? "now" : it.seen ? ago(it.seen) : "alive") },
 { title: "Requests", class: "num", cell: (it) => [rate(it.requests_per_s), el("span", { class: "unit" }, " /s")] },
 { title: "Refused", class: "num", cell: (it) => [rate(it.refusals_per_s), el("span", { class: "unit" }, " /s")] },
 { title: "State", class: "loose", cell: (it) => [
  sameness(it.differs_in), " ", it.breakers_open ? tag("bad", "■ store away") : "",
  ...(it.ignored_patches ?? []).map((one) => small(`Not in force: ${one.policy}: ${one.because}`)),
 ] },
 { title: "Memory", class: "num wide-only", cell: (it) => (it.memory_bytes ? `${count(Math.round(it.memory_bytes / 1048576))} MiB` : "–") },
 { title: "Version", class: "wide-only", cell: (it) => it.version ?? "–" },
 { title: "Admin", class: "wide-only cut", cell: (it) => it.admin ?? "–" },
];

let table = null;

export function showNodes(nodes) {
 table ??= liveTable("node-table", { caption: "Nodes", columns: NODES, key: (it) => it.id, empty: "No node is known." });
 table.update(nodes.items);
}
