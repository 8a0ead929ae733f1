// Two arrays or two runs: which values differ, where, and by how much; the worst first.

import { make, number, percent, plural } from "./dom.js";
import { Grid, marginOf } from "./grid.js";
import { differenceColour, differencePicture } from "./heat.js";
import { LayoutPanel } from "./layout_panel.js";
import { Rows } from "./rows.js";

/** Cells that are listed, those with most mismatches. */
const WORST = 8;

const badness = (value) => (value.problem ? Infinity : (value.nan ? 2 : 0) + value.share);
const VALUE_ORDERS = {
  "share that differs": (a, b) => badness(b) - badness(a),
  "relative difference": (a, b) => (b.order?.relative ?? 0) - (a.order?.relative ?? 0),
  ULPs: (a, b) => (b.order?.ulps ?? 0) - (a.order?.ulps ?? 0),
  program: (a, b) => a.turn - b.turn,
};

export class RunsView {
  /** runs: { values }, or of two arrays { difference, layouts }. */
  constructor(host, runs) {
    this.runs = runs;
    const list = make("section", {});
    this.detail = make("section", { className: "detail" });
    host.append(list, this.detail);
    if (runs.values) this.buildList(list);
    this.panel = new LayoutPanel(host);
    if (runs.difference) this.describe(runs.difference);
    else this.filter();
    if (runs.values && this.found[0]) this.rows.choose(this.found[0]);
  }

  buildList(host) {
    const { values } = this.runs;
    this.pictures = new Map();
    this.search = make("input", { type: "search", id: "find", placeholder: "name", autocomplete: "off", spellcheck: false });
    this.order = make("select", { id: "order" }, ...Object.keys(VALUE_ORDERS).map((name) => make("option", { value: name }, name)));
    this.all = make("input", { type: "checkbox", id: "equal", checked: values.every(({ equal }) => equal) });
    this.count = make("span", { className: "legend", role: "status" });
    for (const control of [this.search, this.order, this.all]) control.addEventListener("input", () => this.filter());
    this.rows = new Rows({
      kind: "differences",
      label: "Arguments and results of both runs. Arrow keys move.",
      height: 40,
      heads: ["", "name", "elements", "differ", "|a - b|", "relative", "ULPs", "NaN"],
      cells: (value) => this.cells(value),
      on: { choose: (value) => this.describe(value) },
    });
    const controls = make(
      "div",
      { className: "controls" },
      make("label", { htmlFor: "find" }, "search"),
      this.search,
      make("label", { htmlFor: "order" }, "order by"),
      this.order,
      make("label", { className: "check", htmlFor: "equal" }, this.all, "equal ones, too"),
      this.count,
    );
    host.append(make("h2", {}, "Values of both runs"), controls, this.rows.element);
    host.hidden = !values.length;
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = this.runs.values
      .filter((value) => (this.all.checked || !value.equal) && words.every((word) => `${value.name} ${value.instruction}`.toLowerCase().includes(word)))
      .sort(VALUE_ORDERS[this.order.value]);
    this.rows.show(this.found);
    this.count.textContent = `${number(this.runs.values.filter(({ equal }) => !equal).length)} of ${plural(this.runs.values.length, "value")} differ`;
  }

  cells(value) {
    const nan = make("span", { className: value.nan ? "warn" : "" }, value.nan ? number(value.nan) : "");
    const { absolute, relative, ulps } = value.largest ?? {};
    const differ = value.problem ? "?" : value.equal ? "equal" : percent(value.share);
    return [this.pictureOf(value), value.name, value.total === undefined ? "" : number(value.total), differ, absolute ?? "", relative ?? "", ulps ?? "", nan];
  }

  /** A picture, painted once; none for values that are equal. */
  pictureOf(value) {
    if (!value.map) return "";
    if (!this.pictures.has(value)) this.pictures.set(value, differencePicture(value.map));
    return this.pictures.get(value);
  }

  describe(value) {
    this.panel.close();
    this.value = value;
    const facts = [
      ["a", this.layoutLink(value.a, 0)],
      ["b", this.layoutLink(value.b, 1)],
      ["instruction", value.instruction],
      ["figures", value.figures],
    ];
    const rows = facts.filter(([, text]) => text).flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]);
    this.detail.replaceChildren(
      make("h2", {}, value.name ?? "The difference"),
      make("p", {}, value.problem || value.verdict),
      ...(value.patterns?.length ? [make("ul", {}, ...value.patterns.map((sentence) => make("li", {}, sentence)))] : []),
      make("dl", { className: "facts" }, ...rows),
    );
    if (value.map) this.drawMap(value.map);
    const parts = [
      ["the worst cells", value.map && this.worstCells()],
      ["the first that differ", value.mismatches?.length && tableOf(["index", "a", "b", "byte of a", "byte of b"], value.mismatches)],
      [value.unit, value.histogram?.length && barsOf(value.histogram)],
    ];
    const shown = parts.filter(([, part]) => part).map(([title, part]) => make("div", {}, make("h3", {}, title), part));
    this.detail.append(make("div", { className: "beside" }, ...shown));
  }

  layoutLink(text, k) {
    const layout = this.runs.layouts?.[k];
    return layout ? make("span", {}, text.replace(layout.text, ""), this.panel.link(layout)) : text;
  }

  // ---- the map -------------------------------------------------------------------------------------------------------

  drawMap(map) {
    const legend = [make("span", { className: "ramp share" }), "few to all elements of a cell"];
    if (map.nan) legend.push(make("span", { className: "nan-key" }), "some are NaN");
    this.words = make("p", { className: "message", role: "status" });
    const box = make("div", { className: "grid map" });
    this.detail.append(make("h3", {}, "where they differ"), make("p", { className: "legend" }, ...legend), box, this.words);
    this.map = map;
    this.grid = new Grid(box, "A map of the differences. Arrow keys move from cell to cell.", {
      hover: (row, column) => this.say(row, column),
      leave: () => {},
      choose: (row, column) => this.point(row, column),
    });
    this.grid.show(this.model());
    new ResizeObserver(() => this.grid.show(this.model())).observe(box);
  }

  model() {
    const { map } = this;
    const { width, height } = this.grid.canvas.getBoundingClientRect();
    const labelLength = Math.max(...map.row_labels.map((label) => label.length));
    const wide = Math.max(3, (width - marginOf(labelLength) - 8) / map.columns);
    const high = Math.max(3, Math.min(28, (height - 22) / map.rows));
    const [everyRow, everyColumn] = [Math.ceil(16 / high), Math.ceil(70 / wide)];
    const edge = (step) => (at) => (step && at % step === 0 ? 1 : 0);
    return {
      rows: map.rows,
      columns: map.columns,
      width: wide,
      height: high,
      labelLength,
      isDense: true,
      rowEdge: edge(map.tile_rows),
      columnEdge: edge(map.tile_columns),
      rowLabel: (row) => (row % everyRow ? "" : map.row_labels[row]),
      columnLabel: (column) => (column % everyColumn ? "" : map.column_labels[column]),
      cell: (row, column) => ({ fill: differenceColour(map, row * map.columns + column) }),
    };
  }

  point(row, column) {
    this.grid.focus = [row, column];
    this.grid.reveal(row, column);
    this.say(row, column);
  }

  say(row, column) {
    this.words.textContent = this.wordsOf(row * this.map.columns + column);
  }

  keyOf(at) {
    const labels = [this.map.row_labels[Math.floor(at / this.map.columns)], this.map.column_labels[at % this.map.columns]];
    return `[${labels.filter((label) => label !== "").join(", ")}]`;
  }

  wordsOf(at) {
    const { counts, sizes, nan } = this.map;
    if (sizes[at] === 1) return `${this.keyOf(at)}: ${nan?.[at] ? "one is NaN" : counts[at] ? "differs" : "equal"}`;
    const more = nan?.[at] ? `, ${number(nan[at])} with NaN` : "";
    return `${this.keyOf(at)}: ${number(counts[at])} of ${plural(sizes[at], "element")} differ${more}`;
  }

  worstCells() {
    const { counts, nan, columns } = this.map;
    const order = counts.map((_, at) => at).filter((at) => counts[at]);
    order.sort((a, b) => (nan?.[b] ?? 0) - (nan?.[a] ?? 0) || counts[b] - counts[a] || a - b);
    const items = order.slice(0, WORST).map((at) => {
      const button = make("button", { type: "button", className: "link" }, this.keyOf(at));
      button.addEventListener("click", () => this.point(Math.floor(at / columns), at % columns));
      return make("li", {}, button, this.wordsOf(at).slice(this.keyOf(at).length));
    });
    return make("ol", {}, ...items);
  }
}

function tableOf(heads, rows) {
  const cell = (tag) => (text) => make(tag, { className: tag === "td" && text === "nan" ? "warn" : "" }, text);
  const head = make("thead", {}, make("tr", {}, ...heads.map(cell("th"))));
  return make("div", { className: "strided-scroll" }, make("table", {}, head, make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell("td")))))));
}

/** Counts as bars, each as long as its share of the largest. */
function barsOf(bins) {
  const most = Math.max(...bins.map(([, count]) => count));
  const rows = bins.map(([name, count]) => {
    const bar = make("span", { className: "count-bar" });
    bar.style.width = `${Math.max(0.5, (100 * count) / most)}%`;
    return make("tr", {}, make("th", {}, name), make("td", { className: "bar-cell", ariaHidden: "true" }, bar), make("td", {}, number(count)));
  });
  return make("table", { className: "bars" }, make("tbody", {}, ...rows));
}
