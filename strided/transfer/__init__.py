"""Executes plans: regions of memory, threads, scratch memory."""
