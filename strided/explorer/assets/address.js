// Addresses as the package computes them: an element's offset is a sum of parts of its index, each times a stride.
// The layout is the data that strided/explorer/layouts.py writes; indices and offsets are whole numbers below 2**53.

/** The value of an expression in the logical index: ["d", k], ["/", of, n], ["%", of, n], ["*+", major, minor, n], ["0"]. */
export function evaluate(expression, index) {
  const [kind, of, by, size] = expression;
  if (kind === "d") return index[of];
  if (kind === "/") return Math.floor(evaluate(of, index) / by);
  if (kind === "%") return evaluate(of, index) % by;
  if (kind === "*+") return evaluate(of, index) * size + evaluate(by, index);
  return 0;
}

/** Elements from the start of the buffer to the element at an index. */
export function offsetOf(layout, index) {
  return layout.parts.reduce((sum, part) => sum + evaluate(part.expression, index) * part.stride, 0);
}

/** The index of the element in a slot, or null and the dimension that the slot pads: the rank if it pads none. */
export function indexAt(layout, offset) {
  const rank = layout.dimensions.length;
  let over = offset < layout.grid_elements ? -1 : rank;
  let values = [];
  let rest = offset;
  for (const part of layout.parts.toReversed()) {
    const bound = Math.max(1, part.bound);
    values.unshift(rest % bound);
    rest = Math.floor(rest / bound);
  }
  for (const tile of layout.tiles.toReversed()) {
    const count = tile.entries.length;
    const grid = values.slice(tile.prefix, tile.prefix + count);
    const inner = values.slice(tile.prefix + count);
    values = values.slice(0, tile.prefix);
    for (let k = 0; k < count; k++) {
      const bounds = tile.bounds[k];
      let whole = grid[k] * tile.entries[k] + inner[k];
      const size = bounds.reduce((a, b) => a * b, 1);
      if (over < 0 && whole >= size) over = tile.owners[k] ?? rank;
      const split = [];
      for (const bound of bounds.slice(1).toReversed()) {
        split.unshift(whole % Math.max(1, bound));
        whole = Math.floor(whole / Math.max(1, bound));
      }
      values.push(whole, ...split);
    }
    values = values.slice(tile.added);
  }
  const index = new Array(rank).fill(0);
  layout.minor_to_major.toReversed().forEach((dimension, k) => {
    index[dimension] = values[k];
    if (over < 0 && values[k] >= layout.dimensions[dimension]) over = dimension;
  });
  return over < 0 ? { index, over: null } : { index: null, over };
}

/** The steps of the sum for one element: what is computed, its value, its stride, and what it adds. */
export function steps(layout, index) {
  return layout.parts
    .filter((part) => part.bound > 1)
    .map((part) => {
      const value = evaluate(part.expression, index);
      return { text: part.text, value, bound: part.bound, stride: part.stride, adds: value * part.stride };
    });
}

/** Where a slot lies: first and last byte, and its first bit in the first byte, from the least significant. */
export function placeOf(layout, offset) {
  const bit = offset * layout.element_bits;
  const inside = bit % 8;
  return {
    first: layout.prefix_bytes + Math.floor(bit / 8),
    last: layout.prefix_bytes + Math.ceil((bit + layout.element_bits) / 8) - 1,
    bit: layout.is_big_endian_packed && layout.element_bits < 8 ? 8 - inside - layout.element_bits : inside,
  };
}

/** Runs [start, stop) of bytes that hold the elements at some offsets; runs that touch are one. */
export function runsOf(layout, offsets) {
  const sorted = Float64Array.from(offsets).sort();
  const runs = [];
  for (const offset of sorted) {
    const { first, last } = placeOf(layout, offset);
    const previous = runs.at(-1);
    if (previous && first <= previous[1]) previous[1] = Math.max(previous[1], last + 1);
    else runs.push([first, last + 1]);
  }
  return runs;
}
