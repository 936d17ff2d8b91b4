"""Scored top-k over a sliding window."""

from nearcast.topk.score import Bag, Scorer
from nearcast.topk.window import Window

__all__ = ["Bag", "Scorer", "Window"]
