// The API keys of the store: one page of them, by team, state or id, and the teams.

import { get } from "./api.js";
import { byId, el, tag } from "./elements.js";
import { forgetSecret, keyPanel, newKey, prepareNew } from "./key.js";
import { during } from "./results.js";
import { close, liveTable, opener } from "./rows.js";
import { ago, count, plural, time } from "./words.js";

/** The most keys and the most teams that are shown at once. */
const MOST_KEYS = 50;
const MOST_TEAMS = 200;
/** The most calls for one page: with a filter, an answer can have few keys, or none. */
const MOST_CALLS = 20;
const ID = /^[0-9a-hjkmnp-tv-z]{12}$/;
const WHOLE = /_([0-9a-hjkmnp-tv-z]{12})_/;

const STATES = {
 active: ["good", "✓ active"], expired: ["warn", "▲ expired"], disabled: ["warn", "▲ disabled"], revoked: ["bad", "■ revoked"],
};
const all = (values, join) => Object.entries(values).map(([name, value]) => `${name}${join}${value}`).join(", ");

function secrets(it) {
 const ends = it.secrets.find((one) => one.until)?.until;
 return it.secrets.length > 1 && ends ? `2, the old one until ${time(ends)}` : String(it.secrets.length);
}

const COLUMNS = [
 { title: "Key", class: "cut long", cell: (it) => [el("code", {}, it.id), it.name && el("span", { title: it.name }, ` ${it.name}`)] },
 { title: "State", cell: (it) => tag(...(STATES[it.state] ?? ["warn", it.state])) },
 { title: "Team", class: "cut", cell: (it) => it.team ?? "–" },
 { title: "Plan", class: "cut", cell: (it) => it.plan ?? "–" },
 { title: "Expires", cell: (it) => it.expires ?? "–" },
 { title: "Secrets", class: "wide-only", cell: secrets },
 { title: "Last used", cell: (it) => (it.last_used ? ago(it.last_used) : "–") },
 { title: "Limits", class: "loose", cell: (it) => all(it.limits, " ") || "–" },
 { title: "Labels", class: "loose wide-only", cell: (it) => all(it.labels, "=") || "–" },
];
const OPEN = {
 title: "Act", class: "act",
 cell: (it) => opener("api-key-table", it.id, "Rotate, revoke", `Rotate or revoke the key ${it.id}`, () => keyPanel(it, reload)),
};
const TEAMS = [
 { title: "Team", class: "cut", cell: (it) => it.name },
 { title: "Plan", class: "cut", cell: (it) => it.plan ?? "–" },
 { title: "Limits of its keys", class: "loose", cell: (it) => all(it.limits, " ") || "–" },
 { title: "Labels", class: "loose", cell: (it) => all(it.labels, "=") || "–" },
];

let keyTable = null;
let teamTable = null;
/** Where the pages begin that were shown, the last one being shown now, and where the next one begins. */
let pages = [];
let next = null;
/** The id of the key that was made last, which may be on another page. */
let fresh = null;

/** The id that is written. Of a whole key only the id is kept, so that its secret is in no address. */
function wantedId() {
 const field = byId("ak-id");
 field.value = WHOLE.exec(field.value)?.[1] ?? field.value.trim();
 if (!field.value || ID.test(field.value)) return field.value;
 field.value = "";
 throw new Error("This is not the id of a key: it has 12 digits and small letters.");
}

async function one(id) {
 try {
  return [await get(`/v1/keys/${id}`)];
 } catch (fault) {
  if (fault.status === 404) return [];
  throw fault;
 }
}

/** Asks until a page is full, or there is no other key, or there were many calls. */
async function many(after) {
 const items = [];
 for (let calls = 0; calls < MOST_CALLS; calls += 1) {
  const query = new URLSearchParams({ limit: MOST_KEYS - items.length });
  for (const [name, value] of [["team", byId("ak-team").value.trim()], ["state", byId("ak-state").value], ["after", after]]) {
   if (value) query.set(name, value);
  }
  const page = await get(`/v1/keys?${query}`);
  items.push(...page.items);
  after = page.next;
  if (!after || items.length >= MOST_KEYS) break;
 }
 return { items, after };
}

/** Shows the page of keys that begins after the last one of `pages`. */
async function load() {
 const id = wantedId();
 const { items, after } = id ? { items: await one(id), after: null } : await many(pages.at(-1));
 next = after;
 const made = fresh && !items.some((it) => it.id === fresh) ? await one(fresh) : [];
 keyTable.update([...made, ...items]);
 byId("ak-first").hidden = pages.length < 2;
 byId("ak-next").hidden = !next;
 const more = !next ? "" : items.length ? "; there are more" : " in this part of the store; the next page goes on";
 byId("ak-said").textContent = `${pages.length > 1 ? `Page ${pages.length}: ` : ""}${plural(items.length, "key")} at ${time(new Date())}${more}`;
}

async function teams() {
 const { items } = await get("/v1/teams");
 const shown = items.slice(0, MOST_TEAMS);
 teamTable.update(shown);
 byId("ak-teams").replaceChildren(...shown.map((it) => el("option", { value: it.name })));
 byId("team-count").textContent = items.length > shown.length ? `the first ${count(shown.length)} of ${count(items.length)}` : "";
}

/** Shows the same page again; `made` is the id of a key that was just made. */
async function reload(made) {
 if (made) fresh = made;
 await load();
}

const begin = () => Promise.all([load(), teams()]);

const fault = () => byId("api-key-fault");
const turn = (button) => {
 fault().hidden = true;
 close("api-key-table");
 during(button, fault(), load, false);
};

/** Shows the keys to this caller: a reader gets no form and no button that changes something. */
export function showKeys(caller) {
 const mayChange = caller.role !== "read";
 pages = [null];
 next = null;
 fresh = null;
 forgetSecret();
 fault().hidden = true;
 for (const id of ["api-key-table", "team-table"]) byId(id).replaceChildren();
 byId("api-keys-none").hidden = caller.has_key_store;
 byId("api-keys-parts").hidden = !caller.has_key_store;
 byId("api-key-new").hidden = !mayChange;
 keyTable = liveTable("api-key-table", {
  caption: "API keys", columns: mayChange ? [...COLUMNS, OPEN] : COLUMNS, key: (it) => it.id, most: MOST_KEYS + 1,
  empty: "No key is found.",
 });
 teamTable = liveTable("team-table", { caption: "Teams", columns: TEAMS, key: (it) => it.name, empty: "No team has a plan, limits or labels of its own." });
 newKey(caller);
 // Without a store the page says how to get one.
 if (caller.has_key_store) during(byId("ak-show"), fault(), begin, false);
}

export function prepareKeys() {
 byId("api-key-filter").addEventListener("submit", (event) => {
  event.preventDefault();
  pages = [null];
  fresh = null;
  turn(byId("ak-show"));
 });
 byId("ak-next").addEventListener("click", () => {
  pages.push(next);
  fresh = null;
  turn(byId("ak-next"));
 });
 byId("ak-first").addEventListener("click", () => {
  pages = [null];
  turn(byId("ak-first"));
 });
 prepareNew(reload);
}
