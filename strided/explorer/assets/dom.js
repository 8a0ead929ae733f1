// Small helpers for building pages and writing numbers.

export const number = (value) => value.toLocaleString("en-US");

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

/** A share for people, never rounded to none or all. */
export const percent = (share) => {
  if (share === 1) return "all";
  return share < 1e-4 ? "under 0.01%" : share > 0.9995 ? "over 99.9%" : `${(100 * share).toPrecision(3)}%`;
};

export const make = (tag, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
};
