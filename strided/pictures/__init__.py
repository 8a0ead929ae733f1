"""Pictures of layouts, as text and SVG."""
