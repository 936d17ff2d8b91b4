"""The vocabulary: numbers, frequencies, weights, and the file that keeps them."""

import pickle
from math import log
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import InvalidValue, SourceError, StateError
from nearcast.text import Vocabulary, idf_of
from nearcast.text import vocabulary as module

DOCUMENTS = [["b", "a", "a"], ["b", "c"], {"b", "a", "é"}, []]

documents = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=8)


def listing(vocabulary: Vocabulary) -> list[tuple[str, int]]:
    terms = [vocabulary.term(number) for number in range(len(vocabulary))]
    return [(term, vocabulary.document_frequency(term)) for term in terms]


def test_terms_are_numbered_by_falling_frequency_then_by_themselves() -> None:
    vocabulary = Vocabulary.from_documents(DOCUMENTS)
    assert listing(vocabulary) == [("b", 3), ("a", 2), ("c", 1), ("é", 1)]
    assert [vocabulary.id(term) for term in "bacé"] == [0, 1, 2, 3]
    assert vocabulary.documents == 4
    assert len(vocabulary) == 4


@given(documents, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_documents_and_terms_makes_no_difference(
    given_: list[list[str]], random: Random
) -> None:
    shuffled = [random.sample(document, len(document)) for document in given_]
    random.shuffle(shuffled)
    vocabulary = Vocabulary.from_documents(given_)
    assert listing(Vocabulary.from_documents(iter(shuffled))) == listing(vocabulary)
    for term, frequency in listing(vocabulary):
        assert frequency == sum(term in document for document in given_)


def test_a_new_term_gets_the_next_number_and_no_frequency() -> None:
    vocabulary = Vocabulary.from_documents(DOCUMENTS)
    assert vocabulary.id("new") is None
    assert "new" not in vocabulary
    assert vocabulary.intern("new") == 4
    assert vocabulary.intern("new") == 4
    assert vocabulary.intern("a") == 1
    assert "new" in vocabulary
    assert vocabulary.term(4) == "new"
    assert vocabulary.document_frequency("new") == 0
    assert vocabulary.documents == 4
    assert len(vocabulary) == 5


@pytest.mark.parametrize("number", [-1, 4])
def test_an_unknown_number_is_rejected(number: int) -> None:
    with pytest.raises(InvalidValue, match="a number from 0 to 3"):
        Vocabulary.from_documents(DOCUMENTS).term(number)


def test_a_string_is_not_taken_for_a_document() -> None:
    with pytest.raises(InvalidValue, match="its terms, not one string"):
        Vocabulary.from_documents(["ipad"])


def test_idf_follows_the_contract() -> None:
    vocabulary = Vocabulary.from_documents(DOCUMENTS)
    assert vocabulary.idf("b") == log(1 + 4 / 4)
    assert vocabulary.idf("a") == log(1 + 4 / 3)
    assert vocabulary.idf("unseen") == log(1 + 4 / 1)


def test_weights_come_from_the_history_or_are_one() -> None:
    vocabulary = Vocabulary.from_documents(DOCUMENTS)
    assert idf_of(vocabulary)("a") == vocabulary.idf("a")
    assert idf_of(None)("a") == 1.0
    assert idf_of(Vocabulary.from_documents([]))("a") == 1.0


def test_numbers_never_leave_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._LARGEST_ID == 2**31 - 1
    monkeypatch.setattr(module, "_LARGEST_ID", 3)
    vocabulary = Vocabulary.from_documents(DOCUMENTS)
    with pytest.raises(StateError, match="more than 4 distinct terms"):
        vocabulary.intern("new")
    assert len(vocabulary) == 4
    assert "new" not in vocabulary
    with pytest.raises(StateError, match="more than 4 distinct terms"):
        Vocabulary.from_documents([*DOCUMENTS, ["new"]])


def test_a_saved_vocabulary_is_loaded_equal(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_documents(DOCUMENTS)
    vocabulary.intern("東京")
    path = tmp_path / "history.vocabulary"
    path.write_text("what was there before")
    vocabulary.save(path)
    loaded = Vocabulary.load(str(path))
    assert listing(loaded) == listing(vocabulary)
    assert loaded.documents == 4
    assert loaded.id("東京") == 4
    assert loaded.intern("next") == 5
    assert [entry.name for entry in tmp_path.iterdir()] == ["history.vocabulary"]


def test_an_empty_vocabulary_is_saved_and_loaded(tmp_path: Path) -> None:
    Vocabulary().save(tmp_path / "empty")
    loaded = Vocabulary.load(tmp_path / "empty")
    assert (len(loaded), loaded.documents) == (0, 0)


def test_a_vocabulary_survives_pickling() -> None:
    vocabulary = Vocabulary.from_documents(DOCUMENTS)
    copy = pickle.loads(pickle.dumps(vocabulary))  # noqa: S301 - our own bytes, made on this line
    assert listing(copy) == listing(vocabulary)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere: no such file"):
        Vocabulary.load(tmp_path / "nowhere")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be written"):
        Vocabulary().save(tmp_path / "nowhere" / "history")


def test_a_term_that_is_no_unicode_text_cannot_be_saved(tmp_path: Path) -> None:
    vocabulary = Vocabulary()
    vocabulary.intern("\ud800")
    with pytest.raises(SourceError, match="cannot be written"):
        vocabulary.save(tmp_path / "history")
    assert list(tmp_path.iterdir()) == []


def write(path: Path, metadata: dict[str, str], terms: list[str | None], counts: list[int]) -> None:
    table = pa.table({"term": terms, "documents": pa.array(counts, pa.int64())}, metadata=metadata)
    pq.write_table(table, path)


def marks(version: str = "1", documents: str = "2", terms: str = "2") -> dict[str, str]:
    return {
        "nearcast.vocabulary.version": version,
        "nearcast.vocabulary.documents": documents,
        "nearcast.vocabulary.terms": terms,
    }


@pytest.mark.parametrize(
    ("metadata", "terms", "counts", "message"),
    [
        ({}, ["a"], [1], "not a vocabulary"),
        (marks(version="2"), ["a"], [1], "vocabulary format 2; this release reads format 1"),
        (marks(documents="many"), ["a", "b"], [1, 1], "not a whole vocabulary file"),
        (marks(), ["a", "a"], [2, 1], "stands in it twice"),
        (marks(), ["a", None], [2, 1], "a term is no text"),
        (marks(), ["a"], [1], "terms are missing"),
        (marks(terms="1"), ["a"], [3], "more documents than there are"),
        (marks(terms="1"), ["a"], [-1], "more documents than there are"),
    ],
)
def test_another_file_is_rejected_by_what_it_is(
    tmp_path: Path,
    metadata: dict[str, str],
    terms: list[str | None],
    counts: list[int],
    message: str,
) -> None:
    path = tmp_path / "history"
    write(path, metadata, terms, counts)
    with pytest.raises(SourceError, match=message):
        Vocabulary.load(path)


def test_a_cut_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "history"
    Vocabulary.from_documents([[f"term{n}"] for n in range(500)]).save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-1], b"x" * 400):
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match="not a whole vocabulary file"):
            Vocabulary.load(path)


@pytest.mark.parametrize("bit", [1, 64])
def test_no_changed_byte_of_the_pages_is_taken_for_other_terms(tmp_path: Path, bit: int) -> None:
    """A change is noticed, or stands where it says nothing of the terms."""
    path = tmp_path / "history"
    vocabulary = Vocabulary.from_documents([[f"term{n}"] for n in range(60)])
    vocabulary.save(path)
    whole = path.read_bytes()
    pages = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    noticed = 0
    for place in range(pages):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        try:
            loaded = Vocabulary.load(path)
        except SourceError:
            noticed += 1
        else:
            assert (listing(loaded), loaded.documents) == (listing(vocabulary), 60), place
    assert noticed > pages // 2
