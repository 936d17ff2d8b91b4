"""The same door before the pipeline on Spark: events in, committed updates out."""
