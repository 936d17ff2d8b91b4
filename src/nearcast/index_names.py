"""The indexes by name, and where the class of each is; nothing is imported for it."""

INDEX_CLASSES = {
    "rarest-term": ("rarest_term", "RarestTerm"),
    "ap-tree": ("ap_tree", "ApTree"),
    "ap-plus-tree": ("ap_plus_tree", "ApPlusTree"),
    "gi2": ("gi2", "Gi2"),
    "mbr-trie": ("lfilter", "MbrTrie"),
    "pt-quadtree": ("lfilter", "PtQuadtree"),
    "lfilter": ("lfilter", "LFilter"),
    "iq-tree": ("quadtree", "IqTree"),
    "rq-tree": ("quadtree", "RqTree"),
    "rt-tree": ("rtree", "RtTree"),
    "ir-tree": ("rtree", "IrTree"),
    "keyword-trie": ("keyword_trie", "KeywordTrie"),
    "sequential": ("sequential", "Sequential"),
}
"""A module of `nearcast.index` and a class in it, by the name that users give."""

INDEX_NAMES = ("auto", *INDEX_CLASSES, "scan")
"""What an engine may be asked for; `auto` is the one that measures best, `scan` is no index."""
