"""The same API in front of a pipeline on Spark: events in, committed updates out."""
