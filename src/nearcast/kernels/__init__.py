"""Kernels ahead of time: what each part of the package needs, and how they are all built."""

from nearcast.kernels.build import build
from nearcast.kernels.parts import FIRST, PARTS
from nearcast.kernels.rehearsal import rehearse

__all__ = ["FIRST", "PARTS", "build", "rehearse"]
