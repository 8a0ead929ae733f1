// The values of an array as a map of cells: mean, extremes, NaNs.

import { make, number } from "./dom.js";
import { Grid, marginOf } from "./grid.js";
import { short } from "./values.js";

// Viridis: dark is low and light is high, for every kind of colour vision.
const RAMP = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];
const DIGITS = 5;

export class MapView {
  constructor(host, map) {
    this.map = map;
    this.planes = Object.fromEntries(Object.entries(map.planes).map(([name, text]) => [name, decoded(text)]));
    const list = make("select", { id: "plane" }, ...Object.keys(map.planes).map((name) => make("option", { value: name }, name)));
    list.addEventListener("change", () => this.choose(list.value));
    this.scale = make("span", { className: "scale" });
    const legend = make("span", { className: "legend" }, make("span", { className: "ramp" }), this.scale);
    const controls = make("div", { className: "controls" }, make("label", { htmlFor: "plane" }, "a cell shows its"), list, legend);
    this.words = make("p", { className: "message", role: "status" });
    const box = make("div", { className: "grid map" });
    host.append(make("section", {}, make("h2", {}, "Values"), controls, box, this.words));
    this.grid = new Grid(box, "A map of the values. Arrow keys move from cell to cell.", {
      hover: (row, column) => this.describe(row, column),
      leave: () => {},
      choose: (row, column) => {
        this.grid.focus = [row, column];
        this.grid.reveal(row, column);
        this.describe(row, column);
      },
    });
    this.choose("mean");
    new ResizeObserver(() => this.grid.show(this.model())).observe(box);
  }

  choose(name) {
    this.plane = this.planes[name];
    const finite = [...this.plane].filter(Number.isFinite);
    this.low = finite.reduce((a, b) => Math.min(a, b), Infinity);
    this.high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    this.scale.textContent = finite.length ? `${short(this.low, DIGITS)} to ${short(this.high, DIGITS)}` : "no finite values";
    this.grid.show(this.model());
  }

  model() {
    const { rows, columns, row_labels: rowLabels, column_labels: columnLabels } = this.map;
    const { width, height } = this.grid.canvas.getBoundingClientRect();
    const labelLength = Math.max(...rowLabels.map((label) => label.length));
    const wide = Math.max(3, (width - marginOf(labelLength) - 8) / columns);
    const high = Math.max(3, (height - 22) / rows);
    const everyRow = Math.ceil(16 / high);
    const everyColumn = Math.ceil(70 / wide);
    return {
      rows,
      columns,
      width: wide,
      height: high,
      labelLength,
      isDense: true,
      rowEdge: () => 0,
      columnEdge: () => 0,
      rowLabel: (row) => (row % everyRow ? "" : rowLabels[row]),
      columnLabel: (column) => (column % everyColumn ? "" : columnLabels[column]),
      cell: (row, column) => {
        const at = row * columns + column;
        const value = this.plane[at];
        return { fill: Number.isFinite(value) ? this.colourOf(value) : undefined, hatched: this.planes["not finite"][at] > 0 };
      },
    };
  }

  colourOf(value) {
    const share = this.high > this.low ? (value - this.low) / (this.high - this.low) : 0.5;
    const place = Math.min(RAMP.length - 1.0001, share * (RAMP.length - 1));
    const [from, to] = [RAMP[Math.floor(place)], RAMP[Math.floor(place) + 1]];
    const part = place - Math.floor(place);
    return `rgb(${from.map((one, k) => Math.round(one + (to[k] - one) * part)).join(",")})`;
  }

  describe(row, column) {
    const at = row * this.map.columns + column;
    const words = ["mean", "least", "largest"].map((name) => `${name} ${short(this.planes[name][at], DIGITS)}`);
    const other = this.planes["not finite"][at];
    if (other) words.push(`${number(other)} NaN or Inf`);
    const index = [this.map.row_labels[row], this.map.column_labels[column]].filter((label) => label !== "").join(", ");
    this.words.textContent = `[${index}]: ${words.join(", ")}`;
  }
}

function decoded(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
