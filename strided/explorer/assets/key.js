// What is typed into the search box: an index or slice as between NumPy's brackets, or a byte.

/** Elements that a selection may have to be listed. */
export const MOST_SELECTED = 1 << 20;

/**
 * Reads "9, 200:204", "..., 0", "-1", "byte 36" or "@36".
 * Returns {byte} or {axes}: for every dimension {start, step, count}. Throws an Error that says what is wrong.
 */
export function parseKey(text, dimensions) {
  const byte = /^\s*(?:byte\s+|@\s*)(\d+)\s*$/i.exec(text);
  if (byte) return { byte: Number(byte[1]) };
  const words = text.trim().replace(/^\[|\]$/g, "").split(",").map((word) => word.trim());
  if (words.at(-1) === "" && words.length > 1) words.pop();
  const parts = words.length === 1 && words[0] === "" ? [] : words;
  const dots = parts.indexOf("...");
  if (dots !== parts.lastIndexOf("...")) throw new Error("only one ... is possible");
  const given = parts.length - (dots >= 0 ? 1 : 0);
  if (given > dimensions.length) {
    const indices = given === 1 ? "1 index" : `${given} indices`;
    throw new Error(`${indices} for an array of ${dimensions.length} dimension${dimensions.length === 1 ? "" : "s"}`);
  }
  const missing = new Array(dimensions.length - given).fill(":");
  const all = dots >= 0 ? [...parts.slice(0, dots), ...missing, ...parts.slice(dots + 1)] : [...parts, ...missing];
  return { axes: all.map((word, k) => axisOf(word, dimensions[k], k)) };
}

function axisOf(word, size, dimension) {
  if (/^[+-]?\d+$/.test(word)) {
    const index = Number(word) < 0 ? Number(word) + size : Number(word);
    if (index < 0 || index >= size) throw new Error(`${word} is outside dimension ${dimension}, which has ${size}`);
    return { start: index, step: 1, count: 1 };
  }
  const found = /^([+-]?\d+)?\s*:\s*([+-]?\d+)?\s*(?::\s*([+-]?\d+)?)?$/.exec(word);
  if (!found) throw new Error(`${word} is no index: write 9, 200:204 or byte 36`);
  const step = found[3] === undefined ? 1 : Number(found[3]);
  if (step === 0) throw new Error("the step of a slice is not zero");
  const [low, high] = step > 0 ? [0, size] : [-1, size - 1];
  const clip = (given, otherwise) => {
    if (given === undefined) return otherwise;
    const value = Number(given) < 0 ? Number(given) + size : Number(given);
    return Math.min(Math.max(value, low), high);
  };
  const start = clip(found[1], step > 0 ? 0 : size - 1);
  const stop = clip(found[2], step > 0 ? size : -1);
  return { start, step, count: Math.max(0, Math.ceil((stop - start) / step)) };
}

/** All indices of a selection in row-major order; at most MOST_SELECTED of them. */
export function* indicesOf(axes) {
  const count = axes.reduce((product, axis) => product * axis.count, 1);
  const at = axes.map(() => 0);
  for (let k = 0; k < Math.min(count, MOST_SELECTED); k++) {
    yield at.map((position, axis) => axes[axis].start + position * axes[axis].step);
    for (let axis = axes.length - 1; axis >= 0; axis--) {
      if (++at[axis] < axes[axis].count) break;
      at[axis] = 0;
    }
  }
}
