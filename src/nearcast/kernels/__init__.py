"""Kernels ahead of time: what each part of the package needs, and how they are all built."""
