"""How values get into a file and out of it, block by block."""
