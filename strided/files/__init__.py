"""How bytes of files are read and written safely, whatever else happens to the file."""
