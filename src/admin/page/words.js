// Numbers, times and outcomes in words.

const whole = new Intl.NumberFormat("en");
const short = [0, 1, 2].map((digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits }));
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export const count = (number) => whole.format(number ?? 0);

const money = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 9 });
/** Units: of money, the amount. `unit` says what a unit of money is, like `usd-6`. */
export function amount(units, unit) {
 if (!unit) return count(units);
 const [currency, digits] = unit.split("-");
 return `${money.format((units ?? 0) / 10 ** digits)} ${currency}`;
}

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export function rate(number) {
 if (number === null || number === undefined) return "–";
 return short[number >= 100 ? 0 : number >= 1 ? 1 : 2].format(number);
}

/** A share of a whole; a small share is never shown as none, and a large one never as all. */
export function percent(part, all) {
 if (!all) return "–";
 const share = (part / all) * 100;
 if (part > 0 && share < 0.1) return "< 0.1 %";
 if (part < all && share > 99.9) return "> 99.9 %";
 return `${short[share < 10 || (share > 99 && share < 100) ? 1 : 0].format(share)} %`;
}

export function span(us) {
 if (us < 1000) return `${us} µs`;
 if (us < 1e6) return `${trim(us / 1000)} ms`;
 return long(us / 1e6);
}

const trim = (number) => String(Math.round(number * 10) / 10);

export function long(seconds) {
 if (seconds > 0 && seconds < 1) return `${Math.ceil(seconds * 1000)} ms`;
 if (seconds < 120) return `${seconds < 10 ? trim(seconds) : Math.round(seconds)} s`;
 if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
 if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
 return `${Math.floor(seconds / 86400)} days`;
}

/** A quantile, of which the step of a histogram is known. `unit`: its units in a microsecond. */
export function atMost(bucket, unit = 1) {
 if (!bucket) return "–";
 return bucket.to === null ? `> ${span(bucket.over / unit)}` : `≤ ${span(bucket.to / unit)}`;
}

export function time(text) {
 const date = new Date(text);
 const today = date.toDateString() === new Date().toDateString();
 return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

export const ago = (text) => {
 const seconds = Math.round((Date.now() - new Date(text)) / 1000);
 return seconds < 5 ? "just now" : `${long(seconds)} ago`;
};

const WINDOW = [["d", "day", 864e5], ["h", "h", 36e5], ["m", "min", 6e4], ["s", "s", 1e3], ["ms", "ms", 1]];
/** What the API gives as the window of a limit per month of the calendar. */
const MONTH = 2629746e3;
const inUnits = (ms) => {
 const [short, word, unit] = WINDOW.find(([, , unit]) => ms % unit === 0);
 return { number: ms / unit, short, word: word === "day" && ms > unit ? "days" : word };
};

/** A window as the configuration writes it, such as `10s`. */
export const windowText = (ms) => (ms === MONTH ? "month" : `${inUnits(ms).number}${inUnits(ms).short}`);
/** A window in words, such as `10 s`. */
export const windowWords = (ms) => (ms === MONTH ? "a month" : `${inUnits(ms).number} ${inUnits(ms).word}`);
/** The units of a limit as the configuration writes them, or its word. */
export function unitsText(it) {
 if (typeof it === "string") return it;
 if (!it.unit) return String(it.units);
 const [currency, digits] = it.unit.split("-");
 const amount = (it.units / 10 ** digits).toFixed(digits);
 return `${amount.replace(/(\.\d\d\d*?)0+$/, "$1")} ${currency}`;
}

/** A limit as the configuration writes it. */
export const limitText = (it) => (it.window_ms ? `${unitsText(it)}/${windowText(it.window_ms)}` : unitsText(it));

export function limit(it) {
 if (!it) return "–";
 if (typeof it === "string") return it;
 const { units, window_ms: ms, burst } = it;
 const of = ms ? `${amount(units, it.unit)} in ${windowWords(ms)}` : `${amount(units, it.unit)} at once`;
 return burst !== undefined && burst !== units ? `${of}, ${amount(burst, it.unit)} at once` : of;
}

const REFUSED = ["refused", "banned", "failed_closed", "lacking_key", "unverifiable", "ambiguous", "model_unpriced", "key_limit_unfit"];

export function summed(outcomes = {}) {
 const names = Object.keys(outcomes).filter((it) => it !== "seconds" && !it.startsWith("while_"));
 const of = (wanted) => wanted.reduce((sum, it) => sum + (outcomes[it] ?? 0), 0);
 return { all: of(names), refused: of(REFUSED), shadow: outcomes.shadow_refused ?? 0, open: outcomes.failed_open ?? 0 };
}

const DEEDS = [
 ["/rotate", "New secret of an API key"],
 ["/v1/keys/find", "API key looked for by its text"],
 ["/v1/keys/import", "API keys imported"],
 ["PATCH /v1/keys", "API key changed"],
 ["/v1/keys", "API key made", "API key revoked"],
 ["/v1/teams", "Team of API keys changed"],
 ["/v1/access", "Mode of an access list changed"],
 ["?reveal", "Whole keys shown"],
 ["/keys", "Counters reset", "Counters reset"],
 ["/overrides", "Own limit set", "Own limit removed"],
 ["/candidate", "Limit tried in shadow", "Limit in shadow removed"],
 ["/policies", "Limit changed", "Limit put back"],
];

export function deed({ call, status, policy, list, key_id: key }) {
 if (status === 401) return "A login failed: the token is not valid";
 const known = DEEDS.find(([part]) => call.includes(part));
 const what = known ? known[call.startsWith("DELETE") ? 2 : 1] : call;
 return [what, policy && `of ${policy}`, list && `of ${list}`, key && `(key ${key})`, status >= 300 && `– failed with ${status}`].filter(Boolean).join(" ");
}
