"""The pipeline on Spark: sessions, sources, sinks, and what can be seen of a running stream."""
