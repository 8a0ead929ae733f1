"""Which slot of a buffer holds ``a[i, j]``: addresses as sums of digits, and expressions for the rest."""
