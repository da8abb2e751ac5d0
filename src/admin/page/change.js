// Changes a policy: a form with the values of now, and what the API refuses and why.

import { getTagged, send } from "./api.js";
import { el } from "./elements.js";
import { during, result } from "./results.js";
import { limit, unitsText, windowText, windowWords } from "./words.js";

export const at = (...parts) => `/v1/policies/${parts.map(encodeURIComponent).join("/")}`;

/** The windows that can be tried: a policy keeps its own one while it keeps its counters. */
const WINDOWS = [1e3, 1e4, 6e4, 9e5, 36e5, 864e5];
const BURSTS = ["token_bucket", "leaky_bucket"];

const field = (text, control, note) => el("label", {}, text, control, note && el("small", {}, note));
const number = /^\d[\d_]*$/;
const amount = /^\d[\d_]*(\.\d+)?( ?[a-z]{3})?$/i;

/** The limit that the API understands: a number of units, or an amount of money, in the window; or a word. */
function written(text, ms, unit) {
 if (!amount.test(text)) return text;
 const isPlain = unit && !/[a-z]/i.test(text);
 const whole = isPlain ? `${text} ${unit.split("-")[0]}` : text;
 return ms ? `${whole}/${windowText(ms)}` : whole;
}

const FORS = [["10m", "10 minutes"], ["30m", "30 minutes"], ["2h", "2 hours"], ["12h", "12 hours"], ["7d", "7 days"]];

/** The controls, each filled with what holds now. The first one is that of the plan, if there is one. */
function controls(policy, first) {
 const { limit: its, plans } = policy;
 const ms = its.window_ms ?? Object.values(plans?.limits ?? {}).find((it) => it.window_ms)?.window_ms ?? 0;
 const windows = [...new Set([ms, ...(plans || !ms ? [] : WINDOWS)])];
 const value = el("input", { value: unitsText(its), required: "", spellcheck: "false", autocomplete: "off", "data-first": first ? undefined : "", "data-field": "limit" });
 const span = el("select", { "aria-label": "In this time", "data-field": "window" }, ...windows.map((it) =>
  el("option", { value: it }, it ? `in ${windowWords(it)}` : "at once")));
 const burst = BURSTS.includes(policy.algorithm) && its.burst !== undefined
  ? el("input", { value: its.burst, inputmode: "numeric", "data-field": "burst" }) : null;
 const mode = el("select", { "data-field": "mode" }, ...["enforce", "shadow"].map((it) =>
  el("option", { selected: it === policy.mode ? "" : undefined, value: it }, it === "shadow" ? "shadow: refuses nothing" : it)));
 const ofPlans = Object.entries(plans?.limits ?? {}).map(([plan, value]) =>
  ({ plan, value, input: el("input", { value: unitsText(value), spellcheck: "false", autocomplete: "off", "data-first": plan === first ? "" : undefined, "data-field": `plan ${plan}` }) }));
 const ends = el("select", { "data-field": "for" }, ...FORS.map(([value, text]) =>
  el("option", { value, selected: value === "30m" ? "" : undefined }, text)));
 const never = el("option", { value: "" }, "no time: when it is removed");
 ends.append(never);
 const reason = el("input", { required: "", maxlength: 200, "data-field": "reason" });
 return { ms, amount: value, span, burst, mode, ofPlans, ends, never, reason };
}

/** What differs from now, as the API wants it. */
function body(policy, it, isTrial) {
 const values = {};
 const ms = Number(it.span.value);
 const unit = [policy.limit, ...it.ofPlans.map((plan) => plan.value)].find((its) => its.unit)?.unit;
 const text = it.amount.value.trim();
 if (isTrial || text !== unitsText(policy.limit)) values.limit = written(text, ms, unit);
 if (it.burst && it.burst.value.trim() !== String(policy.limit.burst)) {
  if (!number.test(it.burst.value.trim())) throw new Error(`“${it.burst.value}” is not a number.`);
  values.burst = Number(it.burst.value.replaceAll("_", ""));
 }
 for (const { plan, value, input } of it.ofPlans) {
  if (input.value.trim() !== unitsText(value)) (values.plans ??= {})[plan] = written(input.value.trim(), ms, unit);
 }
 if (!isTrial && it.mode.value !== policy.mode) values.mode = it.mode.value;
 if (!Object.keys(values).length) throw new Error("Nothing is changed: write another value first.");
 if (it.ends.value) values.for = it.ends.value;
 return { ...values, reason: it.reason.value.trim() };
}

const said = (values) => Object.entries(values).filter(([name]) => !["for", "reason"].includes(name)).map(([name, value]) =>
 (name === "plans" ? Object.entries(value).map(([plan, its]) => `plan ${plan} ${its}`).join(", ") : name === "limit" ? value : `${name} ${value}`)).join(", ");

/** What is true of a policy, without what is counted. */
const state = ({ limit, plans, mode, patch, candidate }) => JSON.stringify([limit, plans, mode, patch, candidate?.since]);

const CHANGED = "It was changed in the meantime";

/** `seen.policy`: the policy that the form was filled with, or that the user was told of later. */
async function change(seen, it, isTrial, place) {
 const { policy } = seen;
 const values = body(policy, it, isTrial);
 const { body: now, tag } = await getTagged(at(policy.name));
 if (state(now) !== state(policy)) {
  seen.policy = now;
  const by = now.patch ? `, by ${now.patch.actor}: “${now.patch.reason}”` : "";
  throw new Error(`${CHANGED}: it has ${limit(now.limit)} now${by}. Look again, then repeat.`);
 }
 seen.policy = isTrial
  ? await send("PUT", at(policy.name, "candidate"), values, tag)
  : await send("PATCH", at(policy.name), values, tag);
 const end = it.ends.value ? `It ends in ${it.ends.selectedOptions[0].textContent}, or when you remove it.` : "It ends when you remove it.";
 const kind = isTrial ? "candidate" : "patch";
 const undo = el("button", { type: "button", class: "small", "data-undo": "" }, "Undo");
 undo.addEventListener("click", () => during(undo, place, () => removeRule(seen.policy, kind, place)));
 result(place, false, isTrial ? `✓ ${policy.name} is tried with ${said(values)} in shadow` : `✓ ${policy.name} now has ${said(values)}`,
  el("p", {}, isTrial
   ? `It refuses no request. The table of policies shows what it would refuse. ${end}`
   : `Before: ${limit(policy.limit)}. Its counters stay. ${end}`), undo);
}

/** Removes what is changed of a policy, or tried, as `seen` has it. */
export async function removeRule(seen, kind, place) {
 const { name } = seen;
 const { body: now, tag } = await getTagged(at(name));
 if (now[kind]?.since !== seen[kind]?.since) throw new Error(`${CHANGED}: look again, then repeat.`);
 await send("DELETE", at(name, kind), undefined, tag);
 result(place, false, kind === "patch" ? `✓ ${name} has the values of the file again` : `✓ Nothing of ${name} is tried in shadow any more`);
}

let forms = 0;

/** The form for a policy, or for one of its plans. */
export function changeForm(policy, plan) {
 forms += 1;
 const it = controls(policy, plan);
 const seen = { policy };
 const place = el("div", { class: "result", tabindex: "-1", hidden: "" });
 const submit = el("button", { class: "main", type: "submit" }, "Try in shadow");
 const radio = (value, text, checked) => el("label", { class: "tick" },
  el("input", { type: "radio", name: `how-${forms}`, value, checked }), ` ${text}`);
 const where = policy.changes_scope === "cluster" ? "all nodes" : "this node";
 const form = el("form", { class: "fields", "data-form": "change" },
  field(policy.plans ? "Limit without a plan" : "Limit", el("span", { class: "joined" }, it.amount, it.span)),
  it.burst && field("Burst", it.burst),
  ...it.ofPlans.map(({ plan, input }) => field(`Plan ${plan}`, input)),
  field("Mode", it.mode),
  field("It ends after", it.ends),
  field("Reason, for the record", it.reason),
  el("fieldset", {}, el("legend", {}, "How"),
   radio("candidate", "Try in shadow: refuses nothing", ""), radio("patch", `Apply now, on ${where}`)),
  submit);
 const isTrial = () => form.querySelector("input[value=candidate]").checked;
 const describe = () => {
  const trial = isTrial();
  submit.textContent = trial ? "Try in shadow" : "Apply now";
  // A change keeps the counters, so it keeps the window; a trial has counters of its own.
  for (const option of it.span.options) option.disabled = !trial && Number(option.value) !== it.ms;
  if (!trial) it.span.value = it.ms;
  it.mode.disabled = trial;
  it.never.disabled = trial;
  if (trial && !it.ends.value) it.ends.value = "30m";
 };
 form.addEventListener("change", describe);
 describe();
 form.addEventListener("submit", (event) => {
  event.preventDefault();
  during(submit, place, () => change(seen, it, isTrial(), place));
 });
 const facts = [policy.algorithm.replaceAll("_", " "), `counts by ${policy.key}`, policy.plans && `plans by ${policy.plans.from}`,
  policy.penalty && `bans after ${limit(policy.penalty.after)}`, `store ${policy.store_mode.replace("_", " ")}`,
  `if the store is away: ${policy.on_store_failure}`].filter(Boolean).join(" · ");
 return [el("p", {}, el("strong", {}, `${policy.name}: ${limit(policy.limit)}`), " ", el("span", { class: "quiet" }, facts)), form, place];
}
