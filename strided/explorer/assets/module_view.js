// An HLO module: its instructions with sizes, searched and sorted; the layout, operands and users of the chosen one.

import { make, number, percent, plural } from "./dom.js";
import { Rows } from "./rows.js";

/** Users and operands that are listed. */
const MOST_LINKS = 60;
/** Characters of a shape. */
const LONGEST = 600;

export class ModuleView {
  /**
   * panel: shows layouts. sections: elements whose tables name instructions. linksOf(name): buttons to the values that
   * an instruction has in a dump.
   */
  constructor(host, module, panel, sections, linksOf = (_name) => []) {
    this.module = module;
    this.panel = panel;
    this.linksOf = linksOf;
    this.search = make("input", { type: "search", id: "find", placeholder: "name, opcode, shape or op_name", autocomplete: "off", spellcheck: false });
    this.order = make("select", { id: "order" }, ...["program", "bytes", "padding"].map((name) => make("option", { value: name }, name)));
    this.fused = make("input", { type: "checkbox", id: "fused" });
    this.count = make("span", { className: "legend", role: "status" });
    const controls = make(
      "div",
      { className: "controls" },
      make("label", { htmlFor: "find" }, "search"),
      this.search,
      make("label", { htmlFor: "order" }, "order by"),
      this.order,
      make("label", { className: "check", htmlFor: "fused" }, this.fused, "insides of fusions"),
      this.count,
    );
    this.rows = new Rows({
      kind: "instructions",
      label: "Instructions. Arrow keys move, Enter follows the first operand, L opens the layout.",
      height: 26,
      heads: ["name", "opcode", "bytes", "unpadded", "times", "shape"],
      cells: (k) => this.cells(k),
      on: { choose: (k) => this.describe(k), key: (event, k) => this.key(event, k) },
    });
    this.detail = make("section", { className: "detail", ariaLive: "polite" });
    host.append(make("section", {}, make("h2", {}, "Instructions"), controls, this.rows.element), this.detail);
    this.prepare();
    for (const control of [this.search, this.order, this.fused]) control.addEventListener("input", () => this.filter());
    this.search.addEventListener("keydown", (event) => event.key === "ArrowDown" && this.rows.list.focus());
    this.filter();
    this.linkReports(sections);
  }

  /** Cells of the tables below the list, and buffers in the pictures, that name an instruction lead to it. */
  linkReports(sections) {
    const places = new Map(this.module.names.map((name, k) => [name, k]));
    const show = (k) => {
      this.follow(k);
      this.detail.scrollIntoView({ block: "nearest" });
    };
    for (const drawn of sections.flatMap((section) => [...section.querySelectorAll("svg g")])) {
      const k = places.get(drawn.querySelector("title")?.textContent.split(": ")[0].replace(/\{.*$/, ""));
      if (k === undefined) continue;
      drawn.classList.add("link-to");
      drawn.addEventListener("click", () => show(k));
    }
    for (const cell of sections.flatMap((section) => [...section.querySelectorAll("td")])) {
      const k = places.get(cell.textContent.split(" ").at(-1).replace(/\{.*$/, ""));
      if (k === undefined || cell.textContent.trim().split(" ").length > 2) continue;
      const button = make("button", { type: "button", className: "link" }, cell.textContent);
      button.addEventListener("click", () => show(k));
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
    this.count.textContent = plural(found.length, "instruction");
    this.rows.show(found);
  }

  cells(k) {
    const { module } = this;
    const [bytes, unpadded] = [module.bytes[module.shape[k]], module.unpadded_bytes[module.shape[k]]];
    const shape = module.shapes[module.shape[k]];
    const layouts = module.layouts_of[module.shape[k]];
    const link = layouts.length === 1 ? make("a", { title: shape }, shape) : shape;
    if (link.nodeType) {
      link.addEventListener("click", (event) => {
        event.stopPropagation();
        this.rows.choose(k);
        this.panel.open(module.layouts[layouts[0]], null, this.rows.list);
      });
    }
    const times = unpadded ? (bytes / unpadded).toPrecision(3) : "";
    return [module.names[k], module.opcodes[module.opcode[k]], number(bytes), number(unpadded), times, link];
  }

  key(event, k) {
    const [first] = this.module.operands[k];
    if (event.key === "Enter" && first !== undefined) this.follow(k - first);
    const [layout] = this.module.layouts_of[this.module.shape[k]];
    if (event.key.toLowerCase() === "l" && layout !== undefined) this.panel.open(this.module.layouts[layout], null, this.rows.list);
  }

  /** Shows an instruction that the search may have left out. */
  follow(k) {
    if (!this.rows.has(k)) {
      this.search.value = "";
      this.fused.checked ||= Boolean(this.module.fused[this.module.computation[k]]);
      this.filter();
    }
    this.rows.choose(k);
  }

  describe(k) {
    const { module } = this;
    this.panel.close();
    const [operation, place] = module.origins[module.origin[k]].split("\n");
    const shape = module.shape[k];
    const bytes = module.bytes[shape];
    const padding = bytes - module.unpadded_bytes[shape];
    const layouts = module.layouts_of[shape].slice(0, MOST_LINKS).map((place) => this.panel.link(module.layouts[place]));
    const facts = [
      ["shape", layouts.length === 1 ? "" : cut(module.shapes[shape])],
      [layouts.length > 1 ? "layouts" : "layout", layouts],
      ["memory", `${plural(bytes, "byte")}${padding ? `, ${number(padding)} of them padding (${percent(padding / bytes)})` : ", no padding"}`],
      ["computation", module.computations[module.computation[k]] + (module.is_root[k] ? ", of which it is the result" : "")],
      ["made by", operation],
      ["source", place],
      ["values", this.linksOf(module.names[k])],
      ["operands", this.links(module.operands[k].map((back) => k - back))],
      ["users", this.links(this.users[k])],
    ];
    const rows = facts.filter(([, value]) => value.length).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...[value].flat())]);
    this.detail.replaceChildren(make("h2", {}, `${module.names[k]}: ${module.opcodes[module.opcode[k]]}`), make("dl", { className: "facts" }, ...rows));
  }

  links(places) {
    const buttons = places.slice(0, MOST_LINKS).map((k) => {
      const button = make("button", { type: "button", className: "link" }, this.module.names[k]);
      button.addEventListener("click", () => this.follow(k));
      return button;
    });
    if (places.length > MOST_LINKS) buttons.push(make("span", {}, `and ${number(places.length - MOST_LINKS)} more`));
    return buttons;
  }
}

/** A text that is not too long to read: a tuple may have thousands of arrays. */
function cut(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)} ... (${plural(text.length, "character")})` : text;
}
