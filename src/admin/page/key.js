// One API key: it is made, gets a new secret, or is revoked. Its text is shown once, in one place.

import { getTagged, send } from "./api.js";
import { byId, el, small } from "./elements.js";
import { confirmed, during, pairs, result } from "./results.js";
import { time } from "./words.js";

const OVERLAPS = [["0s", "at once"], ["1h", "in an hour"], ["1d", "in a day"], ["7d", "in 7 days"], ["30d", "in 30 days"]];

/** Removes the text of a key from the page. */
export function forgetSecret() {
 byId("new-secret").hidden = true;
 byId("new-secret").replaceChildren();
}
addEventListener("pagehide", forgetSecret);

/** A key whose text is still shown may not have been copied yet, so the next one has to wait. */
function checkRoom() {
 if (byId("new-secret").hidden) return;
 byId("new-secret").scrollIntoView({ block: "nearest" });
 throw new Error("The text of another key is still shown above: copy it, and remove it from the page.");
}

/** Shows the text of a key until it is dismissed. The focus then goes to `back`. */
function showSecret({ key, id, name, warning }, back) {
 const place = byId("new-secret");
 const text = el("code", {}, key);
 const said = el("span", { class: "quiet", "aria-live": "polite" });
 const copy = async () => {
  try {
   await navigator.clipboard.writeText(text.textContent);
   said.textContent = "✓ It is copied.";
  } catch {
   // A browser has a clipboard only for pages of the loopback, or with TLS.
   getSelection().selectAllChildren(text);
   said.textContent = "It is selected: copy it with Ctrl+C.";
  }
 };
 const dismiss = () => {
  getSelection().removeAllRanges();
  forgetSecret();
  back.focus();
 };
 place.replaceChildren(
  el("h3", {}, `The text of the key ${id}${name ? `, ${name}` : ""}`),
  el("p", {}, text),
  ...(warning ? [el("p", { class: "warn" }, `▲ ${warning}.`)] : []),
  el("p", {}, "It is shown once, now: no page and no call shows it again. If it is lost, make a new secret for the key."),
  el("div", { class: "buttons" },
   el("button", { type: "button", "data-do": "copy", click: copy }, "Copy it"),
   el("button", { type: "button", "data-do": "dismiss", click: dismiss }, "Remove it from the page"), said));
 place.hidden = false;
 place.focus({ preventScroll: true });
 place.scrollIntoView({ block: "nearest" });
}

/** Lines of the form `name=value`. */
function named(id, what) {
 const lines = byId(id).value.split("\n").map((line) => line.trim()).filter(Boolean);
 return Object.fromEntries(lines.map((line) => {
  const at = line.indexOf("=");
  if (at < 1) throw new Error(`“${line}” is not ${what}: write name=value`);
  return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
 }));
}

/** The form, empty, for this caller: a token that is bound to teams makes keys of these teams. */
export function newKey({ teams }) {
 byId("api-key-new").reset();
 byId("api-key-made").hidden = true;
 const team = byId("new-team");
 team.required = teams !== null;
 team.value = teams?.[0] ?? "";
 byId("new-team-note").textContent = teams === null ? "" : `one of ${teams.join(", ")}`;
}

/** `reload` shows the keys again, with the one that was made. */
export function prepareNew(reload) {
 const form = byId("api-key-new");
 const button = form.querySelector("[type=submit]");
 const place = byId("api-key-made");
 form.addEventListener("submit", (event) => {
  event.preventDefault();
  during(button, place, async () => {
   checkRoom();
   const body = { limits: named("new-limits", "a limit"), labels: named("new-labels", "a label"), first: byId("new-first").checked };
   for (const name of ["name", "team", "plan", "expires"]) body[name] = byId(`new-${name}`).value.trim() || undefined;
   const { key, ...made } = await send("POST", "/v1/keys", body);
   for (const id of ["new-name", "new-limits", "new-labels"]) byId(id).value = "";
   byId("new-first").checked = false;
   place.hidden = true;
   showSecret({ key, ...made }, byId("new-name"));
   await reload(made.id);
  });
 });
}

/** What can be done with a key. `reload` shows the keys again. */
export function keyPanel(it, reload) {
 const path = `/v1/keys/${it.id}`;
 const done = el("div", { class: "result", tabindex: "-1", hidden: "" });
 const facts = pairs([
  ["Name", it.name], ["Secrets", String(it.secrets.length)], ["Revoked", it.revoked && time(it.revoked)],
  ["Last used", it.last_used ? `${time(it.last_used)}, at most ten minutes late` : "not yet, or not for long"],
 ]);
 const title = el("p", {}, el("strong", {}, el("code", {}, it.id)));
 if (it.state === "revoked") return [title, facts, el("p", {}, "A revoked key stays revoked. Its record stays for 30 days.")];
 // A change is made only to the key that was seen when its row was opened, or after the last change.
 let seen = getTagged(path);
 seen.catch(() => {});
 const tag = async () => (await seen).tag;
 const again = () => { seen = getTagged(path); return seen; };
 const buttons = el("div", { class: "buttons" });
 const overlap = el("select", { "data-field": "overlap", "data-first": "" }, ...OVERLAPS.map(([value, text]) =>
  el("option", { value, selected: value === "1d" ? "" : undefined }, text)));
 const rotate = el("button", { type: "submit", class: "main", "data-do": "rotate" }, "Make a new secret");
 const form = el("form", { class: "fields" }, el("label", {}, "The old secret ends", overlap), rotate);
 form.addEventListener("submit", (event) => {
  event.preventDefault();
  during(rotate, done, async () => {
   checkRoom();
   const { key, warning } = await send("POST", `${path}/rotate`, { overlap: overlap.value }, await tag());
   result(done, false, `✓ It has a new secret. The old one ends ${overlap.selectedOptions[0].textContent}.`);
   showSecret({ key, warning, id: it.id, name: it.name }, rotate);
   await Promise.all([again(), reload()]);
  });
 });
 const revoke = confirmed("Revoke it", "Really revoke it for ever?", done, async () => {
  await send("DELETE", path, undefined, await tag());
  form.remove();
  buttons.remove();
  result(done, false, "✓ It is revoked", el("p", {}, "The last request with it passes within two seconds."));
  await reload();
 });
 revoke.dataset.do = "revoke";
 buttons.append(revoke);
 return [title, facts, form, buttons, el("p", {}, small("Both secrets count together while both are accepted.")), done];
}
