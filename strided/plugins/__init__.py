"""Plugins that other libraries load through entry points: a backend engine of xarray, a codec of zarr."""
