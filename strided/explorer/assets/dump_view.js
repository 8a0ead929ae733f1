// A dump: its arrays with statistics and maps, its programs with their instructions, and links between them.

import { make, number, plural } from "./dom.js";
import { valuesPicture } from "./heat.js";
import { LayoutPanel } from "./layout_panel.js";
import { MapView } from "./map_view.js";
import { ModuleView } from "./module_view.js";
import { Rows } from "./rows.js";
import { unpacked } from "./unpack.js";

const ARRAY_ORDERS = {
  dump: () => 0,
  bytes: (a, b) => (b.bytes ?? 0) - (a.bytes ?? 0),
  NaN: (a, b) => strange(b) - strange(a),
};

export class DumpView {
  /** modules: of each program its packed instructions, or null. */
  constructor(host, dump, modules) {
    this.dump = dump;
    this.modules = modules;
    this.pictures = new Map();
    this.unpacked = new Map();
    dump.arrays.forEach((array) => {
      array.program_label = dump.programs[array.program].label;
      array.text = `${array.program_label}/${array.name} ${array.shape ?? ""} ${array.instruction}`.toLowerCase();
    });
    const [arrays, programs] = [make("section", {}), make("section", {})];
    host.append(arrays, programs);
    this.buildArrays(arrays);
    this.buildPrograms(programs);
    this.panel = new LayoutPanel(host);
    this.filter();
    this.showProgram(Math.max(0, modules.findIndex((module) => module)));
  }

  // ---- arrays --------------------------------------------------------------------------------------------------------

  buildArrays(host) {
    this.search = make("input", { type: "search", id: "find-array", placeholder: "name or shape", autocomplete: "off", spellcheck: false });
    this.order = make("select", { id: "order-arrays" }, ...Object.keys(ARRAY_ORDERS).map((name) => make("option", { value: name }, name)));
    this.count = make("span", { className: "legend", role: "status" });
    for (const control of [this.search, this.order]) control.addEventListener("input", () => this.filter());
    this.rows = new Rows({
      kind: "arrays",
      label: "Arrays. Arrow keys move.",
      height: 40,
      heads: ["", "name", "shape", "bytes", "least", "largest", "mean", "NaN, Inf"],
      cells: (array) => this.cells(array),
      on: { choose: (array) => this.describe(array) },
    });
    this.detail = make("section", { className: "detail", ariaLive: "polite" });
    this.map = make("div", {});
    const controls = make(
      "div",
      { className: "controls" },
      make("label", { htmlFor: "find-array" }, "search"),
      this.search,
      make("label", { htmlFor: "order-arrays" }, "order by"),
      this.order,
      this.count,
    );
    host.append(make("h2", {}, "Arrays"), controls, this.rows.element, this.detail, this.map);
    host.hidden = !this.dump.arrays.length;
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.dump.arrays.filter((array) => words.every((word) => array.text.includes(word)));
    this.rows.show(found.sort(ARRAY_ORDERS[this.order.value]));
    this.count.textContent = plural(found.length, "array");
  }

  cells(array) {
    const figures = array.statistics;
    const odd = make("span", { className: strange(array) ? "warn" : "" }, figures ? number(strange(array)) : "");
    return [
      array.map ? this.pictureOf(array) : "",
      this.nameOf(array),
      array.problem ?? array.shape,
      array.bytes === undefined ? "" : number(array.bytes),
      figures?.least ?? "",
      figures?.largest ?? "",
      figures?.mean ?? "",
      odd,
    ];
  }

  /** A picture, painted once. */
  pictureOf(array) {
    if (!this.pictures.has(array)) this.pictures.set(array, valuesPicture(array.map));
    return this.pictures.get(array);
  }

  nameOf(array) {
    return this.dump.programs.length > 1 ? `${array.program_label}/${array.name}` : array.name;
  }

  describe(array) {
    this.panel.close();
    const figures = array.statistics;
    const layout = array.layout === undefined || array.layout === null ? "" : this.panel.link(this.dump.layouts[array.layout], array.values ?? null);
    const facts = [
      ["program", array.program_label],
      ["instruction", this.instructionLink(array)],
      [layout ? "layout" : "shape", layout || array.shape],
      ["bytes", array.bytes === undefined ? "" : number(array.bytes)],
      ["values", figures ? valuesInWords(figures) : array.problem || "not in this page: explore the array alone"],
    ];
    const rows = facts.filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
    this.detail.replaceChildren(make("h2", {}, this.nameOf(array)), make("dl", { className: "facts" }, ...rows));
    this.map.replaceChildren();
    this.mapView = array.map ? new MapView(this.map, array.map) : null;
  }

  /** A link to the instruction of an array, if the page has the instructions of its program. */
  instructionLink(array) {
    if (!array.instruction || !this.modules[array.program]) return array.instruction;
    const button = make("button", { type: "button", className: "link" }, array.instruction);
    button.addEventListener("click", async () => {
      await this.showProgram(array.program);
      const k = this.module.module.names.indexOf(array.instruction);
      if (k >= 0) this.module.follow(k);
      this.programs.scrollIntoView({ block: "start" });
    });
    return button;
  }

  /** Links to the arrays that an instruction has. */
  arrayLinks(program, name) {
    return this.dump.arrays
      .filter((array) => array.program === program && array.instruction === name)
      .map((array) => {
        const button = make("button", { type: "button", className: "link" }, array.name);
        button.addEventListener("click", () => {
          if (!this.rows.has(array)) {
            this.search.value = "";
            this.filter();
          }
          this.rows.choose(array);
          this.detail.scrollIntoView({ block: "center" });
        });
        return button;
      });
  }

  // ---- programs ------------------------------------------------------------------------------------------------------

  buildPrograms(host) {
    const { programs } = this.dump;
    const names = programs.map(({ label }, k) => make("option", { value: k }, this.modules[k] ? label : `${label} (files only)`));
    this.choice = make("select", { id: "program" }, ...names);
    this.choice.addEventListener("input", () => this.showProgram(Number(this.choice.value)));
    const controls = make("div", { className: "controls" }, make("label", { htmlFor: "program" }, "program"), this.choice);
    controls.hidden = programs.length < 2;
    this.about = make("div", {});
    this.instructions = make("div", {});
    this.programs = host;
    host.append(make("h2", {}, programs.length > 1 ? "Programs" : "Program"), controls, this.about, this.instructions);
  }

  async showProgram(k) {
    if (this.shown === k) return;
    this.shown = k;
    this.panel.close();
    this.choice.value = k;
    const { files, notes } = this.dump.programs[k];
    const listed = files.map(([name, kind, size]) => make("li", {}, `${name} (${kind}, ${plural(size, "byte")})`));
    this.about.replaceChildren(
      ...notes.map((note) => make("p", { className: note.startsWith("broken") ? "message wrong" : "message" }, note)),
      ...(listed.length ? [make("details", {}, make("summary", {}, plural(listed.length, "file")), make("ul", {}, ...listed))] : []),
    );
    const sections = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".program"))];
    for (const section of sections) section.hidden = section.dataset.program !== String(k);
    this.instructions.replaceChildren();
    this.module = null;
    if (!this.modules[k]) return;
    if (!this.unpacked.has(k)) this.unpacked.set(k, unpacked(this.modules[k]));
    const module = await this.unpacked.get(k);
    if (this.shown !== k) return; // another one was chosen meanwhile
    const own = sections.filter((section) => !section.hidden && !section.dataset.isLinked);
    for (const section of own) section.dataset.isLinked = "yes";
    this.module = new ModuleView(this.instructions, module, this.panel, own, (name) => this.arrayLinks(k, name));
  }
}

function strange(array) {
  return array.statistics ? array.statistics.nan + array.statistics.inf : 0;
}

function valuesInWords({ least, largest, mean, nan, inf, size, sampled }) {
  const words = mean ? [...(least ? [`least ${least}`, `largest ${largest}`] : []), `mean ${mean}`] : ["none are finite"];
  words.push(`${number(nan)} NaN, ${number(inf)} infinite`);
  return `${words.join(", ")}, of ${sampled < size ? `a sample of ${number(sampled)} of ` : ""}${plural(size, "element")}`;
}
