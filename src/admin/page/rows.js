// Tables that are refreshed while they are used: a row can be opened, and what is open stays.

import { byId, el } from "./elements.js";

const narrow = matchMedia("(max-width: 48rem)");
const tables = new Map();
narrow.addEventListener("change", () => tables.forEach(draw));

/**
 * A table in the container `id`. Each column is { title, cell, class }, where `cell` makes the
 * content for a row; the first one is the header of the row. `key` identifies a row. At most
 * `most` rows are shown until the others are asked for (fewer on narrow screens).
 */
export function liveTable(id, { caption, columns, key, empty, most = 8 }) {
 const head = columns.map((it) => el("th", { scope: "col", role: "columnheader", class: it.class }, it.title));
 const body = el("tbody", { role: "rowgroup" });
 const table = el("table", { class: "cards", role: "table", "aria-label": caption },
  el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head)), body);
 const more = el("button", { class: "small more", click: () => { it.all = !it.all; draw(it); } });
 const none = el("p", { class: "quiet" }, empty);
 const it = { id, columns, key, body, table, more, none, most, rows: [], all: false, opened: null };
 byId(id).append(none, table, more);
 tables.set(id, it);
 const shown = () => Math.min(it.rows.length, it.all ? Infinity : narrow.matches ? Math.min(5, most) : most);
 it.shown = shown;
 draw(it);
 return { update: (rows) => { it.rows = rows; draw(it); }, shown };
}

/** Draws the rows anew that have changed. While a row is open, rows keep their order. */
function draw(it) {
 let rows = it.rows.slice(0, it.shown());
 it.none.hidden = it.rows.length > 0;
 it.table.hidden = !it.rows.length && !it.opened;
 it.more.hidden = it.rows.length <= it.shown() && !it.all;
 it.more.textContent = it.all ? "Show fewer" : `Show all ${it.rows.length}`;
 const old = new Map([...it.body.querySelectorAll("tr[data-row]")].map((tr) => [tr.dataset.row, tr]));
 if (it.opened) {
  const now = new Map(rows.map((row) => [it.key(row), row]));
  const kept = [...old.keys()].filter((key) => now.has(key) || key === it.opened.key);
  rows = [...kept.map((key) => now.get(key) ?? { gone: key }), ...rows.filter((row) => !kept.includes(it.key(row)))];
 }
 const wanted = rows.map((row) => (row.gone ? old.get(row.gone) : refreshed(it, old.get(it.key(row)), row)));
 const keep = new Set(wanted);
 for (const tr of old.values()) if (!keep.has(tr)) tr.remove();
 // An element that is moved loses the focus, so only those are moved that are out of place.
 let after = it.body.firstElementChild;
 for (const tr of wanted) {
  if (tr === after) after = tr.nextElementSibling;
  else it.body.insertBefore(tr, after);
  if (after?.matches(".panel")) after = after.nextElementSibling;
 }
}

function refreshed(it, old, row) {
 const text = JSON.stringify(row);
 if (old?.shownText === text || old?.matches(":active")) return old;
 const { isCollapsed, anchorNode } = getSelection();
 if (old && !isCollapsed && old.contains(anchorNode)) return old;
 const tr = old ?? el("tr", { role: "row", "data-row": it.key(row) });
 const focused = tr.contains(document.activeElement) ? document.activeElement.dataset.key : null;
 tr.shownText = text;
 tr.replaceChildren(...it.columns.map((column, index) => {
  const inner = [column.cell(row)].flat();
  const isEmpty = inner.length === 1 && inner[0] === "–";
  const classes = [column.class, isEmpty && "empty"].filter(Boolean).join(" ") || undefined;
  return index === 0
   ? el("th", { scope: "row", role: "rowheader", class: classes }, ...inner)
   : el("td", { role: "cell", "data-label": column.title, class: classes }, ...inner);
 }));
 mark(it, tr);
 if (focused) tr.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
 return tr;
}

const mark = (it, tr) => {
 const isOpen = it.opened?.key === tr.dataset.row;
 for (const button of tr.querySelectorAll("[data-opens]")) button.setAttribute("aria-expanded", isOpen);
 tr.classList.toggle("open", isOpen);
};

/** A button in a row that opens what `make` makes, under the row, or closes it. */
export const opener = (id, key, text, label, make) => el("button", {
 class: "small", type: "button", "data-key": `open ${key}`, "data-opens": "", "aria-expanded": "false", "aria-label": label,
 click: () => (tables.get(id).opened?.key === key ? close(id) : open(id, key, label, make)),
}, text);

/** Opens a panel under a row, and moves the focus into it. */
export function open(id, key, label, make) {
 const it = tables.get(id);
 close(id);
 const tr = rowOf(it, key);
 if (!tr) return false;
 const content = make();
 const panel = el("div", { class: "panel-inner", role: "group", "aria-label": label, tabindex: "-1" }, ...content);
 const closing = el("button", { class: "small close", type: "button", "aria-label": `Close: ${label}`, click: () => close(id) }, "Close");
 panel.append(closing);
 const row = el("tr", { class: "panel", role: "row" }, el("td", { role: "cell", colspan: it.columns.length }, panel));
 row.addEventListener("keydown", (event) => event.key === "Escape" && close(id));
 it.opened = { key, row };
 tr.after(row);
 mark(it, tr);
 (panel.querySelector("[data-first]") ?? panel).focus({ preventScroll: true });
 row.scrollIntoView({ block: "nearest" });
 return true;
}

const rowOf = (it, key) => it.body.querySelector(`tr[data-row="${CSS.escape(key)}"]`);

/** Closes what is open; the focus goes back to the button of its row. */
export function close(id) {
 const it = tables.get(id);
 const opened = it?.opened;
 if (!opened) return;
 const had = opened.row.contains(document.activeElement);
 it.opened = null;
 opened.row.remove();
 const tr = rowOf(it, opened.key);
 if (tr) mark(it, tr);
 if (had) tr?.querySelector("[data-opens]")?.focus();
 draw(it);
}
