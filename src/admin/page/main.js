// Asks for the token, follows the events, and asks for the rest now and then.

import { events, get, hasToken, setToken } from "./api.js";
import { showNodes, showUpstreams } from "./around.js";
import { drawCharts } from "./charts.js";
import { clientsOf, showRefusals, showTop } from "./clients.js";
import { knowPolicies } from "./client.js";
import { byId, showOld } from "./elements.js";
import { knowNames, prepareForms } from "./forms.js";
import { forgetSecret } from "./key.js";
import { prepareKeys, showKeys } from "./keys.js";
import { showAway, showChanges, showFigures, showSignedIn, showState, whenChosen } from "./overview.js";
import { shownPolicies, showPlans, showPolicies } from "./policies.js";
import { whenDone } from "./results.js";

const UNKNOWN = "This token is not valid, or no longer valid.";
let ended = new AbortController();
let status = null;
let lastContact = new Date();

function login(why) {
 ended.abort();
 setToken(null, false);
 forgetSecret();
 for (const id of ["page", "nav", "leave"]) byId(id).hidden = true;
 byId("login").hidden = false;
 byId("login-fault").textContent = why;
 byId("state").textContent = "Not connected";
 byId("state").dataset.state = "unknown";
 byId("contact").textContent = "";
 byId("token").value = "";
 byId("token").focus();
}

/** Why parts are old, by the names of parts. */
const trouble = new Map();

/**
 * Refreshes a part of the page. If that fails, the part alone is old, and says so until it works
 * again.
 */
async function attempt({ name, id, work }) {
 const { signal } = ended;
 try {
  await work();
  trouble.delete(name);
  showOld(id);
 } catch (fault) {
  if (signal.aborted) return;
  if (fault.status === 401) return login(UNKNOWN);
  trouble.set(name, fault.message);
  // That the node cannot be reached is said once, for all parts.
  if (fault.status) showOld(id, fault.message);
 }
}

const refresh = (parts) => Promise.all(parts.map(attempt));

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

/** What parts know that others show, too. */
const known = { policies: [], clients: [], changes: [], history: null };

function drawHistory() {
 if (!known.history) return;
 drawCharts(known.history, known.changes);
 showPolicies(known.policies);
}
const drawTop = () => showTop(known.clients, byId("top-order").value, byId("top-policy").value);
const drawPlans = () => showPlans(known.policies, known.clients);

const STATUS = [{
 name: "the status", id: "reasons",
 work: async () => {
  status = await get("/v1/status");
  showState(status);
 },
}];

const CLIENTS = {
 name: "the heaviest keys", id: "top-table",
 work: async () => {
  known.clients = clientsOf(await get(`/v1/top?limit=128&minutes=${byId("top-minutes").value}`));
  drawTop();
  drawPlans();
 },
};

const TABLES = [
 {
  name: "the policies", id: "policy-table",
  work: async () => {
   known.policies = await all("/v1/policies");
   knowPolicies(known.policies);
   knowNames(known.policies.map((it) => it.name));
   showPolicies(known.policies);
   drawPlans();
  },
 },
 CLIENTS,
 { name: "the refusals", id: "refusal-table", work: async () => showRefusals(await get("/v1/refusals?limit=40")) },
 { name: "the upstreams", id: "upstream-table", work: async () => showUpstreams(await all("/v1/upstreams")) },
];

const HISTORY = [
 {
  name: "the charts", id: "charts",
  work: async () => {
   const young = !(status?.rates?.seconds > 55);
   known.history = await get(`/v1/history?step=${young ? 1 : 10}&policies=${shownPolicies()}`);
   drawHistory();
  },
 },
 {
  name: "the changes", id: "audit",
  work: async () => {
   known.changes = showChanges(status, (await get("/v1/audit?limit=256")).items);
   drawHistory();
  },
 },
 { name: "the nodes", id: "node-table", work: async () => showNodes({ items: await all("/v1/nodes") }) },
];

function onEvent(name, data) {
 lastContact = new Date();
 if (name === "summary") showFigures(data, status?.rates, trouble.size ? `; not refreshed: ${[...trouble.keys()].join(", ")}` : "");
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
   showAway(lastContact, "the stream of figures has ended; trying again.");
  } catch (fault) {
   if (signal.aborted) return;
   if (fault.status === 401 || fault.status === 403) return login(fault.status === 401 ? UNKNOWN : fault.message);
   showAway(lastContact, `${fault.message}; trying again.`);
  }
  failures = Date.now() - begun > 10000 ? 0 : failures + 1;
  await new Promise((done) => setTimeout(done, Math.min(5000, 1000 * 2 ** failures)));
 }
}

/** Refreshes parts until the session ends, and rests while the page is not looked at. */
function every(ms, signal, parts) {
 const turn = async () => {
  if (signal.aborted) return;
  if (!document.hidden) await refresh(parts);
  setTimeout(turn, ms);
 };
 setTimeout(turn, ms);
}

/** Who the token belongs to. Asks until the node answers, or the session ends. */
async function callerOf(signal) {
 while (!signal.aborted) {
  try {
   return await get("/v1/caller");
  } catch (fault) {
   if (signal.aborted) return null;
   if (fault.status === 401 || fault.status === 403) {
    login(fault.status === 401 ? UNKNOWN : fault.message);
    return null;
   }
   showAway(lastContact, `${fault.message}; trying again.`);
  }
  await new Promise((done) => setTimeout(done, 2000));
 }
 return null;
}

async function begin() {
 ended.abort();
 ended = new AbortController();
 const { signal } = ended;
 trouble.clear();
 byId("login").hidden = true;
 byId("leave").hidden = false;
 const caller = await callerOf(signal);
 if (!caller) return;
 const isForKeys = caller.role === "keys";
 byId("page").classList.toggle("only-keys", isForKeys);
 byId("page").hidden = false;
 byId("nav").hidden = isForKeys;
 showKeys(caller);
 if (isForKeys) return showSignedIn(caller);
 follow(signal);
 await refresh(STATUS);
 if (signal.aborted) return;
 await refresh([...TABLES, ...HISTORY]);
 every(5000, signal, STATUS);
 every(4000, signal, TABLES);
 every(5000, signal, HISTORY);
}

async function signIn() {
 const token = byId("token").value.trim();
 // A field of a request has no other characters than a token.
 if (!/^[!-~]+$/.test(token)) return login("This is not a token: it has a space, or a letter that tokens do not have.");
 setToken(token, byId("keep").checked);
 try {
  await get("/v1/caller");
 } catch (fault) {
  return login(fault.status === 401 ? UNKNOWN : fault.message);
 }
 byId("login-fault").textContent = "";
 byId("token").value = "";
 // The focus moves at once: later the user may be elsewhere.
 begin();
 byId("main").focus({ preventScroll: true });
}
byId("login").addEventListener("submit", (event) => {
 event.preventDefault();
 const button = byId("login").querySelector("[type=submit]");
 // A double click would begin two sessions, of which only the last could be ended.
 if (button.ariaBusy === "true") return;
 button.ariaBusy = "true";
 signIn().finally(() => { button.ariaBusy = "false"; });
});
byId("leave").addEventListener("click", () => {
 setToken(null, false);
 location.reload();
});
for (const id of ["top-order", "top-policy"]) byId(id).addEventListener("change", drawTop);
whenChosen((policy) => {
 byId("top-policy").value = policy;
 drawTop();
 byId("clients").scrollIntoView({ block: "start" });
 byId("top-policy").focus({ preventScroll: true });
});
byId("top-minutes").addEventListener("change", () => attempt(CLIENTS));
whenDone(() => refresh([...TABLES, ...HISTORY]));
prepareForms();
prepareKeys();
if (hasToken()) begin();
else login("");
