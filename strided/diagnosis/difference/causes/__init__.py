"""Hypotheses on why b differs from a, and the elements on which they are tested.

Those in `moved` say that b has a's elements at other places; those in `changed`, that it has other values at the same
places. A hypothesis is a function that takes `Observations` and returns a `Pattern`, or None if it does not explain the
mismatches. `find` tries one after another.
"""
