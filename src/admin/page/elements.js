// Elements, made of text alone: no markup is ever read from a text.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
 for (const [name, value] of Object.entries(attributes)) {
  if (typeof value === "function") element.addEventListener(name, value);
  else if (value !== undefined) element.setAttribute(name, value);
 }
 element.append(...children.flat().filter((it) => it || it === 0));
 return element;
}

/** An element with attributes, listeners (functions) and children (texts are escaped). */
export const el = (name, attributes = {}, ...children) =>
 filled(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) =>
 filled(document.createElementNS(SVG, name), attributes, children);

export const tag = (kind, text) => el("span", { class: `tag ${kind}` }, text);
export const small = (text) => el("small", {}, text);

export const byId = (id) => document.getElementById(id);

const shown = new Map();

/**
 * Shows `children()` in a container if `data` has changed. The focus stays where it was (by
 * data-key), and nothing moves while it is pressed or selected.
 */
export function show(id, data, children) {
 const container = byId(id);
 const text = JSON.stringify(data);
 if (shown.get(id) === text || container.matches(":active")) return;
 const { isCollapsed, anchorNode } = getSelection();
 if (!isCollapsed && container.contains(anchorNode)) return;
 shown.set(id, text);
 const focused = container.contains(document.activeElement) ? document.activeElement.dataset.key : null;
 const wasOpen = container.querySelector("details[open]");
 container.replaceChildren(...[children()].flat());
 if (wasOpen) container.querySelector("details")?.setAttribute("open", "");
 if (focused) container.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

/** Says above a container why what it shows is old. Without a reason, it is not old. */
export function showOld(id, why) {
 const container = byId(id);
 const said = container.previousElementSibling?.matches(".old") ? container.previousElementSibling : null;
 if (!why) return said?.remove();
 const place = said ?? el("p", { class: "old fault" });
 const text = `▲ Not refreshed: ${why}`;
 if (place.textContent !== text) place.textContent = text;
 if (!said) container.before(place);
}

/**
 * A table. Each column is [title, cell], where cell makes the content for a row; the first one
 * is the header of the row. On narrow screens rows become cards, which keep their roles.
 */
export function table(caption, columns, rows) {
 const head = columns.map(([title]) => el("th", { scope: "col", role: "columnheader" }, title));
 const cell = (row) => ([title, content], index) => {
  const inner = [content(row)].flat();
  return index === 0
   ? el("th", { scope: "row", role: "rowheader" }, ...inner)
   : el("td", { role: "cell", "data-label": title }, el("div", {}, ...inner));
 };
 const body = rows.map((row) => el("tr", { role: "row" }, ...columns.map(cell(row))));
 return el("table", { class: "cards", role: "table", "aria-label": caption },
  el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head)),
  el("tbody", { role: "rowgroup" }, ...body));
}

/** A share of a whole as a bar. The number stands beside it. */
export function bar(share) {
 const width = Math.min(100, Math.max(share > 0 ? 2 : 0, share * 100));
 return svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
  svg("rect", { width: 100, height: 10, rx: 2 }),
  svg("rect", { class: "part", width, height: 10, rx: 2 }));
}
