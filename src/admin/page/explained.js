// Explanations: of a request as it would be decided now, of a past refusal, and of a key.

import { send } from "./api.js";
import { byId, el } from "./elements.js";
import { count, long, percent, span, time } from "./words.js";

/** Shows a result in its place, and moves the focus there. */
export function showResult(id, isBad, title, ...content) {
  const place = byId(id);
  place.hidden = false;
  place.classList.toggle("bad", isBad);
  place.replaceChildren(el("h4", {}, title), ...content);
  place.focus();
}

/** A list of names and values; empty values are left out. */
export const pairs = (all) => el("dl", {}, ...all.filter(([, value]) => value !== undefined && value !== null && value !== "")
  .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

function policy(it) {
  const refused = ["refused", "banned", "failed_closed"].includes(it.verdict);
  const window = it.window_s ? ` in ${long(it.window_s)}` : "";
  return el("li", {}, el("strong", { class: refused ? "bad" : "" }, `${it.name}: ${refused ? "✗" : "✓"} ${String(it.verdict).replaceAll("_", " ")}`),
    pairs([
      ["Limit", it.limit === undefined ? "" : typeof it.limit === "number" ? `${count(it.limit)}${window}, from ${it.limit_from ?? "policy"}` : String(it.limit)],
      ["Used", it.used === undefined ? "" : `${count(it.used)}; ${count(it.remaining)} left; this request costs ${count(it.cost ?? 1)}`],
      ["Key", it.key ? `${it.key.from ?? ""} ${it.key.text ?? ""}${it.key.id ? ` (id ${it.key.id})` : ""}`.trim() : ""],
      ["Fits", it.earliest ? `at ${time(it.earliest)}` : ""],
    ]));
}

const because = (all = []) => all.map((it) => `${it.name}: ${it.because}`).join("; ");

function explained(it) {
  const refused = it.decision !== "admitted";
  const binding = (it.policies ?? []).find((one) => one.name === it.binding);
  const fits = typeof it.retry_after_ms === "number" ? `, fits in ${span(it.retry_after_ms * 1000)}` : "";
  const title = refused
    ? `✗ ${it.binding ? `Refused by ${it.binding}` : `Not admitted: ${it.decision}`}${binding?.used !== undefined ? `: ${count(binding.used)} of ${count(binding.limit)} used${fits}` : ""}`
    : "✓ It would be admitted";
  const headers = Object.entries(it.headers ?? {}).map(([name, value]) => el("li", {}, el("code", {}, `${name}: ${value}`)));
  showResult("explained", refused, title,
    pairs([
      ["Route", it.route?.name ?? "none"],
      ["Passed over", because(it.route?.passed_over)],
      ["Client", it.client ? [it.client.ip, it.client.because].filter(Boolean).join(": ") : ""],
      ["Judged by", it.source],
      ["Skipped", because(it.skipped)],
      ["Note", (it.warnings ?? []).join("; ")],
    ]),
    el("ul", {}, ...(it.policies ?? []).map(policy)),
    headers.length ? el("details", {}, el("summary", {}, "Header fields that the client would get"), el("ul", {}, ...headers)) : "");
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
  byId("x-url").value = url;
  const header = /\bheader[ :]([\w-]+)/.exec(text ?? "")?.[1];
  byId("x-headers").value = header ? `${header}: ` : "";
}

const ASK = "Complete what is masked, and press Explain to ask what would be decided now.";

export function explainRefusal(it) {
  prepare(it.method, it.path, it.key?.text);
  showResult("explained", true, `✗ Refused by ${it.policy}: ${count(it.used)} of ${count(it.limit)} used`,
    pairs([
      ["When", time(it.time)],
      ["Request", `${it.method} ${it.path} (id ${it.request_id})`],
      ["Key", it.key ? `${it.key.text} (id ${it.key.id})` : ""],
      ["Route", it.route],
      ["Told to wait", typeof it.wait_ms === "number" ? span(it.wait_ms * 1000) : "it never fits"],
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
