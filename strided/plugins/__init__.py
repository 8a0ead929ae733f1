"""What other libraries load by name, through entry points: an engine of xarray, a codec of zarr."""
