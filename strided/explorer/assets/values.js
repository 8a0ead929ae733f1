// The values of an array, decoded once: numbers of 64 bits, kept exact.

const BYTES = { f8: Float64Array, i8: BigInt64Array, u8: BigUint64Array, c16: Float64Array };

/** A function from an element's row-major position, and a number of digits, to its value as text, or null if the page has no values. */
export function reader(values) {
  if (!values) return null;
  const raw = atob(values.data);
  const bytes = Uint8Array.from(raw, (character) => character.charCodeAt(0));
  const numbers = new BYTES[values.kind](bytes.buffer);
  const shown = (number, digits) => (typeof number === "bigint" ? String(number) : short(number, digits ?? values.digits));
  if (values.is_boolean) return (at) => (numbers[at] ? "True" : "False");
  if (values.kind !== "c16") return (at, digits) => shown(numbers[at], digits);
  return (at, digits) => {
    const [real, imaginary] = [shown(numbers[2 * at], digits), shown(numbers[2 * at + 1], digits)];
    return `${real}${imaginary.startsWith("-") ? "" : "+"}${imaginary}j`;
  };
}

/** A number in at most `digits` significant digits, as short as it gets. */
export function short(number, digits) {
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number);
  return String(Number(number.toPrecision(digits)));
}
