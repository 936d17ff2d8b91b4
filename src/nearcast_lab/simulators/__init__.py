"""What many workers would do, estimated in one process."""
