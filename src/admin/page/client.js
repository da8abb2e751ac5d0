// One client of a policy: what its counters say, its whole key, and what can be done.

import { get, send } from "./api.js";
import { at, changeForm } from "./change.js";
import { el } from "./elements.js";
import { fillRequest } from "./explained.js";
import { confirmed, during, fill, pairs, result } from "./results.js";
import { amount, limit, limitText, long, time } from "./words.js";

let policies = [];
/** What panels know of policies. */
export const knowPolicies = (all) => { policies = all; };

const wait = (ms) => (typeof ms === "number" ? long(ms / 1000) : ms);

function counters(it) {
 const scope = it.scope === "cluster" ? "all nodes that share the store" : "this node alone";
 const isFull = it.retry_after_ms !== null && it.retry_after_ms !== undefined;
 const title = it.limit === "unlimited" ? "✓ This key has no limit"
  : `${isFull ? "✗" : "✓"} ${amount(it.used, it.unit)} of ${amount(it.limit, it.unit)} used, ${amount(it.remaining, it.unit)} left`;
 return [isFull, title, pairs([
  ["Limit from", it.limit_from],
  ["API key", it.api_key === "unknown" ? "not known here: a key with a limit of its own has other numbers" : it.api_key],
  ["Another request fits", isFull ? `in ${wait(it.retry_after_ms)}` : "now"],
  ["Banned for", it.banned_for_ms === null || it.banned_for_ms === undefined ? "" : wait(it.banned_for_ms)],
  ["At", it.at ? time(it.at) : ""],
  ["Counted by", it.source === "local" ? "this node alone: the store does not answer" : scope],
  ["Id", `${it.key_id}, the same on all nodes and in the access log`],
 ])];
}

const plain = (name, text, click) => {
 const button = el("button", { type: "button", "data-do": name }, text);
 button.addEventListener("click", () => click(button));
 return button;
};

/**
 * What an operator needs of a client. `key` is its key, or `~` and its id; `text` is its masked
 * key; `about` are facts that are known of it; `request` is a request of it.
 */
export function clientPanel({ policy: name, key, plan, text, about, request }) {
 const policy = policies.find((it) => it.name === name);
 const now = el("div", { class: "result", tabindex: "-1", hidden: "" });
 const done = el("div", { class: "result", tabindex: "-1", hidden: "" });
 const form = el("div", { class: "inner" });
 const query = policy?.plans && plan ? `?plan=${encodeURIComponent(plan)}` : "";
 let whole = null;
 let inForce = null;
 const look = async () => {
  const it = await get(`${at(name, "keys", key)}${query}`);
  inForce = it.limit === "unlimited" ? it.limit : limitText({ units: it.limit, window_ms: it.window_ms, unit: it.unit });
  // What is looked up by itself does not take the focus: a button that asks once more would forget
  // that it was pressed.
  fill(now, ...counters(it));
 };
 const again = plain("look", "Look again", (button) => during(button, now, look, false));
 const showKey = async () => {
  const it = await get(`${at(name, "keys", key)}?reveal=true`);
  whole = it.whole_key ?? null;
  result(done, !whole, whole ? "The whole key; the audit log has that you saw it" : "✗ The whole key was not kept",
   whole ? el("p", {}, el("code", {}, whole)) : el("p", {}, "It is kept from the next minute, or the next refusal, of this client on."));
 };
 const forget = async () => {
  const it = await send("DELETE", at(name, "keys", key));
  result(done, false, "✓ Its counters are forgotten", el("p", {}, it.scope === "cluster" ? "On all nodes, within two seconds." : "On this node alone."),
   it.api_key === "unknown" && el("p", {}, "The API key of its requests is not known here. A key whose limit has another window has a counter of its own, which is not forgotten: tollgate reset --api-key forgets it."));
  await look();
 };
 const buttons = el("div", { class: "buttons" }, again,
  text && plain("whole", "Show the whole key", (button) => during(button, done, showKey, false)),
  confirmed("Reset its counters", "Really reset them?", done, forget),
  policy && plain("own", "A limit of its own", () => {
   form.replaceChildren(...ownLimit(policy, key, done, look, inForce));
   form.querySelector("[data-field=own]")?.focus();
  }),
  policy && plain("policy", `Change ${name}`, () => {
   form.replaceChildren(...changeForm(policy));
   form.querySelector("[data-first]").focus();
  }),
  plain("request", "Explain a request of it", () => fillRequest(request, whole ?? text)));
 during(again, now, look, false);
 return [
  el("p", {}, el("strong", {}, text ? el("code", {}, text) : key), ` under ${name}${plan ? `, plan ${plan}` : ""}`,
   about && el("span", { class: "quiet" }, ` · ${about}`)),
  el("div", { class: "pair" }, now, el("div", {}, buttons, form, done)),
 ];
}

/** The form for the limit of one key. `inForce`: the one that holds for it now. */
function ownLimit(policy, key, done, look, inForce) {
 if (!policy.overrides) {
  return [el("p", { class: "quiet" }, `Single keys of ${policy.name} have no limits of their own: it has no `,
   el("code", {}, "overrides: true"), " in the file.")];
 }
 const input = el("input", { required: "", spellcheck: "false", autocomplete: "off", "data-field": "own" });
 const now = el("small", {}, "…");
 const path = at(policy.name, "overrides", key);
 const show = async () => {
  const it = await get(path);
  now.textContent = `Now: ${it.override ?? `${inForce ?? limit(it.policy_limit)}, which is not its own`}. ${it.ignored_because ?? "Also a word: unlimited"}`;
  if (!input.value) input.value = it.override ?? inForce ?? limitText(it.policy_limit);
 };
 const set = el("button", { class: "main", type: "submit" }, "Set this limit");
 const unset = plain("unset", "Remove its limit", (button) => during(button, done, async () => {
  await send("DELETE", path);
  result(done, false, "✓ This key has the limit of its policy again");
  await Promise.all([show(), look()]);
 }));
 const form = el("form", { class: "fields", "data-form": "own" }, el("label", {}, "A limit of its own", input, now), set, unset);
 form.addEventListener("submit", (event) => {
  event.preventDefault();
  during(set, done, async () => {
   await send("PUT", path, { limit: input.value.trim() });
   result(done, false, `✓ This key now has its own limit: ${input.value.trim()}`);
   await Promise.all([show(), look()]);
  });
 });
 during(set, done, show, false);
 return [form];
}
