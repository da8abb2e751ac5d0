// The forms for a request and for a key that are written by hand.

import { clientPanel } from "./client.js";
import { byId, el, show } from "./elements.js";
import { explainNow } from "./explained.js";
import { during } from "./results.js";

/** Offers the policies where one of them is chosen. */
export function knowNames(names) {
 const offer = (id, first) => show(id, names, () => {
  const before = byId(id).value;
  const option = (value, text) => el("option", { value, selected: before === value ? "" : undefined }, text);
  return [...first.map((text) => option("", text)), ...names.map((name) => option(name, name))];
 });
 offer("k-policy", []);
 offer("top-policy", ["of all policies"]);
 offer("by-policy-which", ["all that refuse, the most first"]);
}

export function prepareForms() {
 byId("explain").addEventListener("submit", (event) => {
  event.preventDefault();
  during(byId("explain").querySelector("[type=submit]"), byId("explained"), explainNow, false);
 });
 byId("key").addEventListener("submit", (event) => {
  event.preventDefault();
  const place = byId("keyed");
  place.hidden = false;
  place.replaceChildren(...clientPanel({ policy: byId("k-policy").value, key: byId("k-key").value.trim() }));
  place.focus();
 });
}
