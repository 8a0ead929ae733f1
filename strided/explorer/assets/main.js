// Shows the shape or the array that the page's data describe.

import { LayoutView } from "./layout_view.js";
import { MapView } from "./map_view.js";

const data = JSON.parse(document.getElementById("data").textContent);
const view = document.getElementById("view");
window.strided = {};
if (data.layouts) window.strided.layout = new LayoutView(view, data);
if (data.map) window.strided.map = new MapView(view, data.map);
document.documentElement.classList.add("ready");
