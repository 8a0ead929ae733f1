// A list of any length, of which only the rows in view are in the page: it is moved by wheel and keys.

import { make } from "./dom.js";

/** Rows above and below those in view, which a fast wheel shows before they are drawn. */
const AROUND = 6;

export class Rows {
  /**
   * kind: a class of the list, which says how wide its columns are. height: of a row, in pixels. heads: of the columns.
   * cells(item): texts or elements. on: { choose(item), key(event, item) }, of which `key` may be missing.
   */
  constructor({ kind, label, height, heads, cells, on }) {
    this.kind = kind;
    this.height = height;
    this.cells = cells;
    this.on = on;
    this.items = [];
    this.places = new Map();
    this.drawn = new Map();
    this.chosen = null;
    this.list = make("div", { className: "list", tabIndex: 0, role: "listbox", ariaLabel: label });
    this.space = this.list.appendChild(make("div", { className: "space", role: "none" }));
    const head = make("div", { className: "row head", ariaHidden: "true" }, ...heads.map((name) => make("span", {}, name)));
    this.element = make("div", { className: `table ${kind}` }, head, this.list);
    this.list.addEventListener("scroll", () => this.draw(), { passive: true });
    this.list.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.list);
  }

  show(items) {
    this.items = items;
    this.places = new Map(items.map((item, place) => [item, place]));
    this.drawn.clear();
    this.space.replaceChildren();
    this.space.style.height = `${items.length * this.height}px`;
    this.list.style.height = `${Math.max(3, items.length) * this.height + 2}px`; // as far as the style lets it
    this.list.scrollTop = 0;
    this.draw();
  }

  has(item) {
    return this.places.has(item);
  }

  /** Adds the rows that have come into view, and removes those that have left it. */
  draw() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / this.height) - AROUND);
    const last = Math.min(this.items.length, first + Math.ceil(this.list.clientHeight / this.height) + 2 * AROUND);
    for (const [place, row] of this.drawn) {
      if (place >= first && place < last) continue;
      row.remove();
      this.drawn.delete(place);
    }
    let active = null;
    for (let place = first; place < last; place++) {
      if (!this.drawn.has(place)) this.drawn.set(place, this.space.insertBefore(this.row(place), this.space.children[place - first] ?? null));
      const row = this.drawn.get(place);
      const isChosen = this.items[place] === this.chosen;
      row.ariaSelected = String(isChosen);
      if (isChosen) active = row;
    }
    if (active) this.list.setAttribute("aria-activedescendant", active.id);
    else this.list.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const item = this.items[place];
    const cells = this.cells(item).map((cell) => make("span", { title: cell.nodeType ? "" : cell }, cell));
    const row = make("div", { className: "row", id: `${this.kind}-${place}`, role: "option" }, ...cells);
    row.style.top = `${place * this.height}px`;
    row.style.height = `${this.height}px`;
    row.setAttribute("aria-posinset", place + 1);
    row.setAttribute("aria-setsize", this.items.length);
    row.addEventListener("click", () => this.choose(item));
    return row;
  }

  key(event) {
    const at = this.places.get(this.chosen) ?? -1;
    const page = Math.max(1, Math.floor(this.list.clientHeight / this.height) - 1);
    const last = this.items.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last }[event.key];
    if (to !== undefined && this.items.length) {
      event.preventDefault();
      this.choose(this.items[Math.max(0, Math.min(to, last))]);
    } else if (this.chosen !== null) this.on.key?.(event, this.chosen);
  }

  choose(item) {
    this.chosen = item;
    const top = this.places.get(item) * this.height;
    const { scrollTop, clientHeight } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    if (top + this.height > scrollTop + clientHeight) this.list.scrollTop = top + this.height - clientHeight;
    this.draw();
    this.on.choose(item);
  }
}
