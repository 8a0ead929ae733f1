"""What a layout looks like, as text and SVG."""
