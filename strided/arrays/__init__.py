"""`LayoutArray`: a buffer in a layout that behaves like an ndarray."""
