"""What a layout looks like: grids of slots as text and SVG. Needs layouts alone."""
