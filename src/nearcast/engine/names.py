"""The names of the indexes of an engine; `scan` means no index."""

INDEX_NAMES = (
    "auto", "rarest-term", "ap-tree", "ap-plus-tree", "gi2",
    "mbr-trie", "pt-quadtree", "lfilter",
    "iq-tree", "rq-tree", "rt-tree", "ir-tree", "keyword-trie",
    "sequential", "scan",
)  # fmt: skip
