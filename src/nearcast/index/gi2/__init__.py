"""GI2: a grid of inverted lists by the least frequent term."""

from nearcast.index.gi2.index import Gi2

__all__ = ["Gi2"]
