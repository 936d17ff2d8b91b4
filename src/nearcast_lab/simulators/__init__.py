"""What many workers would do, reckoned in one process."""
