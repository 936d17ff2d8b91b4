"""The commands `bench`, `experiment` and `generate`."""
