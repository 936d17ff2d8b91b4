"""R-trees whose nodes know terms: Rt-Tree, Rt+-Tree, Rt++-Tree and IR-Tree."""

from nearcast.index.rtree.index import IrTree, RtTree

__all__ = ["IrTree", "RtTree"]
