"""Shards: the buffers of several devices as one array, and back."""
