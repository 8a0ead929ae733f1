"""A whole dump folder: what is in it."""
