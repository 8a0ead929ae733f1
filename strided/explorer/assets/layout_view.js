// A shape or an array: the array beside its memory, the sum behind each address, the bytes that a slice touches.

import { indexAt, offsetOf, placeOf, runsOf, steps } from "./address.js";
import { make, number, percent, plural } from "./dom.js";
import { Grid, marginOf } from "./grid.js";
import { indicesOf, MOST_SELECTED, parseKey } from "./key.js";
import { reader } from "./values.js";

const COLOURS = 6;
/** Significant digits of a value in a cell; below the grids it has all of them. */
const CELL_DIGITS = 4;
/** Characters of the widest value that a cell shows as wide as it is: a 64-bit integer, or a complex number. */
const WIDEST = 22;
/** Characters of an example that the search field has room for. */
const EXAMPLE = 32;
/** Runs of bytes that are listed. */
const MOST_RUNS = 24;

export class LayoutView {
  constructor(host, data) {
    this.layouts = data.layouts;
    this.data = data;
    this.valueOf = reader(data.values);
    this.showsValues = this.valueOf !== null;
    this.valueLength = this.valueOf ? longestOf(this.valueOf, this.layout.dimensions) : 0;
    const rank = this.layout.dimensions.length;
    this.rowDimension = rank > 1 ? rank - 2 : null; // as NumPy prints it
    this.columnDimension = rank > 0 ? rank - 1 : null;
    this.position = this.layout.dimensions.map(() => 0);
    this.active = rank ? null : [];
    this.hovered = null;
    this.selected = new Set();
    this.build(host);
    this.update();
  }

  get layout() {
    return this.layouts[0];
  }

  // ---- the page ------------------------------------------------------------------------------------------------------

  build(host) {
    this.search = make("input", {
      type: "search",
      id: "search",
      placeholder: example(this.layout),
      size: 26,
      autocomplete: "off",
      spellcheck: false,
    });
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.message = make("p", { className: "message", role: "status" });
    this.controls = make("div", { className: "controls" });
    this.controls.append(labelled("index, slice or byte", this.search), ...this.choices());
    const panes = make("div", { className: "panes" });
    this.captions = [];
    const pane = (title, label, on) => {
      const caption = make("span");
      this.captions.push(caption);
      const box = make("section", { className: "pane" }, make("h2", {}, title, caption));
      const grid = new Grid(box.appendChild(make("div", { className: "grid" })), label, on);
      panes.append(box);
      return grid;
    };
    this.array = pane("Array", "The array. Arrow keys move from element to element.", {
      hover: (row, column) => this.hover(this.indexOfCell(row, column)),
      leave: () => this.hover(null),
      choose: (row, column) => this.choose(this.indexOfCell(row, column)),
    });
    this.memories = this.layouts.map((layout, k) =>
      pane(
        this.layouts.length > 1 ? `Memory as ${layout.text}` : "Memory",
        "The buffer, slot after slot. Arrow keys move from slot to slot.",
        {
          hover: (row, column) => this.hoverSlot(k, row, column),
          leave: () => this.hover(null),
          choose: (row, column) => this.chooseSlot(k, row, column),
        },
      ),
    );
    this.detail = make("section", { className: "detail", ariaLive: "polite" });
    host.append(this.controls, this.message, panes, make("p", { className: "key" }, key(this.layout)), this.detail);
    this.search.addEventListener("keydown", (event) => event.key === "Escape" && this.clear());
    new ResizeObserver(() => {
      this.update();
      if (this.active) this.reveal(this.active);
    }).observe(panes);
  }

  choices() {
    const { dimensions } = this.layout;
    const chosen = [];
    if (dimensions.length > 2) {
      const select = (name, current, change) => {
        const list = make("select", { id: name });
        dimensions.forEach((size, k) => list.append(make("option", { value: k, selected: k === current }, `dimension ${k} (${size})`)));
        list.addEventListener("change", () => change(Number(list.value)));
        chosen.push(labelled(name, list));
        return list;
      };
      this.rowChoice = select("rows", this.rowDimension, (k) => this.turn(k, k === this.columnDimension ? this.rowDimension : this.columnDimension));
      this.columnChoice = select("columns", this.columnDimension, (k) => this.turn(k === this.rowDimension ? this.columnDimension : this.rowDimension, k));
      this.positions = dimensions.map((size, k) => {
        const input = make("input", { type: "number", id: `at${k}`, min: 0, max: size - 1, value: 0 });
        input.addEventListener("input", () => this.moveTo(k, Number(input.value)));
        chosen.push(labelled(`d${k} =`, input));
        return input;
      });
    }
    if (this.valueOf) {
      const box = make("input", { type: "checkbox", id: "values", checked: this.showsValues });
      box.addEventListener("change", () => {
        this.showsValues = box.checked;
        this.update();
      });
      chosen.push(make("label", { htmlFor: "values", className: "check" }, box, "values"));
    }
    if (this.layouts.length > 1) {
      this.play = make("button", { type: "button" }, "play one block");
      this.play.addEventListener("click", () => this.animate());
      chosen.push(this.play);
    }
    return chosen;
  }

  turn(rows, columns) {
    [this.rowDimension, this.columnDimension] = [rows, columns];
    this.rowChoice.value = rows;
    this.columnChoice.value = columns;
    this.array.scrollTo(0, 0);
    this.update();
  }

  moveTo(dimension, at) {
    if (!(at >= 0 && at < this.layout.dimensions[dimension])) return;
    this.position[dimension] = Math.floor(at);
    this.update();
  }

  // ---- cells and elements --------------------------------------------------------------------------------------------

  /** The index in a cell, which may lie beyond the ends of dimensions. */
  indexOfCell(row, column) {
    const index = [...this.position];
    if (this.rowDimension !== null) index[this.rowDimension] = row;
    if (this.columnDimension !== null) index[this.columnDimension] = column;
    return index;
  }

  isElement(index) {
    return index.every((at, k) => at < this.layout.dimensions[k]);
  }

  colourOf(index) {
    const tile = (k) => (k === null ? 0 : Math.floor(index[k] / (this.layout.tile_sizes[0][k] ?? Infinity)));
    return (3 * tile(this.rowDimension) + tile(this.columnDimension)) % COLOURS;
  }

  textOf(index, offset) {
    if (!this.showsValues) return String(offset);
    const at = index.reduce((sum, value, k) => sum * this.layout.dimensions[k] + value, 0);
    return this.valueOf(at, CELL_DIGITS);
  }

  markOf(offset) {
    if (offset === this.offsetOf(this.active)) return 2;
    return offset === this.offsetOf(this.hovered) || this.selected.has(offset) ? 1 : 0;
  }

  offsetOf(index) {
    return index && this.isElement(index) ? offsetOf(this.layout, index) : null;
  }

  arrayModel() {
    const { padded_dimensions: padded, tile_sizes: tiles } = this.layout;
    const sizeOf = (k) => (k === null ? 1 : Math.max(1, padded[k]));
    const edge = (k) => (at) => (k === null ? 0 : at % (tiles[0][k] ?? Infinity) === 0 ? 2 : at % (tiles[1][k] ?? Infinity) === 0 && tiles[1][k] > 1 ? 1 : 0);
    const label = (k) => (at) => (k === null || at >= this.layout.dimensions[k] ? "" : String(at));
    return {
      rows: sizeOf(this.rowDimension),
      columns: sizeOf(this.columnDimension),
      reach: [this.rowDimension, this.columnDimension].map((k) => (k === null ? 1 : this.layout.dimensions[k])),
      width: this.cellWidth(),
      height: 22,
      labelLength: String(sizeOf(this.rowDimension) - 1).length,
      rowEdge: edge(this.rowDimension),
      columnEdge: edge(this.columnDimension),
      rowLabel: label(this.rowDimension),
      columnLabel: label(this.columnDimension),
      cell: (row, column) => {
        const index = this.indexOfCell(row, column);
        if (!this.isElement(index)) return this.layout.slots ? { hatched: true } : null; // an empty array has no padding
        const offset = offsetOf(this.layout, index);
        return { colour: this.colourOf(index), text: this.textOf(index, offset), marked: this.markOf(offset) };
      },
    };
  }

  cellWidth() {
    const longest = this.showsValues ? this.valueLength : Math.min(12, String(Math.max(1, this.layout.slots - 1)).length);
    return Math.max(30, 12 + 6.8 * longest);
  }

  /** Slots side by side, as many as fit: one row of the array, or else a power of two. */
  slotsOfRow(layout) {
    const fitting = this.roomFor(layout) / this.slotWidth(layout);
    const minor = layout.parts.toReversed().find((part) => part.bound > 1);
    if (minor && minor.bound >= 4 && minor.bound <= fitting) return minor.bound;
    return 2 ** Math.floor(Math.log2(Math.min(32, Math.max(4, fitting))));
  }

  /** Pixels beside the row labels of a layout's memory. */
  roomFor(layout) {
    const { width } = this.memories[this.layouts.indexOf(layout)].canvas.getBoundingClientRect();
    return width - marginOf(number(layout.slots).length) - 2;
  }

  slotWidth(layout) {
    const widest = layout.dimensions.map((size) => Math.max(0, size - 1)).join(", ").length;
    return Math.max(34, 10 + 6.6 * Math.min(24, this.showsValues ? this.valueLength : widest));
  }

  memoryModel(layout) {
    const columns = this.slotsOfRow(layout);
    const isShared = layout.tile_sizes[1].some((size) => size > 1);
    const ofWord = isShared ? Math.floor(32 / layout.element_bits) : 0;
    return {
      rows: Math.max(1, Math.ceil(layout.slots / columns)),
      columns,
      width: Math.max(this.slotWidth(layout), Math.min(90, this.roomFor(layout) / columns)),
      height: 22,
      labelLength: number(layout.slots).length,
      rowEdge: () => 0,
      columnEdge: (column) => (ofWord > 1 && column % ofWord === 0 ? 1 : 0),
      rowLabel: (row) => number(row * columns),
      columnLabel: (column) => `+${column}`,
      cell: (row, column) => {
        const slot = row * columns + column;
        if (slot >= layout.slots) return null;
        const { index } = indexAt(layout, slot);
        if (!index) return { hatched: true, marked: this.padding?.layout === layout && this.padding.slot === slot ? 2 : 0 };
        const inPlane = index.every((at, k) => k === this.rowDimension || k === this.columnDimension || at === this.position[k]);
        const text = this.showsValues ? this.textOf(index, slot) : index.join(", ");
        return { colour: this.colourOf(index), text, faint: !inPlane, marked: this.markOf(offsetOf(this.layout, index)) };
      },
    };
  }

  // ---- what people do ------------------------------------------------------------------------------------------------

  hover(index) {
    this.hovered = index && this.isElement(index) ? index : null;
    if (!this.active && !this.padding && !this.selected.size && this.hovered) this.describe(this.hovered);
    this.redraw();
  }

  hoverSlot(k, row, column) {
    const layout = this.layouts[k];
    const slot = row * this.slotsOfRow(layout) + column;
    this.hover(slot < layout.slots ? indexAt(layout, slot).index : null);
  }

  choose(index) {
    if (!this.isElement(index)) return;
    this.padding = null;
    this.active = index;
    index.forEach((at, k) => {
      if (k !== this.rowDimension && k !== this.columnDimension) this.position[k] = at;
    });
    this.describe(index);
    this.update();
    this.reveal(index);
  }

  chooseSlot(k, row, column) {
    const layout = this.layouts[k];
    if (!layout.slots) return;
    const columns = this.slotsOfRow(layout);
    const slot = Math.min(row * columns + column, layout.slots - 1); // keys go to the end of a row that is not full
    const { index, over } = indexAt(layout, slot);
    if (index) return this.choose(index);
    this.active = null;
    this.padding = { layout, slot };
    this.memories[k].focus = [Math.floor(slot / columns), slot % columns];
    this.memories[k].reveal(...this.memories[k].focus);
    this.describePadding(layout, slot, over);
    this.update();
  }

  reveal(index) {
    const row = this.rowDimension === null ? 0 : index[this.rowDimension];
    const column = this.columnDimension === null ? 0 : index[this.columnDimension];
    this.array.focus = [row, column];
    this.array.reveal(row, column);
    this.layouts.forEach((layout, k) => {
      const columns = this.slotsOfRow(layout);
      const slot = offsetOf(layout, index);
      this.memories[k].focus = [Math.floor(slot / columns), slot % columns];
      this.memories[k].reveal(Math.floor(slot / columns), slot % columns);
    });
  }

  clear() {
    this.search.value = "";
    this.forget();
    this.say("");
    this.update();
  }

  /** Nothing is chosen any more. */
  forget() {
    this.selected = new Set();
    this.active = this.layout.dimensions.length ? null : [];
    this.padding = null;
    this.detail.replaceChildren();
  }

  find(text) {
    if (!text.trim()) return this.clear();
    this.forget();
    try {
      const key = parseKey(text, this.layout.dimensions);
      if (key.byte !== undefined) this.findByte(key.byte);
      else this.findElements(key.axes);
    } catch (error) {
      this.say(error.message, true);
      this.update();
    }
  }

  findByte(byte) {
    const { layout } = this;
    if (byte >= layout.byte_size + layout.prefix_bytes) {
      throw new Error(`byte ${byte} is behind the buffer, which has ${number(layout.byte_size + layout.prefix_bytes)}`);
    }
    if (byte < layout.prefix_bytes) {
      this.say(`byte ${byte} is metadata in front of the array`);
      return this.update();
    }
    const slot = Math.floor(((byte - layout.prefix_bytes) * 8) / layout.element_bits);
    const columns = this.slotsOfRow(layout);
    this.say("");
    this.chooseSlot(0, Math.floor(slot / columns), slot % columns);
  }

  findElements(axes) {
    const count = axes.reduce((product, axis) => product * axis.count, 1);
    if (!count) {
      this.say("no elements");
      return this.update();
    }
    const first = axes.map((axis) => axis.start);
    if (count === 1) {
      this.say("");
      return this.choose(first);
    }
    const offsets = [];
    for (const index of indicesOf(axes)) offsets.push(offsetOf(this.layout, index));
    this.selected = new Set(offsets);
    this.active = null;
    this.say(count > MOST_SELECTED ? `${number(count)} elements; the first ${number(MOST_SELECTED)} are shown` : "");
    this.describeRuns(offsets, count);
    axes.forEach((axis, k) => (this.position[k] = k === this.rowDimension || k === this.columnDimension ? this.position[k] : axis.start));
    this.update();
    this.reveal(first);
  }

  /** Shows where each element of the first block comes from and goes to, one after another. */
  async animate() {
    const [from, to] = this.layouts;
    const most = Math.min(64, to.slots);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.showBlock(most);
    this.play.disabled = true;
    for (let slot = 0; slot < most && this.play.isConnected; slot++) {
      const { index } = indexAt(to, slot);
      if (!index) continue;
      this.choose(index);
      this.say(`slot ${slot} of the target takes element [${index.join(", ")}], slot ${offsetOf(from, index)} of the source`);
      await new Promise((resolve) => setTimeout(resolve, 90));
    }
    this.play.disabled = false;
  }

  /** The first slots of the target at once, and where they come from: the animation for those who want no motion. */
  showBlock(most) {
    const [from, to] = this.layouts;
    const indices = Array.from({ length: most }, (_, slot) => indexAt(to, slot).index).filter(Boolean);
    if (!indices.length) return;
    this.choose(indices[0]);
    this.selected = new Set(indices.map((index) => offsetOf(from, index)));
    this.say(`the marked ${plural(indices.length, "slot")} of the source become the first ${number(most)} of the target`);
    this.redraw();
  }

  // ---- words ---------------------------------------------------------------------------------------------------------

  say(text, isWrong = false) {
    this.message.textContent = text;
    this.message.classList.toggle("wrong", isWrong);
  }

  describe(index) {
    const blocks = this.layouts.map((layout) => {
      const offset = offsetOf(layout, index);
      const rows = steps(layout, index).map((step) =>
        row(step.text, number(step.value), `of ${number(step.bound)}`, `× ${number(step.stride)}`, `= ${number(step.adds)}`),
      );
      const sum = row("offset", "", "", "", `= ${number(offset)}`);
      sum.className = "sum";
      const table = make("table", {}, make("tbody", {}, ...rows, sum));
      const title = this.layouts.length > 1 ? [make("h3", {}, layout.text)] : [];
      return make("div", {}, ...title, table, make("p", {}, placeInWords(layout, offset)), ...bitsOf(layout, offset));
    });
    const about = [`element [${index.join(", ")}]`];
    if (this.valueOf) {
      const at = index.reduce((sum, value, k) => sum * this.layout.dimensions[k] + value, 0);
      about.push(` = ${this.valueOf(at)}`);
    }
    this.detail.replaceChildren(make("h2", {}, ...about), make("div", { className: "sums" }, ...blocks));
  }

  describePadding(layout, slot, over) {
    const rank = layout.dimensions.length;
    const why = over < rank ? `padding of dimension ${over}, which ends at ${number(layout.dimensions[over])}` : "padding, beyond every dimension";
    this.detail.replaceChildren(make("h2", {}, why), make("p", {}, `slot ${number(slot)}: ${placeInWords(layout, slot)}`));
  }

  describeRuns(offsets, count) {
    const runs = runsOf(this.layout, offsets);
    const read = runs.reduce((sum, [start, stop]) => sum + stop - start, 0);
    const span = runs.at(-1)[1] - runs[0][0];
    const words =
      runs.length === 1
        ? `1 run of ${plural(read, "byte")}: ${bytesInWords(runs[0][0], runs[0][1] - 1)}`
        : `${plural(runs.length, "run")} of bytes, ${plural(read, "byte")} between byte ${number(runs[0][0])} and ${number(runs.at(-1)[1] - 1)} (${percent(read / span)} of them)`;
    const shown = runs.length === 1 ? [] : runs.slice(0, MOST_RUNS);
    const items = shown.map(([start, stop]) => make("li", {}, rangeInWords(start, stop - 1)));
    const list = items.length ? [make("ol", { className: "runs" }, ...items)] : [];
    if (runs.length > MOST_RUNS) list.push(make("p", {}, `and ${number(runs.length - MOST_RUNS)} more`));
    const title = count > offsets.length ? `the first ${number(offsets.length)} of ${plural(count, "element")}` : plural(count, "element");
    this.detail.replaceChildren(make("h2", {}, title), make("p", {}, words), ...list);
  }

  // ---- drawing -------------------------------------------------------------------------------------------------------

  update() {
    this.positions?.forEach((input, k) => {
      input.parentElement.hidden = k === this.rowDimension || k === this.columnDimension;
      if (document.activeElement !== input) input.value = this.position[k];
    });
    const words = this.showsValues ? ["values", "values"] : ["offsets", "indices"];
    this.captions.forEach((caption, k) => (caption.textContent = words[Math.min(k, 1)]));
    show(this.array, this.arrayModel());
    this.layouts.forEach((layout, k) => show(this.memories[k], this.memoryModel(layout)));
    if (this.active && !this.detail.hasChildNodes()) this.describe(this.active);
  }

  redraw() {
    this.array.draw();
    this.memories.forEach((memory) => memory.draw());
  }
}

/** Shows a model in a grid that is no higher than its rows. */
function show(grid, model) {
  grid.host.style.maxHeight = `${grid.heightOf(model)}px`;
  grid.show(model);
}

/** What can be typed: a slice and a byte of the layout, short enough for the field. */
function example({ dimensions, byte_size: bytes }) {
  if (!bytes) return "";
  const byte = `byte ${Math.min(36, Math.floor(bytes / 2))}`;
  if (!dimensions.length || dimensions.includes(0)) return byte;
  const middle = dimensions.map((size) => Math.floor(size / 2));
  const last = middle.pop();
  const slice = `${last}:${Math.min(last + 4, dimensions.at(-1))}`;
  const words = `${[...middle, slice].join(", ")} or ${byte}`;
  return words.length > EXAMPLE ? `..., ${slice} or ${byte}` : words;
}

/** What colours and lines mean, as far as the layout has them. */
function key({ dimensions, slots, tile_sizes: tiles }) {
  if (!slots) return "The array has no elements.";
  const isTiled = tiles[0].some((size) => size !== null);
  const isShared = tiles[1].some((size) => size > 1);
  const isPadded = slots > dimensions.reduce((product, size) => product * size, 1);
  return [
    "Point at an element or a slot to see where it lies on the other side.",
    isTiled ? "Colours tell tiles apart." : "",
    isShared ? "Thin lines enclose words that rows share." : "",
    isPadded ? "Hatching is padding." : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/** Characters of the longest value as cells show it. */
function longestOf(textOf, dimensions) {
  const size = dimensions.reduce((product, each) => product * each, 1);
  let longest = 1;
  for (let at = 0; at < size; at++) longest = Math.max(longest, textOf(at, CELL_DIGITS).length);
  return Math.min(WIDEST, longest);
}

function labelled(text, control) {
  return make("span", { className: "labelled" }, make("label", { htmlFor: control.id }, text), control);
}

function row(...cells) {
  return make("tr", {}, ...cells.map((cell, k) => make(k ? "td" : "th", {}, cell)));
}

function placeInWords(layout, offset) {
  const { first, last, bit } = placeOf(layout, offset);
  if (layout.element_bits < 8) {
    const end = bit + layout.element_bits - 1;
    return `byte ${number(first)}, ${end > bit ? `bits ${bit} to ${end}` : `bit ${bit}`}`;
  }
  return bytesInWords(first, last);
}

function bytesInWords(first, last) {
  return `byte${first === last ? "" : "s"} ${rangeInWords(first, last)}`;
}

function rangeInWords(first, last) {
  return first === last ? number(first) : `${number(first)} to ${number(last)}`;
}

/** The byte of a packed element, bit by bit, from the most significant. */
function bitsOf(layout, offset) {
  if (layout.element_bits >= 8) return [];
  const { bit } = placeOf(layout, offset);
  const cells = [7, 6, 5, 4, 3, 2, 1, 0].map((k) =>
    make("span", { className: k >= bit && k < bit + layout.element_bits ? "bit on" : "bit" }, String(k)),
  );
  return [make("p", { className: "bits" }, ...cells)];
}
