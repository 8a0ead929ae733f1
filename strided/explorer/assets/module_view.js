// An HLO module: its instructions with sizes, searched and sorted; the operands and users of the chosen one.

import { make, number, plural } from "./dom.js";

const ROW = 26;
/** Users and operands that are listed. */
const MOST_LINKS = 60;

export class ModuleView {
  constructor(host, module) {
    this.module = module;
    this.search = make("input", { type: "search", id: "search", placeholder: "name, opcode, shape or op_name", autocomplete: "off", spellcheck: false });
    this.order = make(
      "select",
      { id: "order" },
      ...["program", "bytes", "padding"].map((name) => make("option", { value: name }, name)),
    );
    this.fused = make("input", { type: "checkbox", id: "fused" });
    this.count = make("span", { className: "legend", role: "status" });
    const controls = make(
      "div",
      { className: "controls" },
      make("label", { htmlFor: "search" }, "search"),
      this.search,
      make("label", { htmlFor: "order" }, "order by"),
      this.order,
      make("label", { className: "check", htmlFor: "fused" }, this.fused, "insides of fusions"),
      this.count,
    );
    this.list = make("div", { className: "list", tabIndex: 0, role: "listbox" });
    this.list.setAttribute("aria-label", "Instructions. Arrow keys move, Enter follows the first operand.");
    this.space = this.list.appendChild(make("div", { className: "space" }));
    this.detail = make("section", { className: "detail", ariaLive: "polite" });
    const head = make("div", { className: "row head", ariaHidden: "true" }, ...["name", "opcode", "bytes", "unpadded", "times", "shape"].map((name) => make("span", {}, name)));
    host.append(make("section", {}, make("h2", {}, "Instructions"), controls, make("div", { className: "table" }, head, this.list)), this.detail);
    this.chosen = null;
    this.prepare();
    this.search.addEventListener("input", () => this.filter());
    this.order.addEventListener("change", () => this.filter());
    this.fused.addEventListener("change", () => this.filter());
    this.list.addEventListener("scroll", () => this.draw(), { passive: true });
    this.list.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.list);
    this.filter();
    this.linkReports();
  }

  /** Cells of the tables below the list that name an instruction lead to it. */
  linkReports() {
    const places = new Map(this.module.names.map((name, k) => [name, k]));
    for (const cell of document.querySelectorAll(".part td")) {
      const k = places.get(cell.textContent.split(" ").at(-1).replace(/\{.*$/, ""));
      if (k === undefined || cell.textContent.trim().split(" ").length > 2) continue;
      const button = make("button", { type: "button", className: "link" }, cell.textContent);
      button.addEventListener("click", () => {
        this.follow(k);
        this.detail.scrollIntoView({ block: "nearest" });
      });
      cell.replaceChildren(button);
    }
  }

  /** What is searched in, and who uses what. */
  prepare() {
    const { module } = this;
    this.texts = module.names.map((name, k) =>
      `${name} ${module.opcodes[module.opcode[k]]} ${module.shapes[module.shape[k]]} ${module.origins[module.origin[k]]}`.toLowerCase(),
    );
    this.users = module.names.map(() => []);
    module.operands.forEach((operands, k) => new Set(operands).forEach((back) => this.users[k - back].push(k)));
  }

  filter() {
    const { module } = this;
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let k = 0; k < module.names.length; k++) {
      if (!this.fused.checked && module.fused[module.computation[k]]) continue;
      if (words.every((word) => this.texts[k].includes(word))) found.push(k);
    }
    const bytes = (k) => module.bytes[module.shape[k]];
    const padding = (k) => bytes(k) - module.unpadded_bytes[module.shape[k]];
    if (this.order.value === "bytes") found.sort((a, b) => bytes(b) - bytes(a) || a - b);
    if (this.order.value === "padding") found.sort((a, b) => padding(b) - padding(a) || a - b);
    this.found = found;
    this.count.textContent = plural(found.length, "instruction");
    this.space.style.height = `${found.length * ROW}px`;
    this.list.scrollTop = 0;
    this.draw();
  }

  /** The rows in view, and a few around them. */
  draw() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 4);
    const last = Math.min(this.found.length, first + Math.ceil(this.list.clientHeight / ROW) + 8);
    const rows = [];
    for (let place = first; place < last; place++) rows.push(this.row(place));
    this.space.replaceChildren(...rows);
    const active = this.space.querySelector("[aria-selected=true]");
    if (active) this.list.setAttribute("aria-activedescendant", active.id);
    else this.list.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const { module } = this;
    const k = this.found[place];
    const [bytes, unpadded] = [module.bytes[module.shape[k]], module.unpadded_bytes[module.shape[k]]];
    const cells = [
      module.names[k],
      module.opcodes[module.opcode[k]],
      number(bytes),
      number(unpadded),
      unpadded ? (bytes / unpadded).toPrecision(3) : "",
      module.shapes[module.shape[k]],
    ];
    const row = make("div", { className: "row", id: `row${place}`, role: "option", ariaSelected: String(k === this.chosen) }, ...cells.map((cell) => make("span", { title: cell }, cell)));
    row.style.top = `${place * ROW}px`;
    row.setAttribute("aria-posinset", place + 1);
    row.setAttribute("aria-setsize", this.found.length);
    row.addEventListener("click", () => this.choose(k));
    return row;
  }

  key(event) {
    const at = this.found.indexOf(this.chosen);
    const page = Math.max(1, Math.floor(this.list.clientHeight / ROW) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.found.length - 1 }[event.key];
    if (event.key === "Enter" && this.chosen !== null && this.module.operands[this.chosen].length) {
      this.follow(this.chosen - this.module.operands[this.chosen][0]);
    } else if (to !== undefined && this.found.length) {
      event.preventDefault();
      this.choose(this.found[Math.max(0, Math.min(to, this.found.length - 1))]);
    }
  }

  /** Shows an instruction that the search may have left out. */
  follow(k) {
    if (!this.found.includes(k)) {
      this.search.value = "";
      this.fused.checked ||= Boolean(this.module.fused[this.module.computation[k]]);
      this.filter();
    }
    this.choose(k);
  }

  choose(k) {
    this.chosen = k;
    const top = this.found.indexOf(k) * ROW;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    if (top + ROW > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + ROW - this.list.clientHeight;
    this.draw();
    this.describe(k);
  }

  describe(k) {
    const { module } = this;
    const [operation, place] = module.origins[module.origin[k]].split("\n");
    const shape = module.shapes[module.shape[k]];
    const bytes = module.bytes[module.shape[k]];
    const padding = bytes - module.unpadded_bytes[module.shape[k]];
    const facts = [
      ["shape", shape],
      ["memory", `${plural(bytes, "byte")}${padding ? `, ${number(padding)} of them padding (${((100 * padding) / bytes).toFixed(1)}%)` : ", no padding"}`],
      ["computation", module.computations[module.computation[k]] + (module.is_root[k] ? ", of which it is the result" : "")],
      ["made by", operation],
      ["source", place],
    ];
    const rows = facts.filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
    this.detail.replaceChildren(
      make("h2", {}, `${module.names[k]}: ${module.opcodes[module.opcode[k]]}`),
      make("dl", { className: "facts" }, ...rows),
      ...this.links("operands", module.operands[k].map((back) => k - back)),
      ...this.links("users", this.users[k]),
    );
  }

  links(title, places) {
    if (!places.length) return [];
    const buttons = places.slice(0, MOST_LINKS).map((k) => {
      const button = make("button", { type: "button", className: "link" }, this.module.names[k]);
      button.addEventListener("click", () => this.follow(k));
      return button;
    });
    if (places.length > MOST_LINKS) buttons.push(make("span", {}, `and ${number(places.length - MOST_LINKS)} more`));
    return [make("h3", {}, title), make("p", { className: "links" }, ...buttons)];
  }
}

/** The module that a page holds, unpacked. */
export async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed.gzip), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
