"""b holds a's elements at other places."""
