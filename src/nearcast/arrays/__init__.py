"""Flat arrays: columns that grow, hash slots, lanes, mapped memory, and how they are stored."""
