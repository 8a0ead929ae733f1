"""b holds a's elements at the same places, as other values."""
