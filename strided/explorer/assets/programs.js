// Shows the program, the report, the dump or the difference that the page's data describe.

import { DumpView } from "./dump_view.js";
import { LayoutPanel } from "./layout_panel.js";
import { ModuleView } from "./module_view.js";
import { RunsView } from "./runs_view.js";
import { unpacked } from "./unpack.js";

const data = JSON.parse(document.getElementById("data").textContent);
const view = document.getElementById("view");
const views = {}; // for tests, and for the curious
Object.assign(window, { strided: views });
labelTables();
if (data.module) {
  const [module, host] = [await unpacked(data.module), document.createElement("div")];
  view.append(host);
  views.module = new ModuleView(host, module, new LayoutPanel(view), [...document.querySelectorAll(".part")]);
}
if (data.dump) views.dump = new DumpView(view, await unpacked(data.dump), data.modules);
if (data.runs) views.runs = new RunsView(view, await unpacked(data.runs));
document.documentElement.classList.add("ready");

/** Names the cells of tables by their columns: narrow pages show each row as a card. */
function labelTables() {
  /** @type {NodeListOf<HTMLTableElement>} */
  const tables = document.querySelectorAll(".part table");
  for (const table of tables) {
    const heads = [...table.querySelectorAll("th")].map((head) => head.textContent);
    for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, k) => (cell.dataset.label = heads[k]));
  }
}
