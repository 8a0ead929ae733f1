// A grid of cells on a canvas, of any size: only the cells in view are drawn. It is moved by wheel, keys, touch and
// two scroll bars, and tells which cell is under the pointer and which one is chosen.

const HEADER = 22;

export class Grid {
  /**
   * model: { rows, columns, width, height, labelLength, isDense, cell(row, column) -> {text, colour, fill, hatched, faint, marked},
   *          rowLabel(row), columnLabel(column), rowEdge(row), columnEdge(column) -> 0, 1 or 2 }
   * on: { hover(row, column), leave(), choose(row, column), and perhaps move() }
   */
  constructor(host, label, on) {
    this.host = host;
    this.on = on;
    this.canvas = host.appendChild(document.createElement("canvas"));
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", label);
    this.down = this.bar("vertical", "rows", (value) => this.scrollTo(value, this.left));
    this.across = this.bar("horizontal", "columns", (value) => this.scrollTo(this.top, value));
    this.top = 0;
    this.left = 0;
    this.focus = null;
    this.model = null;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(host);
    // Another theme has other colours, paper has its own and other sizes; a print does not wait for the next frame.
    for (const medium of ["print", "(prefers-color-scheme: dark)"]) {
      matchMedia(medium).addEventListener("change", () => this.model && this.paint());
    }
  }

  bar(direction, what, move) {
    const bar = this.host.appendChild(document.createElement("input"));
    Object.assign(bar, { type: "range", min: 0, step: 1, className: `bar ${direction}` });
    bar.setAttribute("aria-label", `scroll ${what}`);
    bar.setAttribute("aria-orientation", direction);
    bar.addEventListener("input", () => move(Number(bar.value)));
    return bar;
  }

  show(model) {
    this.model = model;
    this.top = Math.min(this.top, Math.max(0, model.rows - 1));
    this.left = Math.min(this.left, Math.max(0, model.columns - 1));
    this.draw();
  }

  get margin() {
    return marginOf(this.model.labelLength);
  }

  get visible() {
    const { width, height } = this.canvas.getBoundingClientRect();
    const whole = (cells) => Math.max(1, Math.floor(cells + 1e-6)); // 128 rows that fill the height are not 127.99
    return { rows: whole((height - HEADER) / this.model.height), columns: whole((width - this.margin) / this.model.width) };
  }

  scrollTo(top, left) {
    const { rows, columns } = this.visible;
    this.top = Math.round(Math.max(0, Math.min(top, this.model.rows - rows)));
    this.left = Math.round(Math.max(0, Math.min(left, this.model.columns - columns)));
    this.on.move?.();
    this.draw();
  }

  /** Pixels that a model takes as a whole, with the scroll bar below it. */
  heightOf(model) {
    return HEADER + model.rows * model.height + 22;
  }

  /** Moves so that a cell is in view, if it is not. */
  reveal(row, column) {
    const { rows, columns } = this.visible;
    const isIn = (at, first, count) => at >= first && at < first + count;
    const top = isIn(row, this.top, rows) ? this.top : row - Math.floor(rows / 2);
    const left = isIn(column, this.left, columns) ? this.left : column - Math.floor(columns / 2);
    this.scrollTo(top, left);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => {
      const cell = this.cellAt(event);
      if (event.buttons && this.drag) {
        const { x, y, top, left } = this.drag;
        this.scrollTo(top - (event.clientY - y) / this.model.height, left - (event.clientX - x) / this.model.width);
      } else if (cell) this.on.hover(...cell);
      else this.on.leave();
    });
    canvas.addEventListener("pointerleave", () => this.on.leave());
    canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.clientX, y: event.clientY, top: this.top, left: this.left };
    });
    canvas.addEventListener("pointerup", (event) => {
      const isClick = this.drag && Math.hypot(event.clientX - this.drag.x, event.clientY - this.drag.y) < 5;
      this.drag = null;
      const cell = this.cellAt(event);
      if (isClick && cell) this.on.choose(...cell);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        const { top, left } = this;
        const [x, y] = event.shiftKey ? [event.deltaY, event.deltaX] : [event.deltaX, event.deltaY];
        this.scrollTo(top + Math.sign(y) * Math.ceil(Math.abs(y) / 40), left + Math.sign(x) * Math.ceil(Math.abs(x) / 60));
        if (this.top !== top || this.left !== left) event.preventDefault(); // at its end, the page moves
      },
      { passive: false },
    );
    canvas.addEventListener("pointercancel", () => (this.drag = null)); // the page is moved by touch
    for (const change of ["focus", "blur"]) canvas.addEventListener(change, () => this.draw());
    canvas.addEventListener("keydown", (event) => {
      const [row, column] = this.focus ?? [this.top, this.left];
      const { rows } = this.visible;
      const moves = {
        ArrowUp: [row - 1, column],
        ArrowDown: [row + 1, column],
        ArrowLeft: [row, column - 1],
        ArrowRight: [row, column + 1],
        PageUp: [row - rows, column],
        PageDown: [row + rows, column],
        Home: event.ctrlKey ? [0, 0] : [row, 0],
        End: event.ctrlKey ? [Infinity, Infinity] : [row, Infinity],
      };
      const to = moves[event.key];
      if (!to) return;
      event.preventDefault();
      const clip = (value, size) => Math.max(0, Math.min(value, size - 1));
      const [rowCount, columnCount] = this.model.reach ?? [this.model.rows, this.model.columns];
      this.on.choose(clip(to[0], rowCount), clip(to[1], columnCount));
    });
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const row = this.top + Math.floor((event.clientY - box.top - HEADER) / this.model.height);
    const column = this.left + Math.floor((event.clientX - box.left - this.margin) / this.model.width);
    const isIn = event.clientY - box.top >= HEADER && event.clientX - box.left >= this.margin;
    return isIn && row < this.model.rows && column < this.model.columns ? [row, column] : null;
  }

  draw() {
    if (!this.model || this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      this.paint();
    });
  }

  paint() {
    const { canvas, model } = this;
    const { width, height } = canvas.getBoundingClientRect();
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.scale(scale, scale);
    context.clearRect(0, 0, width, height);
    context.font = `11px ${colour("--mono")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const { margin } = this;
    const stopRow = Math.min(model.rows, this.top + Math.ceil((height - HEADER) / model.height));
    const stopColumn = Math.min(model.columns, this.left + Math.ceil((width - margin) / model.width));
    const x = (column) => margin + (column - this.left) * model.width;
    const y = (row) => HEADER + (row - this.top) * model.height;
    const ink = colour("--ink");
    for (let row = this.top; row < stopRow; row++) {
      for (let column = this.left; column < stopColumn; column++) {
        const cell = model.cell(row, column);
        if (!cell) continue;
        if (cell.colour !== undefined) {
          context.globalAlpha = cell.faint ? 0.16 : 0.42;
          context.fillStyle = colour(`--tile-${cell.colour}`);
          context.fillRect(x(column), y(row), model.width, model.height);
          context.globalAlpha = 1;
        }
        if (cell.fill) {
          // On whole pixels, so that no line shows between two cells.
          const [left, top] = [Math.floor(x(column)), Math.floor(y(row))];
          context.fillStyle = cell.fill;
          context.fillRect(left, top, Math.ceil(x(column + 1)) - left, Math.ceil(y(row + 1)) - top);
        }
        if (cell.hatched) hatch(context, x(column), y(row), model.width, model.height, colour("--faint"));
        if (!model.isDense) {
          context.strokeStyle = colour("--line");
          context.lineWidth = 0.5;
          context.strokeRect(x(column), y(row), model.width, model.height);
        }
        if (cell.marked) {
          context.globalAlpha = cell.marked === 2 ? 0.9 : 0.45;
          context.fillStyle = colour(cell.marked === 2 ? "--mark" : "--soft-mark"); // text on it stays readable
          context.fillRect(x(column) + 1, y(row) + 1, model.width - 2, model.height - 2);
          context.globalAlpha = 1;
        }
        context.fillStyle = cell.marked === 2 ? colour("--on-mark") : ink;
        if (cell.text) context.fillText(cell.text, x(column) + model.width / 2, y(row) + model.height / 2, model.width - 3);
      }
    }
    context.fillStyle = colour("--muted");
    for (let column = this.left; column < stopColumn; column++) {
      const label = model.columnLabel(column);
      if (label !== "") context.fillText(label, x(column) + model.width / 2, HEADER / 2, model.isDense ? undefined : model.width);
    }
    context.textAlign = "right";
    for (let row = this.top; row < stopRow; row++) {
      context.fillText(model.rowLabel(row), margin - 6, y(row) + model.height / 2);
    }
    context.strokeStyle = ink;
    for (let row = this.top; row <= stopRow; row++) {
      const weight = row === 0 || row === model.rows ? 2 : model.rowEdge(row);
      if (weight) stroke(context, weight, margin, y(row), x(stopColumn), y(row));
    }
    for (let column = this.left; column <= stopColumn; column++) {
      const weight = column === 0 || column === model.columns ? 2 : model.columnEdge(column);
      if (weight) stroke(context, weight, x(column), HEADER, x(column), y(stopRow));
    }
    const isShown = (at, first, stop) => at >= first && at < stop;
    if (this.focus && document.activeElement === canvas && isShown(this.focus[0], this.top, stopRow) && isShown(this.focus[1], this.left, stopColumn)) {
      context.lineWidth = 2;
      context.strokeRect(x(this.focus[1]), y(this.focus[0]), model.width, model.height);
    }
    const { rows, columns } = this.visible;
    for (const [bar, at, count, all] of [
      [this.down, this.top, rows, model.rows],
      [this.across, this.left, columns, model.columns],
    ]) {
      bar.max = Math.max(0, all - count);
      bar.value = at;
      bar.hidden = count >= all;
    }
    // Touch moves the page where the grid has nowhere to go.
    canvas.style.touchAction = `${this.across.hidden ? "pan-x" : ""} ${this.down.hidden ? "pan-y" : ""}`.trim() || "none";
  }
}

/** Pixels beside the grid for row labels of a length. */
export function marginOf(labelLength) {
  return 14 + 7 * Math.max(2, labelLength);
}

function stroke(context, weight, x1, y1, x2, y2) {
  context.lineWidth = weight === 2 ? 1.8 : 0.9;
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

function hatch(context, x, y, width, height, colour) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = -height; at < width; at += 7) {
    context.moveTo(x + at, y + height);
    context.lineTo(x + at + height, y);
  }
  context.stroke();
  context.restore();
}
