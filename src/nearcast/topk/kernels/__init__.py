"""The kernels of the top-k core, also for what builds on it: Skype, and rankings on Spark."""
