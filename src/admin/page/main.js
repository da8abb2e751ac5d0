// Asks for the token, follows the events, and asks for the rest now and then.

import { events, get, hasToken, setToken } from "./api.js";
import { drawCharts } from "./charts.js";
import { byId } from "./elements.js";
import { knowPolicies, prepareForms } from "./forms.js";
import { showAway, showChanges, showFigures, showState } from "./overview.js";
import { clientsOf, showNodes, showPlans, showPolicies, showRefusals, showTop, showUpstreams } from "./tables.js";

const UNKNOWN = "This token is not valid, or no longer valid.";
let ended = new AbortController();
let status = null;
let lastContact = new Date();

function login(why) {
 ended.abort();
 setToken(null, false);
 for (const id of ["page", "nav", "leave"]) byId(id).hidden = true;
 byId("login").hidden = false;
 byId("login-fault").textContent = why;
 byId("state").textContent = "Not connected";
 byId("state").dataset.state = "unknown";
 byId("contact").textContent = "";
 byId("token").value = "";
 byId("token").focus();
}

const trouble = new Map();

/** Runs a refresh. If it fails, its part is old, which is said until it works again. */
async function attempt(work) {
 const { signal } = ended;
 try {
  await work();
  trouble.delete(work);
 } catch (fault) {
  if (signal.aborted) return;
  if (fault.status === 401) login(UNKNOWN);
  else trouble.set(work, fault.message);
 }
}

async function all(path) {
 const items = [];
 let after = "";
 do {
  const page = await get(`${path}?limit=1000${after}`);
  items.push(...page.items);
  after = page.next ? `&after=${encodeURIComponent(page.next)}` : null;
 } while (after !== null);
 return items;
}

async function refreshStatus() {
 status = await get("/v1/status");
 showState(status);
}

async function refreshTables() {
 const [policies, top, refusals, upstreams] = await Promise.all([
  all("/v1/policies"), get(`/v1/top?limit=128&minutes=${byId("top-minutes").value}`),
  get("/v1/refusals?limit=12"), all("/v1/upstreams"),
 ]);
 knowPolicies(policies);
 showPolicies(policies);
 const clients = clientsOf(top);
 showPlans(policies, clients);
 showTop(clients, byId("top-order").value);
 showRefusals(refusals);
 showUpstreams(upstreams);
}

async function refreshHistory() {
 const young = !(status?.rates?.seconds > 55);
 const [history, audit, nodes] = await Promise.all([
  get(`/v1/history?step=${young ? 1 : 10}`), get("/v1/audit?limit=256"), get("/v1/nodes"),
 ]);
 const changes = showChanges(status, audit.items);
 drawCharts(history.items, changes, history.step);
 showNodes(nodes);
}

function onEvent(name, data) {
 lastContact = new Date();
 if (name === "summary") showFigures(data, status?.rates, [...trouble.values()].map((it) => `; a part is old: ${it}`).join(""));
 else if (name === "state") {
  status = { ...data, rates: status?.rates };
  showState(status);
 } else if (name === "end") throw new Error(data.because);
}

async function follow(signal) {
 for (let failures = 0; !signal.aborted;) {
  const begun = Date.now();
  try {
   await events("summary,state", signal, onEvent);
   showAway(lastContact, "The stream of figures has ended; trying again.");
  } catch (fault) {
   if (signal.aborted) return;
   if (fault.status === 401 || fault.status === 403) return login(fault.status === 401 ? UNKNOWN : fault.message);
   showAway(lastContact, `${fault.message}; trying again.`);
  }
  failures = Date.now() - begun > 10000 ? 0 : failures + 1;
  await new Promise((done) => setTimeout(done, Math.min(5000, 1000 * 2 ** failures)));
 }
}

/** Repeats `work` until the session ends, and rests while the page is not looked at. */
function every(ms, signal, work) {
 const turn = async () => {
  if (signal.aborted) return;
  if (!document.hidden) await attempt(work);
  setTimeout(turn, ms);
 };
 setTimeout(turn, ms);
}

async function begin() {
 ended = new AbortController();
 const { signal } = ended;
 byId("login").hidden = true;
 for (const id of ["page", "nav", "leave"]) byId(id).hidden = false;
 follow(signal);
 await attempt(refreshStatus);
 if (signal.aborted) return;
 await Promise.all([attempt(refreshTables), attempt(refreshHistory)]);
 every(5000, signal, refreshStatus);
 every(4000, signal, refreshTables);
 every(5000, signal, refreshHistory);
}

byId("login").addEventListener("submit", async (event) => {
 event.preventDefault();
 setToken(byId("token").value.trim(), byId("keep").checked);
 try {
  await get("/v1/status");
 } catch (fault) {
  return login(fault.status === 401 ? UNKNOWN : fault.message);
 }
 byId("login-fault").textContent = "";
 byId("token").value = "";
 await begin();
 byId("main").focus({ preventScroll: true });
});
byId("leave").addEventListener("click", () => {
 setToken(null, false);
 location.reload();
});
for (const id of ["top-minutes", "top-order"]) byId(id).addEventListener("change", () => attempt(refreshTables));
prepareForms(() => Promise.all([attempt(refreshTables), attempt(refreshHistory)]));
if (hasToken()) begin();
else login("");
