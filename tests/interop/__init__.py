"""Other libraries."""
