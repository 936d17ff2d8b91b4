"""Batches of events as slices of Parquet files, and the sources that they come from."""
