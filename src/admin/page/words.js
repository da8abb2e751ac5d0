// Numbers, times and outcomes in words.

const whole = new Intl.NumberFormat("en");
const fixed = [0, 1, 2].map((digits) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export const count = (number) => whole.format(number ?? 0);

/** "1 request", "2 requests". */
export const many = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

/** A rate, with three digits or so. */
export function rate(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0 || number >= 100) return fixed[0].format(number);
  return fixed[number >= 10 ? 1 : 2].format(number);
}

/** A share of a whole; a small share is never shown as none, and a large one never as all. */
export function percent(part, all) {
  if (!all) return "–";
  const share = (part / all) * 100;
  if (part > 0 && share < 0.1) return "< 0.1 %";
  if (part < all && share > 99.9) return "> 99.9 %";
  return `${fixed[share < 10 && share !== Math.round(share) ? 1 : 0].format(share)} %`;
}

/** A time in microseconds. */
export function span(us) {
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${trim(us / 1000)} ms`;
  return long(us / 1e6);
}

const trim = (number) => String(Math.round(number * 10) / 10);

/** A time in seconds. */
export function long(seconds) {
  if (seconds < 120) return `${trim(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

/** A quantile, of which the step of a histogram is known. `unit`: its units in a microsecond. */
export function atMost(bucket, unit = 1) {
  if (!bucket) return "–";
  return bucket.to === null ? `> ${span(bucket.over / unit)}` : `≤ ${span(bucket.to / unit)}`;
}

/** The time of day, with the day if it is not today. */
export function time(text) {
  const date = new Date(text);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

/** How long ago. */
export const ago = (text, now = Date.now()) => {
  const seconds = Math.max(0, Math.round((now - new Date(text)) / 1000));
  return seconds < 5 ? "just now" : `${long(seconds)} ago`;
};

/** "100 in 1 min, at most 120 at once". */
export function limit(it) {
  if (!it) return "–";
  if (typeof it === "string") return it;
  const { units, window_ms: ms, burst } = it;
  const of = ms ? `${count(units)} in ${long(ms / 1000).replace(/^60 s$/, "1 min")}` : `${count(units)} at once`;
  return burst !== undefined && burst !== units ? `${of}, ${count(burst)} at once` : of;
}

const REFUSED = ["refused", "banned", "failed_closed", "lacking_key", "unverifiable", "ambiguous"];

/** The decisions of a policy by outcome, summed. */
export function summed(outcomes = {}) {
  const names = Object.keys(outcomes).filter((it) => it !== "seconds");
  const of = (wanted) => wanted.reduce((sum, it) => sum + (outcomes[it] ?? 0), 0);
  return { all: of(names), refused: of(REFUSED), shadow: outcomes.shadow_refused ?? 0, open: outcomes.failed_open ?? 0 };
}

/** A call of the audit log as a sentence. */
export function deed(entry) {
  const [method, path = ""] = entry.call.split(" ");
  const done = entry.status < 300 ? "" : entry.status === 401 ? "" : ` – refused with ${entry.status}`;
  if (entry.status === 401) return "A login failed: the token is not valid";
  const of = entry.policy ? ` of ${entry.policy}` : "";
  const key = entry.key_id ? ` (key ${entry.key_id})` : "";
  const is = (part) => path.endsWith(part) || path.includes(`${part}/`);
  const removes = method === "DELETE";
  if (is("/keys")) return `Counters reset${of}${key}${done}`;
  if (is("/overrides")) return `${removes ? "Own limit removed" : "Own limit set"}${of}${key}${done}`;
  if (is("/candidate")) return `${removes ? "Limit in shadow removed" : "Limit tried in shadow"}${of}${done}`;
  if (is("/patch") || method === "PATCH") return `${removes ? "Limit put back" : "Limit changed"}${of}${done}`;
  return `${entry.call}${of}${done}`;
}
