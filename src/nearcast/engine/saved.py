"""The boolean subscriptions of an engine as files: the table, the index, and the ids.

Regions that are neither plain boxes nor circles are decoded on first use.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from nearcast._jit import read_only
from nearcast.arrays.slots import Secret
from nearcast.arrays.types import Int32s
from nearcast.engine.operands import Operands
from nearcast.engine.subscriptions import Asking, IndexedSubscriptions, LateRegion
from nearcast.engine.terms import KeptTerms, TermIds
from nearcast.errors import SourceError
from nearcast.geo import Region, region_to_json
from nearcast.index import Table
from nearcast.text import parse_query

_encode = msgspec.json.Encoder().encode


def save_population(population: IndexedSubscriptions, folder: Path) -> None:
    """Write the boolean subscriptions into an existing folder."""
    population.settle()
    population.table.save(folder / "table")
    population.index.save(folder / "index")
    names = {
        "id": _texts(population._ids),
        "query": _texts(population._queries),
        "row": pa.array(population._rows, pa.int32()),
    }
    _write(folder / "names.arrow", names)
    kept = population.terms.kept()
    _write(folder / "terms.arrow", _term_columns(kept))
    _write(folder / "secret.arrow", {"word": pa.array(kept.secret)})
    radii = population._radii
    circles = {
        "owner": pa.array(radii, pa.int32()),
        "radius": pa.array(radii.values(), pa.float64()),
    }
    _write(folder / "circles.arrow", circles)
    many = population._many
    special = {
        "owner": pa.array(many, pa.int32()),
        "region": pa.array([_as_json(region) for region, _ in many.values()], pa.large_binary()),
        "rows": pa.array([len(rows) for _, rows in many.values()], pa.int32()),
    }
    _write(folder / "special.arrow", special)
    rows = [rows for _, rows in many.values()]
    _write(folder / "rows.arrow", {"row": pa.array(np.concatenate([*rows, _NO_ROWS]), pa.int32())})
    _write(folder / "asking.arrow", _asking_columns(population._asking))
    for name, owners in _sets(population).items():
        _write(folder / f"{name}.arrow", {"owner": pa.array(sorted(owners), pa.int32())})


def _sets(population: IndexedSubscriptions) -> dict[str, set[int]]:
    return {"anywhere": population._anywhere, "wordless": population._wordless}


def _asking_columns(asking: dict[int, Asking]) -> dict[str, pa.Array]:
    residuals = [each.residuals for each in asking.values()]
    return {
        "owner": pa.array(asking, pa.int32()),
        "residuals": pa.array(residuals, pa.list_(pa.int32())),
        "keyed": pa.array([each.keyed for each in asking.values()], pa.bool_()),
    }


_NO_ROWS = np.empty(0, np.int32)


def load_population(population: IndexedSubscriptions, folder: Path) -> None:
    """Load what `save_population` wrote into an empty population; an error leaves it empty."""
    table = Table.load(folder / "table")
    index = type(population.index).load(folder / "index", table)
    names = _read(folder / "names.arrow")
    ids, queries = _strings(names["id"]), _strings(names["query"])
    terms = TermIds(table, population.analyser)
    secret = read_only(_read(folder / "secret.arrow")["word"].to_numpy())
    terms.take_over(_kept_terms(_read(folder / "terms.arrow"), secret))
    circles = _read(folder / "circles.arrow")
    radii = zip(circles["owner"].to_pylist(), circles["radius"].to_pylist(), strict=True)
    special = _read(folder / "special.arrow")
    rows = np.array(_read(folder / "rows.arrow")["row"].to_numpy())  # writable, as all others
    edges = accumulate(special["rows"].to_pylist(), initial=0)
    regions = map(LateRegion, special["region"].to_pylist())
    many: dict[int, tuple[Region | LateRegion, Int32s]] = {
        owner: (region, rows[start:stop])
        for owner, region, (start, stop) in zip(
            special["owner"].to_pylist(), regions, pairwise(edges), strict=True
        )
    }
    asking = _read(folder / "asking.arrow").to_pylist()
    anywhere, wordless = (
        set(_read(folder / f"{name}.arrow")["owner"].to_pylist()) for name in _sets(population)
    )
    operands = Operands()
    for one in asking:
        owner = one["owner"]
        text = "*" if owner in wordless else queries[owner]
        query = parse_query(text, population.analyser)
        operands.resume(query.conjuncts, one["residuals"])
    population.table, population.index, population.terms = table, index, terms
    population.operands, population._anywhere, population._wordless = operands, anywhere, wordless
    population._asking = {one["owner"]: Asking(one["residuals"], one["keyed"]) for one in asking}
    population._ids, population._queries = ids, queries
    population._rows = names["row"].to_pylist()
    population._radii = dict(radii)
    population._many = many
    population._rowless = {owner for owner, (_, rows) in many.items() if not len(rows)}
    population._free = [owner for owner, id in enumerate(ids) if not id]
    population._owners = {id: owner for owner, id in enumerate(ids) if id}


def _term_columns(kept: KeptTerms) -> dict[str, pa.Array]:
    known = [term is not None for term in kept.letters]
    return {
        "number": pa.array(kept.numbers),
        "term": _texts([term or "" for term in kept.letters]),
        "known": pa.array(known, pa.bool_()),
        "first": pa.array(np.ascontiguousarray(kept.hashes[:, 0])),
        "second": pa.array(np.ascontiguousarray(kept.hashes[:, 1])),
    }


def _kept_terms(table: pa.Table, secret: Secret) -> KeptTerms:
    known = table["known"].to_pylist()
    letters = [
        term if is_known else None
        for term, is_known in zip(_strings(table["term"]), known, strict=True)
    ]
    hashes = np.column_stack([table["first"].to_numpy(), table["second"].to_numpy()])
    return KeptTerms(np.array(table["number"].to_numpy()), letters, hashes, secret)


def _as_json(region: object) -> bytes:
    if isinstance(region, LateRegion):
        return region.json
    return _encode(region_to_json(region))  # type: ignore[arg-type]  # what else it may be


def _texts(strings: list[str]) -> pa.Array:
    try:
        return pa.array(strings, pa.large_string()).cast(pa.large_binary())
    except UnicodeEncodeError:  # half of a pair of surrogates
        encoded = [string.encode(errors="surrogatepass") for string in strings]
        return pa.array(encoded, pa.large_binary())


def _strings(column: pa.ChunkedArray) -> list[str]:
    try:
        texts = column.cast(pa.large_string())
        strings: list[str] = texts.to_pylist()
    except pa.ArrowInvalid:
        strings = [text.decode(errors="surrogatepass") for text in column.to_pylist()]
    return strings


def _write(path: Path, columns: dict[str, pa.Array]) -> None:
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read(path: Path) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: damaged ({error}); save it again") from None
