// The values of an array as a map of cells: mean, extremes, NaNs.

import { make, number } from "./dom.js";
import { Grid, marginOf } from "./grid.js";
import { bytesOf } from "./unpack.js";
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
// Steps of a value in one byte, and the byte of one that is not finite.
const STEPS = 254;
const NOT_FINITE = 255;
// Zoom goes on beyond the finest level, by powers of two, until cells are easy to point at.
const MAGNIFIED = 2;

export class MapView {
  constructor(host, map) {
    this.sources = [map, ...map.finer];
    this.levels = []; // decoded when they are first shown
    this.zoom = 0;
    this.name = "mean";
    const list = make("select", { id: "plane" }, ...Object.keys(map.planes).map((name) => make("option", { value: name }, name)));
    list.addEventListener("change", () => this.show(this.zoom, this.middle, list.value));
    this.scale = make("span", { className: "scale" });
    const legend = make("span", { className: "legend" }, make("span", { className: "ramp" }), this.scale);
    this.closer = make("button", { type: "button", ariaLabel: "zoom in", title: "zoom in (+)" }, "+");
    this.farther = make("button", { type: "button", ariaLabel: "zoom out", title: "zoom out (-)" }, "\u2212");
    this.closer.addEventListener("click", () => this.zoomBy(1));
    this.farther.addEventListener("click", () => this.zoomBy(-1));
    this.window = make("span", { className: "window", role: "status" });
    const isStrange = bytesOf(map.planes["not finite"]).some(Boolean);
    if (isStrange) legend.append(make("span", {}, "hatched: some are NaN or Inf"));
    const zoom = map.finer.length ? [this.farther, this.closer, this.window] : [];
    const controls = make("div", { className: "controls" }, make("label", { htmlFor: "plane" }, "a cell shows its"), list, legend, ...zoom);
    this.words = make("p", { className: "message", role: "status" });
    const box = make("div", { className: "grid map" });
    host.append(make("section", {}, make("h2", {}, "Values"), controls, box, this.words));
    const keys = map.finer.length ? " Plus and minus zoom, 0 shows all." : "";
    this.grid = new Grid(box, `A map of the values. Arrow keys move from cell to cell.${keys}`, {
      hover: (row, column) => this.describe(row, column),
      leave: () => {},
      choose: (row, column) => {
        this.grid.focus = [row, column];
        this.grid.reveal(row, column);
        this.describe(row, column);
      },
      move: () => this.sayWindow(),
    });
    this.show(0);
    if (map.finer.length) this.listen(box);
    new ResizeObserver(() => this.show(this.zoom)).observe(box);
  }

  listen(box) {
    const { canvas } = this.grid;
    canvas.addEventListener("keydown", (event) => {
      const steps = { "+": 1, "=": 1, "-": -1, 0: -this.zoom }[event.key];
      if (steps === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.zoomBy(steps, this.grid.focus);
    });
    canvas.addEventListener("dblclick", (event) => this.zoomBy(event.shiftKey ? -1 : 1, this.grid.cellAt(event)));
    const zoomed = (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      event.stopPropagation(); // without Ctrl the wheel moves the grid
      this.zoomBy(-Math.sign(event.deltaY), this.grid.cellAt(event));
    };
    box.addEventListener("wheel", zoomed, { capture: true, passive: false });
  }

  /** The number of the level that is shown: the finest one that the zoom asks for and that has the plane. */
  get depth() {
    const has = ({ planes, is_element: isElement }) => this.name in planes || (isElement && this.name !== "not finite");
    return this.sources.slice(0, this.zoom + 1).findLastIndex(has);
  }

  get level() {
    const { depth } = this;
    this.levels[depth] ??= decodedLevel(this.sources[depth]);
    return this.levels[depth];
  }

  get plane() {
    const { planes } = this.level;
    return planes[this.name] ?? planes.mean;
  }

  /** The cell in the middle of what is shown. */
  get middle() {
    const { top, left, visible } = this.grid;
    const { rows, columns } = this.level;
    return [Math.min(rows - 1, top + (visible.rows >> 1)), Math.min(columns - 1, left + (visible.columns >> 1))];
  }

  zoomBy(steps, cell = null) {
    const zoom = Math.max(0, Math.min(this.zoom + steps, this.sources.length - 1 + MAGNIFIED));
    if (zoom !== this.zoom) this.show(zoom, cell ?? this.middle);
  }

  /** Shows the map at a zoom, around a cell of what is shown now. */
  show(zoom, cell = null, name = this.name) {
    const before = this.level;
    Object.assign(this, { zoom, name });
    const { grid, level, plane } = this;
    const sameCell = (found) => [cellOf(level.row_starts, before.row_starts[found[0]]), cellOf(level.column_starts, before.column_starts[found[1]])];
    grid.focus = grid.focus && sameCell(grid.focus);
    this.scale.textContent = plane.low <= plane.high ? `${short(plane.low, DIGITS)} to ${short(plane.high, DIGITS)}` : "no finite values";
    grid.show(this.model());
    if (cell) {
      const [row, column] = sameCell(cell);
      const { rows, columns } = grid.visible;
      grid.scrollTo(row - (rows >> 1), column - (columns >> 1));
    } else this.sayWindow();
    this.farther.disabled = zoom === 0;
    this.closer.disabled = zoom === this.sources.length - 1 + MAGNIFIED;
  }

  sayWindow() {
    const { level, grid } = this;
    const { rows, columns } = grid.visible;
    const row = between(level.row_labels, grid.top, rows);
    const column = between(level.column_labels, grid.left, columns);
    const isCoarser = this.depth < Math.min(this.zoom, this.sources.length - 1);
    const words = `${row && `rows ${row}, `}columns ${column}${isCoarser ? "; finer cells have the mean alone" : ""}`;
    if (this.window.textContent !== words) this.window.textContent = words;
  }

  model() {
    const { level, plane } = this;
    const { rows, columns, row_labels: rowLabels, column_labels: columnLabels } = level;
    const [coarsest] = this.sources;
    const { width, height } = this.grid.canvas.getBoundingClientRect();
    const labelLength = Math.max(...rowLabels.map((label) => label.length));
    const closer = 2 ** this.zoom;
    const least = this.sources.length > 1 ? 0.5 : 3; // pixels of a cell: what zooms is all in view at first
    const wide = Math.max(least, (width - marginOf(labelLength) - 8) / coarsest.columns) * ((closer * coarsest.columns) / columns);
    const high = Math.max(least, (height - 22) / coarsest.rows) * ((closer * coarsest.rows) / rows);
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
        const place = row * columns + column;
        const value = plane.valueAt(place);
        return { fill: Number.isFinite(value) ? this.colourOf(value) : undefined, hatched: level.isMarked(place) };
      },
    };
  }

  colourOf(value) {
    const { low, high } = this.plane;
    const share = high > low ? (value - low) / (high - low) : 0.5;
    const place = Math.min(RAMP.length - 1.0001, share * (RAMP.length - 1));
    const [from, to] = [RAMP[Math.floor(place)], RAMP[Math.floor(place) + 1]];
    const part = place - Math.floor(place);
    return `rgb(${from.map((one, k) => Math.round(one + (to[k] - one) * part)).join(",")})`;
  }

  describe(row, column) {
    const { level } = this;
    const [index, words] = wordsOf(level, row, column);
    const coarsest = this.levels[0];
    const around = (axis, k) => {
      const starts = level[axis];
      return [starts[k], (starts[k + 1] ?? Infinity) - 1].map((position) => cellOf(coarsest[axis], position));
    };
    const [first, last] = around("row_starts", row);
    const [left, right] = around("column_starts", column);
    const isInOne = level !== coarsest && first === last && left === right;
    const [outer, exactly] = isInOne ? wordsOf(coarsest, first, left) : ["", ""];
    this.words.textContent = `[${index}]: ${words}${outer && ` (in [${outer}]: ${exactly})`}`;
  }
}

/** The indices of a cell, and what is known of it. */
function wordsOf(level, row, column) {
  const place = row * level.columns + column;
  const about = level.isRounded ? "about " : "";
  const words = ["mean", "least", "largest"]
    .filter((name) => level.planes[name])
    .map((name) => `${level.is_element ? "value" : name} ${about}${short(level.planes[name].valueAt(place), level.isRounded ? 3 : DIGITS)}`);
  if (level.isMarked(place)) words.push(level.isRounded ? "with NaN or Inf" : `${number(level.planes["not finite"].valueAt(place))} NaN or Inf`);
  return [[level.row_labels[row], level.column_labels[column]].filter((label) => label !== "").join(", "), words.join(", ")];
}

/** A level with functions that give the value of a cell in each plane, and whether some of it is not finite. */
function decodedLevel(source) {
  const isRounded = "is_element" in source;
  const planes = Object.fromEntries(Object.entries(source.planes).map(([name, plane]) => [name, isRounded ? roundedPlane(plane) : floatPlane(plane)]));
  const marks = source.marks && bytesOf(source.marks);
  const isMarked = isRounded ? (place) => Boolean(marks && (marks[place >> 3] >> (place & 7)) & 1) : (place) => planes["not finite"].valueAt(place) > 0;
  return { ...source, isRounded, planes, isMarked };
}

function floatPlane(text) {
  const values = new Float32Array(bytesOf(text).buffer);
  const finite = values.filter(Number.isFinite);
  const [low, high] = [finite.reduce((a, b) => Math.min(a, b), Infinity), finite.reduce((a, b) => Math.max(a, b), -Infinity)];
  return { low, high, valueAt: (place) => values[place] };
}

function roundedPlane({ low, high, data }) {
  const codes = bytesOf(data);
  const decoded = (code) => (code === NOT_FINITE ? NaN : low * (1 - code / STEPS) + high * (code / STEPS));
  return { low, high, valueAt: (place) => decoded(codes[place]) };
}

/** The last of some ascending starts that is not beyond a position. */
const cellOf = (starts, position) => starts.findLastIndex((start) => start <= position);

/** The indices from the first of some labels to the last. */
function between(labels, first, count) {
  const [from, to] = [labels[first], labels[Math.min(labels.length, first + count) - 1]];
  if (from.includes(",")) return from === to ? `[${from}]` : `[${from}] to [${to}]`;
  return from && `${from.split(":")[0]} to ${to.includes(":") ? Number(to.split(":")[1]) - 1 : to}`;
}
