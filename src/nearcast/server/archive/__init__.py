"""Continuous copies of a server's data, from which it can be restored as it was at a time."""
