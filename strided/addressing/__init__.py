"""Which slot of a buffer holds ``a[i, j]``: addresses as sums of digits, or as expressions where digits do not do."""
