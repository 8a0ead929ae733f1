// Small helpers for building pages and writing numbers.

export const number = (value) => value.toLocaleString("en-US");

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

export const make = (tag, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
};
