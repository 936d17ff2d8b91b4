"""What a pipeline reports: batches, logs, metrics."""
