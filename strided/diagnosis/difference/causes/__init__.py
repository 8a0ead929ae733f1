"""Why does b differ from a? Hypotheses, each in a file of its own, and the elements on which they are tried.

Those in `moved` say that b holds a's elements at other places; those in `changed` that it holds them at the same places
as other values. A hypothesis is a function that takes the `Observations` and returns a `Pattern`, or None if it does
not explain the mismatches. `find` tries one after the other.
"""
