"""Where does a program's memory go, what does it copy only to change layouts, and what would cure it?"""
