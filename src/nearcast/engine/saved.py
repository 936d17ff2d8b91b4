"""The boolean subscriptions of an engine as files: the table, the index, and the ids.

Queries are parsed, and regions rebuilt from the table, when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from nearcast._jit import read_only
from nearcast.arrays.slots import Secret
from nearcast.arrays.types import Bytes, Int64s
from nearcast.engine.apart import RegionsApart
from nearcast.engine.operands import AskedCounts, SavedOperands
from nearcast.engine.owners import OwnerColumns, Owners
from nearcast.engine.subscriptions import IndexedSubscriptions
from nearcast.engine.terms import KeptTerms, TermIds
from nearcast.errors import SourceError
from nearcast.geo import region_from_json, region_to_json
from nearcast.index import Table

_OPERANDS = "operands.json"
_encode = msgspec.json.Encoder().encode


def save_population(population: IndexedSubscriptions, folder: Path) -> None:
    """Write the boolean subscriptions into an existing folder."""
    population.settle()
    population.table.save(folder / "table")
    population.index.save(folder / "index")
    owners = population.owners
    names = {"id": _column(*owners.ids.buffers()), "query": _column(*owners.queries.buffers())}
    columns = {name: pa.array(column) for name, column in owners.columns._asdict().items()}
    _write(folder / "names.arrow", names | columns)
    kept = population.terms.kept()
    _write(folder / "terms.arrow", _term_columns(kept))
    _write(folder / "secret.arrow", {"word": pa.array(kept.secret)})
    apart = population.apart
    regions = [_encode(region_to_json(region)) for region in apart.values()]
    special = {"owner": pa.array([*apart], pa.int32()), "region": pa.array(regions, pa.binary())}
    _write(folder / "rowless.arrow", special)
    scattered = population._scattered
    lists = {
        "owner": pa.array(scattered, pa.int32()),
        "rows": pa.array(scattered.values(), pa.list_(pa.int32())),
    }
    _write(folder / "scattered.arrow", lists)
    operands = population.operands.saved()
    predicates = {"owner": pa.array(operands.owner), "place": pa.array(operands.place)}
    _write(folder / "predicates.arrow", predicates)
    (folder / _OPERANDS).write_bytes(_encode(operands.counts._asdict()))


def load_population(population: IndexedSubscriptions, folder: Path) -> None:
    """Load what `save_population` wrote into an empty population; an error leaves it empty."""
    table = Table.load(folder / "table")
    index = type(population.index).load(folder / "index", table)
    names = _read(folder / "names.arrow")
    terms = TermIds(table, population.analyser)
    secret = read_only(_read(folder / "secret.arrow")["word"].to_numpy())
    terms.take_over(_kept_terms(_read(folder / "terms.arrow"), secret))
    owners = Owners()
    columns = OwnerColumns(*(np.array(names[name].to_numpy()) for name in OwnerColumns._fields))
    owners.take_over(_bytes(names["id"]), _bytes(names["query"]), columns)
    regions = {
        owner: region_from_json(msgspec.json.decode(region))
        for owner, region in _pairs(_read(folder / "rowless.arrow"))
    }
    lists = {
        owner: np.array(rows, np.int32) for owner, rows in _pairs(_read(folder / "scattered.arrow"))
    }
    predicates = _read(folder / "predicates.arrow")
    counts = _read_counts(folder / _OPERANDS)
    own = (np.array(predicates[name].to_numpy()) for name in ("owner", "place"))
    operands = SavedOperands(counts, *own)
    population.table, population.index, population.terms = table, index, terms
    population.owners, population._scattered = owners, lists
    population.apart = RegionsApart(regions)
    population.operands.take_over(operands)


def _pairs(table: pa.Table) -> Iterable[tuple[int, Any]]:
    """The owners of a table, each with what the other column has for it."""
    owner, other = table.columns
    return zip(owner.to_pylist(), other.to_pylist(), strict=True)


def _read_counts(path: Path) -> AskedCounts:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        if "ranges" not in found and found.get("names"):  # its rows may have other keys
            raise SourceError(f"{path}: of an earlier version; save it again")
        counts = [found.get(name, {}) for name in AskedCounts._fields]
        return msgspec.convert(counts, AskedCounts, strict=False)
    except (OSError, msgspec.MsgspecError) as error:
        raise SourceError(f"{path}: damaged ({error}); save it again") from None


def _column(data: Bytes, offsets: Int64s) -> pa.Array:
    made = (pa.py_buffer(offsets), pa.py_buffer(data))
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, [None, *made])


def _bytes(column: pa.ChunkedArray) -> tuple[Bytes, Int64s]:
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    _, offsets, data = whole.buffers()
    if not len(whole):
        return read_only(np.empty(0, np.uint8)), np.zeros(1, np.int64)
    where = np.frombuffer(offsets, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    return read_only(np.frombuffer(data or b"", np.uint8)), where


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
