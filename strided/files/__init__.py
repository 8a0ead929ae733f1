"""Reading and writing bytes of files safely, even if others change the file meanwhile."""
