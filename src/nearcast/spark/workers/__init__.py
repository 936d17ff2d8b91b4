"""What runs in the tasks of a job, and what a node keeps for them."""
