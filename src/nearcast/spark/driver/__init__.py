"""What the driver does: the order of events, plans, the state, recovery."""
