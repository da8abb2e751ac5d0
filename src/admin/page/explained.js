// Explanations: of a request now, of a past refusal, and of a key.

import { send } from "./api.js";
import { byId, el } from "./elements.js";
import { count, long, percent, span, time } from "./words.js";

/** Shows a result, and moves the focus there. */
export function showResult(id, isBad, title, ...content) {
 const place = byId(id);
 place.hidden = false;
 place.classList.toggle("bad", isBad);
 place.replaceChildren(el("h4", {}, title), ...content.filter(Boolean));
 place.focus();
}

export const pairs = (all) => el("dl", {}, ...all.filter(([, value]) => value)
 .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

const name = (it) => it.replaceAll("_", " ");
const because = (all = []) => all.map((it) => `${it.name}: ${it.because}`).join("; ");
const wait = (ms) => (typeof ms === "number" ? span(ms * 1000) : "never: it costs more than the limit");

function policy(it) {
 const refused = ["refused", "banned", "failed_closed"].includes(it.verdict);
 const shadow = it.mode === "shadow" ? " (in shadow)" : "";
 return el("li", {}, el("strong", { class: refused ? "bad" : "good" }, `${refused ? "✗" : "✓"} ${it.name}: ${name(it.verdict)}${shadow}`),
  pairs([
   ["Limit", `${count(it.limit)}${it.window_s ? ` in ${long(it.window_s)}` : ""}, from ${it.limit_from}`],
   ["Used", `${count(it.used)}; ${count(it.remaining)} left; this request costs ${count(it.cost)}`],
   ["Key", `${it.key.text} (id ${it.key.id})`],
   ["Fits", it.earliest && (it.earliest === "never" ? wait() : `at ${time(it.earliest)}`)],
  ]));
}

function explained(it) {
 const refused = it.decision !== "admitted";
 const binding = it.policies.find((one) => one.name === it.binding);
 const used = binding && refused ? `: ${count(binding.used)} of ${count(binding.limit)} used, fits in ${wait(it.retry_after_ms)}` : "";
 const headers = Object.entries(it.headers).map(([field, value]) => el("li", {}, el("code", {}, `${field}: ${value}`)));
 showResult("explained", refused,
  refused ? `✗ Refused${it.binding ? ` by ${it.binding}` : `: ${name(it.reason)}`}${used}` : "✓ It would be admitted",
  it.detail && el("p", {}, it.detail),
  pairs([
   ["Route", it.route.name ?? "none"],
   ["Passed over", because(it.route.passed_over)],
   ["Client", [it.client.ip, it.client.because].filter(Boolean).join(": ")],
   ["Judged by", it.source],
   ["Skipped", because(it.skipped)],
   ["Delayed", it.delay_ms && wait(it.delay_ms)],
   ["Note", it.warnings.join("; ")],
  ]),
  el("ul", {}, ...it.policies.map(policy)),
  headers.length && el("details", {}, el("summary", {}, "Header fields that the client would get"), el("ul", {}, ...headers)));
}

export async function explainNow() {
 const fields = byId("x-headers").value.split("\n").map((line) => line.trim()).filter(Boolean);
 const headers = fields.map((line) => {
  const at = line.indexOf(":");
  if (at < 1) throw new Error(`“${line}” is not a header field: write name: value`);
  return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
 });
 const url = byId("x-url").value.trim();
 const body = { method: byId("x-method").value, url, headers, peer: byId("x-peer").value.trim() || undefined };
 explained(await send("POST", "/v1/explain", body));
}

/** Prepares the form: what is masked in `text` is left for the user. */
function prepare(method, url, text) {
 const select = byId("x-method");
 if ([...select.options].some((it) => it.value === method)) select.value = method;
 byId("x-url").value = `http://localhost${url}`;
 const header = /\bheader[ :]([\w-]+)/.exec(text ?? "")?.[1];
 byId("x-headers").value = header ? `${header}: ` : "";
}

const ASK = "To ask for now, complete what is masked, and press Explain.";

export function explainRefusal(it) {
 prepare(it.method, it.path, it.key?.text);
 showResult("explained", true, `✗ Refused by ${it.policy}: ${count(it.used)} of ${count(it.limit)} used`,
  pairs([
   ["When", time(it.time)],
   ["Request", `${it.method} ${it.path} (id ${it.request_id})`],
   ["Key", `${it.key.text} (id ${it.key.id})`],
   ["Route", it.route],
   ["Told to wait", wait(it.wait_ms)],
   ["Judged by", it.source],
  ]), el("p", { class: "quiet" }, ASK));
}

export function explainKey(it) {
 prepare("GET", "/", it.text);
 const most = it.refused ? `${percent(it.refused, it.requests)} of its requests were refused` : "None of its requests were refused";
 showResult("explained", it.refused > 0, `${it.text}: ${most}`,
  pairs([
   ["Policy", it.policy],
   ["Requests", `${count(it.requests)}, of all ${count(it.all)} of the policy${it.error ? `; up to ${count(it.error)} too many are counted` : ""}`],
   ["Id", `${it.id}, the same on all nodes and in the access log`],
  ]), el("p", { class: "quiet" }, ASK));
}
