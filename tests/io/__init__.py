"""Values to and from files."""
