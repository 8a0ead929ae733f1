"""Other libraries that take a `LayoutArray`, a module for each; none is loaded before it is asked for."""
