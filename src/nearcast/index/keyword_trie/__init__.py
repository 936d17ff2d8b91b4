"""The ordered keyword trie: rows by their terms alone, in one order."""

from nearcast.index.keyword_trie.index import KeywordTrie

__all__ = ["KeywordTrie"]
