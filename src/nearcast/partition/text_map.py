"""How text is split: maps from terms to workers, checked, saved, and as kernels read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from nearcast.arrays.lists import starts_of
from nearcast.arrays.slots import Secret
from nearcast.arrays.types import Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition.tables import Terms, fill_workers, places_in, table_size
from nearcast.text.columns import hash_terms

V = TypeVar("V", bound=np.generic)


class TextMap(NamedTuple):
    """How text is split: each of `terms` has a worker; any other term t goes to `others[t % n]`."""

    terms: Terms
    workers: Int32s
    others: Int32s


class TermUnits(NamedTuple):
    """What is dealt out: terms that have an entry of their own, then buckets of all others."""

    terms: Terms  # sorted by hash
    rank: Int32s  # of each of them: its unit
    buckets: int

    @property
    def size(self) -> int:
        """How many units there are."""
        return len(self.terms) + self.buckets

    def of(self, terms: Terms) -> Int32s:
        """Give the units of terms."""
        bucket = len(self.terms) + (terms % np.uint64(self.buckets)).astype(np.int64)
        if not len(self.terms):
            return bucket.astype(np.int32)
        place, known = places_in(self.terms, terms)
        return np.where(known, self.rank[place], bucket).astype(np.int32)

    def mapped(self, parts: Int32s) -> TextMap:
        """Give the map that deals units out to parts."""
        return TextMap(self.terms, parts[self.rank], parts[len(self.terms) :])


class MapArrays(NamedTuple):
    """Several maps as kernels read them (`owners.worker_of_term`)."""

    starts: Int64s
    masks: Int64s
    slots: Terms
    other_starts: Int64s
    others: Int32s


def as_map(given: TextMap) -> TextMap:
    """Give a map with arrays of the right kinds."""
    return TextMap(
        np.ascontiguousarray(given.terms, np.uint64),
        np.ascontiguousarray(given.workers, np.int32),
        np.ascontiguousarray(given.others, np.int32),
    )


def check_map(given: TextMap, workers: int, name: str) -> None:
    """Refuse a map that is not in order, or names a worker from `workers` on."""
    if len(given.terms) != len(given.workers) or not rises(given.terms):
        raise InvalidValue(name, len(given.terms), "sorted terms, a worker for each")
    if not len(given.others):
        raise InvalidValue(f"{name}.others", [], "at least one worker for all other terms")
    for each in (given.workers, given.others):
        if len(each) and (each.min() < 0 or each.max() >= workers):
            raise InvalidValue(name, [int(each.min()), int(each.max())], f"workers below {workers}")


def check_order(terms: Terms, counts: Int64s) -> None:
    """Refuse frequent terms that are not in order, or counts below 1."""
    if len(terms) != len(counts) or not rises(terms):
        raise InvalidValue("order_terms", len(terms), "sorted terms, a count for each")
    if len(counts) and counts.min() < 1:
        raise InvalidValue("order_counts", int(counts.min()), "counts of 1 or more")


def check_letters(letters: Sequence[str], terms: Terms) -> None:
    """Refuse letters that are not those of all of some terms."""
    missing = int((~np.isin(terms, hash_terms(list(letters)))).sum())
    if missing:
        raise InvalidValue("letters", len(letters), f"all terms of the plan; {missing} are missing")


def respelled(
    letters: Sequence[str], secret: Secret, terms: Terms, values: npt.NDArray[V]
) -> tuple[Terms, npt.NDArray[V]]:
    """Sorted terms and their values by hashes with a secret; all terms are among `letters`."""
    plain, other = hash_terms(list(letters)), hash_terms(list(letters), secret)
    order = np.argsort(plain)
    found = other[order[np.searchsorted(plain[order], terms)]]
    again = np.argsort(found)
    return found[again], values[again]


def rises(terms: Terms) -> bool:
    """Whether terms are sorted and distinct."""
    return bool((terms[1:] > terms[:-1]).all())


def map_arrays(maps: Sequence[TextMap]) -> MapArrays:
    """Make a hash table for each map."""
    sizes = [table_size(len(each.terms)) for each in maps]
    starts = starts_of(sizes)
    slots = np.zeros(starts[-1], np.uint64)
    for number, each in enumerate(maps):
        fill_workers(slots[starts[number] : starts[number + 1]], each.terms, each.workers)
    return MapArrays(
        starts=starts,
        masks=np.array(sizes, np.int64) - 1,
        slots=slots,
        other_starts=starts_of(len(each.others) for each in maps),
        others=joined([each.others for each in maps], np.int32),
    )


def packed(maps: Sequence[TextMap]) -> dict[str, npt.NDArray[Any]]:
    """Give maps as named arrays, to be saved."""
    return {
        "map_starts": starts_of(len(each.terms) for each in maps),
        "map_terms": joined([each.terms for each in maps], np.uint64),
        "map_workers": joined([each.workers for each in maps], np.int32),
        "other_starts": starts_of(len(each.others) for each in maps),
        "others": joined([each.others for each in maps], np.int32),
    }


def unpacked(arrays: Mapping[str, npt.NDArray[Any]]) -> list[TextMap]:
    """Read what `packed` gave."""
    starts, other_starts = arrays["map_starts"], arrays["other_starts"]
    return [
        TextMap(
            arrays["map_terms"][starts[k] : starts[k + 1]],
            arrays["map_workers"][starts[k] : starts[k + 1]],
            arrays["others"][other_starts[k] : other_starts[k + 1]],
        )
        for k in range(len(starts) - 1)
    ]


def joined(parts: Sequence[Any], dtype: Any) -> npt.NDArray[Any]:
    """Parts in a row, also if there are none."""
    return np.concatenate([np.empty(0, dtype), *parts])
