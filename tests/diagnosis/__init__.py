"""Which layout, which difference, what in the padding."""
