"""LayoutArray as an ndarray."""
