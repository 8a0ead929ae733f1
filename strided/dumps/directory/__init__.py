"""Dump folders and the programs in them."""
