"""Top-k on Spark: what the driver writes down of it, and the ways in which workers rank."""
