// What a form has done, and why something was not done.

import { el } from "./elements.js";

let changed = () => {};

/** Calls `work` after each thing that was done. */
export const whenDone = (work) => { changed = work; };

/** Shows something in a place. */
export function fill(place, isBad, title, ...content) {
 place.hidden = false;
 place.classList.toggle("bad", isBad);
 place.replaceChildren(el("h4", {}, title), ...content.filter(Boolean));
}

/** Shows a result in a place, and moves the focus there. */
export function result(place, isBad, title, ...content) {
 fill(place, isBad, title, ...content);
 place.focus();
}

/** Shows why something was not done, and what would be right. */
function fault(place, error) {
 const item = (it) => el("li", {}, it.message, it.help && el("small", {}, it.help));
 const mistakes = error.mistakes ?? [];
 result(place, true, "✗ It was not done",
  error.message && el("p", {}, error.message),
  mistakes.length > 0 && el("ul", {}, ...mistakes.map(item)));
}

/** Runs `work` once at a time; its button is busy meanwhile. `isChange`: whether it may change something. */
export function during(button, place, work, isChange = true) {
 if (button.ariaBusy === "true") return;
 button.ariaBusy = "true";
 work().catch((error) => fault(place, error)).finally(() => {
  button.ariaBusy = "false";
  if (isChange) changed();
 });
}

/** A button that asks once more before it acts. */
export function confirmed(text, question, place, work) {
 const button = el("button", { type: "button" }, text);
 const reset = () => { button.textContent = text; };
 button.addEventListener("blur", reset);
 button.addEventListener("click", () => {
  if (button.textContent === text) button.textContent = question;
  else {
   reset();
   during(button, place, work);
  }
 });
 return button;
}

export const pairs = (all) => el("dl", {}, ...all.filter(([, value]) => value)
 .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
