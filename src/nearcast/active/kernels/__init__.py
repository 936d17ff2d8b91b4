"""The kernels of active messages, also for designs that are compared with them."""
