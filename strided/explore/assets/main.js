// Shows what the page's data describe.

import { LayoutView } from "./layout_view.js";
import { MapView } from "./map_view.js";

const data = JSON.parse(document.getElementById("data").textContent);
document.documentElement.classList.add("ready");
const view = document.getElementById("view");
window.stridedView = new LayoutView(view, data);
if (data.map) window.stridedMap = new MapView(view, data.map);
