// Shows the shape or the array that the page's data describe.

import { LayoutView } from "./layout_view.js";
import { MapView } from "./map_view.js";

const data = JSON.parse(document.getElementById("data").textContent);
const view = document.getElementById("view");
const views = {}; // for tests, and for the curious
Object.assign(window, { strided: views });
if (data.layouts) views.layout = new LayoutView(view, data);
if (data.map) views.map = new MapView(view, data.map);
document.documentElement.classList.add("ready");
