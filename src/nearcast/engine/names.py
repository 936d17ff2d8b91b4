"""The names of the indexes and rankings of an engine; index `scan` means no index."""

INDEX_NAMES = (
    "auto", "rarest-term", "ap-tree", "ap-plus-tree", "gi2",
    "mbr-trie", "pt-quadtree", "lfilter",
    "iq-tree", "rq-tree", "rt-tree", "ir-tree", "keyword-trie",
    "sequential", "scan",
)  # fmt: skip

RANKING_NAMES = ("auto", "skype")
"""What keeps the results of top-k subscriptions: `auto` is the core of `nearcast.topk`, `skype` the
system of the paper."""
