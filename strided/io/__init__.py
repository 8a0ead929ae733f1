"""Reading and writing arrays in files, block by block."""
