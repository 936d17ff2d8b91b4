"""The terms of a history: their numbers and how many documents hold them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from math import log
from os import PathLike
from pathlib import Path

from nearcast.errors import InvalidValue, SourceError, StateError

FORMAT_VERSION = 1
"""The version of the file that `Vocabulary.save` writes."""

_LARGEST_ID = 2**31 - 1
_VERSION_KEY = b"nearcast.vocabulary.version"
_DOCUMENTS_KEY = b"nearcast.vocabulary.documents"
_TERMS_KEY = b"nearcast.vocabulary.terms"


class Vocabulary:
    """Numbers terms from 0 and knows their document frequencies.

    Terms of the history come first, the most frequent with id 0; terms that were met later follow
    in the order of their arrival. Ids fit in 32 bits and never change.
    """

    __slots__ = ("_documents", "_frequencies", "_ids", "_terms")

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._terms: list[str] = []
        self._frequencies = array("q")
        self._documents = 0

    @classmethod
    def from_documents(cls, documents: Iterable[Iterable[str]]) -> Vocabulary:
        """Count in how many documents each term occurs, and number the terms by that.

        Terms of the same frequency are numbered in their own order, so the order of the documents
        makes no difference.
        """
        counts: Counter[str] = Counter()
        total = 0
        for document in documents:
            if isinstance(document, str):
                raise InvalidValue("document", document, "its terms, not one string")
            counts.update(document if isinstance(document, frozenset | set) else set(document))
            total += 1
        terms = sorted(counts)
        terms.sort(key=counts.__getitem__, reverse=True)
        made = cls()
        made._fill(terms, array("q", map(counts.__getitem__, terms)), total)
        return made

    @property
    def documents(self) -> int:
        """The number of documents of the history."""
        return self._documents

    def __len__(self) -> int:
        return len(self._terms)

    def __contains__(self, term: object) -> bool:
        return term in self._ids

    def id(self, term: str) -> int | None:
        """Return the number of a term, or None if it was never met."""
        return self._ids.get(term)

    def intern(self, term: str) -> int:
        """Return the number of a term; a new one gets the next and occurs in no document."""
        known = self._ids.get(term)
        if known is not None:
            return known
        number = len(self._terms)
        _check_room(number + 1)
        self._ids[term] = number
        self._terms.append(term)
        self._frequencies.append(0)
        return number

    def term(self, number: int) -> str:
        """Return the term with this number."""
        if not 0 <= number < len(self._terms):
            raise InvalidValue("term id", number, f"a number from 0 to {len(self._terms) - 1}")
        return self._terms[number]

    def document_frequency(self, term: str) -> int:
        """Return the number of documents of the history that hold the term."""
        number = self._ids.get(term)
        return 0 if number is None else self._frequencies[number]

    def idf(self, term: str) -> float:
        """Return the inverse document frequency of a term: ln(1 + N / (1 + df))."""
        return log(1 + self._documents / (1 + self.document_frequency(term)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a Parquet file; what `path` held before stays until the new file is whole."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        target = Path(path)
        unfinished = target.with_name(f"{target.name}.unfinished")
        metadata = {
            _VERSION_KEY: str(FORMAT_VERSION),
            _DOCUMENTS_KEY: str(self._documents),
            _TERMS_KEY: str(len(self._terms)),
        }
        try:
            table = pa.table(
                {
                    "term": pa.array(self._terms, pa.large_string()),
                    "documents": pa.array(self._frequencies, pa.int64()),
                },
                metadata=metadata,
            )
            pq.write_table(
                table,
                unfinished,
                compression="zstd",
                use_dictionary=False,
                write_page_checksum=True,
            )
            unfinished.replace(target)
        except (OSError, ValueError, pa.ArrowException) as error:
            unfinished.unlink(missing_ok=True)
            raise SourceError(f"{target}: the vocabulary cannot be written: {error}") from error

    @staticmethod
    def is_saved(path: str | PathLike[str]) -> bool:
        """Whether a file looks like one that `save` wrote."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return _VERSION_KEY in (pq.read_schema(path).metadata or {})
        except (OSError, pa.ArrowException):
            return False

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Vocabulary:
        """Read a vocabulary that `save` wrote."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                metadata = file.schema_arrow.metadata or {}
                _check_version(path, metadata.get(_VERSION_KEY))
                table = file.read(columns=["term", "documents"])
            terms = table.column("term").to_pylist()
            if not all(isinstance(term, str) for term in terms):
                raise ValueError("a term is no text")
            if len(terms) != int(metadata[_TERMS_KEY]):
                raise ValueError("terms are missing")
            frequencies = array("q", table.column("documents").to_pylist())
            made = cls()
            made._fill(terms, frequencies, int(metadata[_DOCUMENTS_KEY]))
        except FileNotFoundError as error:
            raise SourceError(f"{path}: no such file; expected a saved vocabulary") from error
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            problem = " ".join(str(error).split())
            raise SourceError(
                f"{path}: not a whole vocabulary file ({problem}); save the vocabulary again"
            ) from error
        return made

    def _fill(self, terms: list[str], frequencies: array[int], documents: int) -> None:
        _check_room(len(terms))
        self._ids = {term: number for number, term in enumerate(terms)}
        if len(self._ids) != len(terms) or len(frequencies) != len(terms):
            raise ValueError("a term stands in it twice or lacks its frequency")
        if frequencies and not 0 <= min(frequencies) <= max(frequencies) <= documents:
            raise ValueError("a term is in more documents than there are")
        self._terms = terms
        self._frequencies = frequencies
        self._documents = documents


def idf_of(vocabulary: Vocabulary | None) -> Callable[[str], float]:
    """Return the weight of terms in a score: by the history, or 1 for each term without one.

    A history without documents gives all terms the same weight, so it counts as none.
    """
    return _one if vocabulary is None or not vocabulary.documents else vocabulary.idf


def _one(_term: str) -> float:
    return 1.0


def _check_room(count: int) -> None:
    if count - 1 > _LARGEST_ID:
        raise StateError(
            f"vocabulary: more than {_LARGEST_ID + 1:,} distinct terms; "
            "term ids have 32 bits: split the history, or analyse texts with a stemmer"
        )


def _check_version(path: str | PathLike[str], found: bytes | None) -> None:
    if found is None:
        raise SourceError(f"{path}: not a vocabulary; expected a file that Vocabulary.save wrote")
    if found != str(FORMAT_VERSION).encode():
        version = found.decode("utf-8", "replace")
        raise SourceError(
            f"{path}: vocabulary format {version}; this release reads format {FORMAT_VERSION}: "
            "save the vocabulary again with this release"
        )
