"""Files of the state and of the output, here or in an object store."""
