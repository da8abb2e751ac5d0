// Explanations: of a request now, of a past refusal, and of a key.

import { send } from "./api.js";
import { byId, el } from "./elements.js";
import { pairs, result } from "./results.js";
import { amount, long, span, time } from "./words.js";

const name = (it) => it.replaceAll("_", " ");
const because = (all = []) => all.map((it) => `${it.name}: ${it.because}`).join("; ");
const wait = (ms) => (typeof ms === "number" ? span(ms * 1000) : "never: it costs more than the limit");

function policy(it) {
 const refused = ["refused", "banned", "failed_closed"].includes(it.verdict);
 const shadow = it.mode === "shadow" ? " (in shadow)" : "";
 return el("li", {}, el("strong", { class: refused ? "bad" : "good" }, `${refused ? "✗" : "✓"} ${it.name}: ${name(it.verdict)}${shadow}`),
  pairs([
   ["Limit", `${amount(it.limit, it.unit)}${it.window_s ? ` in ${long(it.window_s)}` : ""}, from ${it.limit_from}`],
   ["Used", `${amount(it.used, it.unit)}; ${amount(it.remaining, it.unit)} left; this request costs ${amount(it.cost, it.unit)}`],
   ["Key", `${it.key.text} (id ${it.key.id})`],
   ["Fits", it.earliest && (it.earliest === "never" ? wait() : `at ${time(it.earliest)}`)],
  ]));
}

function explained(it) {
 const refused = it.decision !== "admitted";
 const binding = it.policies.find((one) => one.name === it.binding);
 const used = binding && refused ? `: ${amount(binding.used, binding.unit)} of ${amount(binding.limit, binding.unit)} used, fits in ${wait(it.retry_after_ms)}` : "";
 const headers = Object.entries(it.headers).map(([field, value]) => el("li", {}, el("code", {}, `${field}: ${value}`)));
 result(byId("explained"), refused,
  refused ? `✗ Refused${it.binding ? ` by ${it.binding}` : `: ${name(it.reason)}`}${used}` : "✓ It would be admitted",
  it.detail && el("p", {}, it.detail),
  pairs([
   ["Route", it.route.name ?? "none"],
   ["Upstream", it.route.upstream && `${it.route.upstream.name ?? "any"}: ${it.route.upstream.because}`],
   ["Passed over", because(it.route.passed_over)],
   ["Client", [it.client.ip, it.client.because].filter(Boolean).join(": ")],
   ["Class", it.client.class],
   ["Agent", it.client.agent],
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

/**
 * Fills the form with a request of a client. What is masked in the text of its key is left for
 * the user.
 */
export function fillRequest(request, key) {
 const select = byId("x-method");
 if (request && [...select.options].some((it) => it.value === request.method)) select.value = request.method;
 byId("x-url").value = `http://localhost${request?.path ?? "/"}`;
 const whole = key?.includes("…") ? undefined : key;
 const [, header, value] = /^header ([\w-]+) (.*)$/.exec(key ?? "") ?? [];
 byId("x-headers").value = header ? `${header}: ${whole ? value : ""}` : "";
 byId("x-peer").value = /^ip ([\da-f.:]+)$/.exec(whole ?? "")?.[1] ?? "";
 byId("x-note").textContent = whole ? "" : "The key is masked here: complete it, or show the whole key first.";
 byId("explain").scrollIntoView({ block: "nearest" });
 byId(header && !whole ? "x-headers" : "x-url").focus({ preventScroll: true });
}
