"""Hashing a column of texts gives what the analyser gives, hashed term by term."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.arrays.slots import term_hash
from nearcast.text import Analyser
from nearcast.text.columns import hash_texts

WORDS = st.sampled_from(
    ["ipad", "IPad", "Größe", "ﬁn", "x_y", "don't", "7", "日本", "a-b", " ", ""]
)
TEXTS = st.one_of(st.text(max_size=20), st.lists(WORDS, max_size=90).map(" ".join))


@settings(deadline=None)  # the first call compiles
@given(texts=st.lists(TEXTS, max_size=8), skip=st.integers(0, 2), stop=st.booleans())
def test_a_column_has_the_terms_of_its_texts(texts: list[str], skip: int, stop: bool) -> None:
    """Each term once a text, sliced columns and stop words included."""
    analyser = Analyser(stop_words=["ipad"]) if stop else Analyser()
    texts = [text.encode(errors="ignore").decode() for text in texts]
    hashed = hash_texts(pa.array(texts, pa.string())[skip:], analyser)
    assert len(hashed.starts) == len(texts[skip:]) + 1
    for number, text in enumerate(texts[skip:]):
        found = hashed.hashes[hashed.starts[number] : hashed.starts[number + 1]].tolist()
        assert sorted(found) == sorted(term_hash(term) for term in analyser.terms(text))
