// Forms: explain, change a limit, and one key.

import { getTagged, get, send } from "./api.js";
import { byId, el, show } from "./elements.js";
import { explainNow, pairs, showResult } from "./explained.js";
import { count, limit, long, time } from "./words.js";

let changed = () => {};
let policies = [];

const at = (...parts) => `/v1/policies/${parts.map(encodeURIComponent).join("/")}`;

/** Shows why something was not done, and what would be right. */
const fault = (id) => (error) => {
 const item = (it) => el("li", {}, it.message, it.help && el("small", {}, it.help));
 const mistakes = error.mistakes ?? [];
 showResult(id, true, "✗ It was not done",
  error.message && el("p", {}, error.message),
  mistakes.length > 0 && el("ul", {}, ...mistakes.map(item)));
};

/** Runs `work` once at a time; its button is busy meanwhile. */
function during(button, id, work) {
 if (button.ariaBusy === "true") return;
 button.ariaBusy = "true";
 work().catch(fault(id)).finally(() => {
  button.ariaBusy = "false";
  changed();
 });
}

export function knowPolicies(all) {
 policies = all;
 const names = all.map((it) => it.name);
 for (const id of ["l-policy", "k-policy"]) {
  show(id, names, () => names.map((name) => el("option", { selected: byId(id).value === name ? "" : undefined }, name)));
 }
 describe();
}

function describe() {
 const policy = policies.find((it) => it.name === byId("l-policy").value);
 byId("l-now").textContent = policy ? `Now: ${limit(policy.limit)}` : "";
 byId("l-scope").textContent = `Apply now, on ${policy?.changes_scope === "cluster" ? "all nodes" : "this node"}`;
 const one = policies.find((it) => it.name === byId("k-policy").value);
 byId("k-own").hidden = !one?.overrides;
}

export function chooseLimit(name) {
 byId("l-policy").value = name;
 describe();
 byId("limit").scrollIntoView({ block: "center" });
 byId("l-limit").focus();
}

const how = () => document.querySelector("input[name=how]:checked").value;

async function changeLimit() {
 const name = byId("l-policy").value;
 const { body: before, tag } = await getTagged(at(name));
 const body = { limit: byId("l-limit").value.trim(), for: byId("l-for").value, reason: byId("l-reason").value.trim() };
 const kind = how();
 if (kind === "candidate") await send("PUT", at(name, "candidate"), body, tag);
 else await send("PATCH", at(name), body, tag);
 const words = byId("l-for").selectedOptions[0].textContent;
 showResult("limited", false, kind === "candidate" ? `✓ ${name} is tried with ${body.limit} in shadow` : `✓ ${name} now has ${body.limit}`,
  el("p", {}, kind === "candidate"
   ? `It refuses no request. The table of policies shows what it would refuse. It ends in ${words}.`
   : `Before: ${limit(before.limit)}. Its counters stay. It ends in ${words}, or when you remove it.`));
}

export async function removeRule(name, kind) {
 try {
  const { tag } = await getTagged(at(name));
  await send("DELETE", at(name, kind), undefined, tag);
  showResult("limited", false, kind === "patch" ? `✓ ${name} has the limit of the file again` : `✓ Nothing of ${name} is tried in shadow any more`);
 } catch (error) {
  fault("limited")(error);
 }
 changed();
}

const keyPath = (kind) => {
 const key = byId("k-key").value.trim();
 if (!key) throw new Error("Write the key first.");
 return at(byId("k-policy").value, kind, key);
};

async function lookUp() {
 const it = await get(keyPath("keys"));
 const scope = it.scope === "cluster" ? "all nodes that share the store" : "this node alone";
 const wait = (ms) => (typeof ms === "number" ? long(ms / 1000) : ms);
 const isFull = it.retry_after_ms !== null && it.retry_after_ms !== undefined;
 showResult("keyed", isFull, it.limit === "unlimited" ? "✓ This key has no limit" : `${isFull ? "✗" : "✓"} ${count(it.used)} of ${count(it.limit)} used, ${count(it.remaining)} left`,
  pairs([
   ["Id", it.key_id],
   ["Limit from", it.limit_from],
   ["Fits in", isFull ? wait(it.retry_after_ms) : "now"],
   ["Banned for", it.banned_for_ms === null ? "" : wait(it.banned_for_ms)],
   ["At", it.at ? time(it.at) : ""],
   ["Counted by", it.source === "local" ? "this node alone: the store does not answer" : scope],
  ]));
}

async function setOwn() {
 const text = byId("k-limit").value.trim();
 if (!text) throw new Error("Write the limit first.");
 await send("PUT", keyPath("overrides"), { limit: text });
 showResult("keyed", false, `✓ This key now has its own limit: ${text}`);
}

async function unsetOwn() {
 await send("DELETE", keyPath("overrides"));
 showResult("keyed", false, "✓ This key has the limit of its policy again");
}

/** A button that asks once more before it acts. */
function confirmed(button, question, work) {
 const text = button.textContent;
 const reset = () => { button.textContent = text; };
 button.addEventListener("blur", reset);
 button.addEventListener("click", () => {
  if (button.textContent === text) button.textContent = question;
  else {
   reset();
   during(button, "keyed", work);
  }
 });
}

async function reset() {
 const it = await send("DELETE", keyPath("keys"));
 showResult("keyed", false, "✓ Its counters are forgotten", el("p", {}, it.scope === "cluster" ? "On all nodes, within two seconds." : "On this node alone."));
}

export function prepareForms(whenChanged) {
 changed = whenChanged;
 const submits = (id, result, work) => byId(id).addEventListener("submit", (event) => {
  event.preventDefault();
  during(event.submitter ?? byId(id).querySelector("[type=submit]"), result, work);
 });
 submits("explain", "explained", explainNow);
 submits("limit", "limited", changeLimit);
 submits("key", "keyed", lookUp);
 confirmed(byId("k-reset"), "Really reset them?", reset);
 for (const [id, work] of [["k-set", setOwn], ["k-unset", unsetOwn]]) {
  byId(id).addEventListener("click", () => during(byId(id), "keyed", work));
 }
 for (const id of ["l-policy", "k-policy"]) byId(id).addEventListener("change", describe);
 document.querySelectorAll("input[name=how]").forEach((it) => it.addEventListener("change", () => {
  byId("l-send").textContent = how() === "candidate" ? "Try in shadow" : "Apply now";
 }));
}
