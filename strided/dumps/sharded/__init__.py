"""Shards: combine the buffers of several devices into one array, and the reverse."""
