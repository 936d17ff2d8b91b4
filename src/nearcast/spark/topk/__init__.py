"""Top-k on Spark: what the driver records, and the schemes by which workers rank."""
