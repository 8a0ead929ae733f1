// Small maps of cells in a list, and the colours of maps of differences.

import { make } from "./dom.js";
import { bytesOf } from "./unpack.js";

// Viridis: dark is low and light is high, for every kind of colour vision.
const VALUES = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];
// From few elements of a cell to all, further and further from the ground; as in programs.css.
const SHARES = { light: ["#fbd9b5", "#e69f00", "#d55e00", "#7a2a00"], dark: ["#5a2a10", "#b5520a", "#e69f00", "#ffe9a8"] };
const NAN = { light: "#0072b2", dark: "#56b4e9" };

/** The colour of a cell of which some share differs, and maybe some elements in NaN; none if all are equal. */
export function differenceColour(map, at) {
  const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  if (map.nan?.[at]) return NAN[theme];
  return map.counts[at] ? mixed(SHARES[theme], map.counts[at] / map.sizes[at]) : undefined;
}

function mixed(colours, share) {
  const place = Math.min(colours.length - 1.0001, share * (colours.length - 1));
  const [from, to] = [colours[Math.floor(place)], colours[Math.floor(place) + 1]].map((one) => [1, 3, 5].map((k) => parseInt(one.slice(k, k + 2), 16)));
  const part = place - Math.floor(place);
  return `rgb(${from.map((one, k) => Math.round(one + (to[k] - one) * part)).join(",")})`;
}

/** A picture of rows by columns of cells, each of which has a colour or none; it says nothing to screen readers. */
export function picture(rows, columns, colourOf) {
  const canvas = make("canvas", { width: columns, height: rows, ariaHidden: "true" });
  const context = canvas.getContext("2d");
  for (let at = 0; at < rows * columns; at++) {
    const colour = colourOf(at);
    if (colour) {
      context.fillStyle = colour;
      context.fillRect(at % columns, Math.floor(at / columns), 1, 1);
    }
  }
  canvas.style.imageRendering = "pixelated";
  return canvas;
}

/** The map of an array's values in a list: the means; cells without a finite value are in the colour of NaN. */
export function valuesPicture(map) {
  const means = new Float32Array(bytesOf(map.planes.mean).buffer);
  const finite = means.filter(Number.isFinite);
  const low = finite.reduce((a, b) => Math.min(a, b), Infinity);
  const high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
  return picture(map.rows, map.columns, (at) => (Number.isFinite(means[at]) ? mixed(VALUES, share(means[at])) : "#d55e00"));
}

/** The map of a difference in a list. */
export const differencePicture = (map) => picture(map.rows, map.columns, (at) => differenceColour(map, at));
