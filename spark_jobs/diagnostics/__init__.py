"""How the program says that something is wrong: a code, a place, an excerpt and help."""
