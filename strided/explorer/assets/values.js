// The values of an array, decoded once: numbers of 64 bits, kept exact.

const BYTES = { f8: Float64Array, i8: BigInt64Array, u8: BigUint64Array, c16: Float64Array };

/** A function from an element's row-major position, and a number of digits, to its value as text, or null if the page has no values. */
export function reader(values) {
  if (!values) return null;
  const raw = atob(values.data);
  const bytes = Uint8Array.from(raw, (character) => character.charCodeAt(0));
  const numbers = new BYTES[values.kind](bytes.buffer);
  const shown = (number, digits) => {
    if (typeof number === "bigint" || !(values.bits || values.digits)) return String(number); // integers are exact
    return digits ? short(number, digits) : exact(number, values);
  };
  if (values.is_boolean) return (at) => (numbers[at] ? "True" : "False");
  if (values.kind !== "c16") return (at, digits) => shown(numbers[at], digits);
  return (at, digits) => {
    const [real, imaginary] = [0, 1].map((k) => shown(numbers[2 * at + k], digits).replace(/\.0$/, ""));
    return real === "0" ? `${imaginary}j` : `(${real}${imaginary.startsWith("-") ? "" : "+"}${imaginary}j)`;
  };
}

/** A number in at most `digits` significant digits, as short as it gets. */
export function short(number, digits) {
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  if (Object.is(number, -0)) return "-0";
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number);
  return String(Number(number.toPrecision(digits)));
}

/**
 * A number as NumPy prints it. Floats of NumPy have the fewest digits that tell them apart: `bits` of significand and
 * `least_exponent` say from what. Those of ml_dtypes have `digits`, and integers neither.
 */
export function exact(number, { bits, least_exponent: leastExponent, digits }) {
  if (!Number.isFinite(number) || (!bits && !digits)) return short(number, 17);
  if (!bits) {
    const rounded = roundedTo(number, digits);
    return decimal(rounded, Object.is(number, -0) ? number : rounded, 10 ** digits);
  }
  let rounded = number;
  for (let count = 17; count > 0 && bits < 53; count--) {
    const tried = roundedTo(number, count);
    if (nearest(tried, bits, leastExponent) !== number) break;
    rounded = tried;
  }
  const text = decimal(rounded, number, 1e16);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** A number in that many digits; halfway it is the even one, which toPrecision does not choose. */
function roundedTo(number, count) {
  const longer = number.toExponential(count);
  const [digits, exponent] = longer.split("e");
  const isHalfway = /[02468]\.?5$/.test(digits) && Number(longer) === number;
  return Number(isHalfway ? `${digits.slice(0, -1)}e${exponent}` : number.toPrecision(count));
}

/** Digits, with an exponent from `limit` on and below 0.0001. */
function decimal(rounded, number, limit) {
  if (Object.is(number, -0)) return "-0";
  const size = Math.abs(number);
  if (size === 0 || (size >= 1e-4 && size < limit)) return String(rounded);
  return rounded.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
}

/** The nearest float of a narrower type. */
function nearest(number, bits, leastExponent) {
  if (number === 0) return number;
  const exponent = Math.max(leastExponent, Math.floor(Math.log2(Math.abs(number))));
  const quantum = 2 ** (exponent - bits + 1);
  const whole = Math.floor(number / quantum);
  const rest = number / quantum - whole;
  return (rest > 0.5 || (rest === 0.5 && whole % 2) ? whole + 1 : whole) * quantum;
}
