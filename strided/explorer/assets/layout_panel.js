// The explorer of one layout inside a page about many: the layout that a link leads to.

import { make } from "./dom.js";
import { LayoutView } from "./layout_view.js";

export class LayoutPanel {
  constructor(host) {
    this.section = host.appendChild(make("section", { className: "panel", hidden: true, tabIndex: -1 }));
    this.section.addEventListener("keydown", (event) => event.key === "Escape" && event.target.type !== "search" && this.close());
    this.view = null;
  }

  /** A link that opens a layout; `values` are those of an array that has few. */
  link(layout, values = null) {
    const button = make("button", { type: "button", className: "link", title: "Show where its elements lie" }, layout.text);
    button.addEventListener("click", () => this.open(layout, values, button));
    return button;
  }

  /** Shows a layout below the part of the page that the link is in; closing it gives its focus back. */
  open(layout, values = null, from = null) {
    this.from = from ?? document.activeElement;
    const close = make("button", { type: "button" }, "close");
    close.addEventListener("click", () => this.close());
    const host = make("div", {});
    (this.from.closest(".detail") ?? this.from.closest("section")?.nextElementSibling)?.after(this.section);
    this.section.hidden = false;
    this.section.ariaLabel = `Layout ${layout.text}`;
    this.section.replaceChildren(make("div", { className: "panel-head" }, make("h2", {}, layout.text), close), host);
    this.view = new LayoutView(host, { layouts: [layout], values });
    this.section.focus({ preventScroll: true });
    this.section.scrollIntoView({ block: "nearest" });
  }

  close() {
    const isWithin = this.section.contains(document.activeElement);
    this.view = null;
    this.section.hidden = true;
    this.section.replaceChildren();
    if (isWithin && this.from.isConnected) this.from.focus();
  }
}
