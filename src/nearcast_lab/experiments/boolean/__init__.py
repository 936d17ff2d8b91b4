"""The figures of AP-Tree (ICDE 2015, VLDB J. section 5.1) and of LFilter (CIKM 2015)."""

from nearcast_lab.experiments.boolean.run import SCALES, SECTIONS, measure

__all__ = ["SCALES", "SECTIONS", "measure"]
