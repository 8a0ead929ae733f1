"""Campaigns: random inputs for as long as ``--fuzz-seconds`` says, a few seconds in the normal run."""
