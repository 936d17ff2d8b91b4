"""Parts of event files that one task reads: whole row groups of a Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.arrays.types import Int64s
from nearcast.errors import SourceError
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.fields import CARRIED
from nearcast.spark.events import completed, is_normal
from nearcast.spark.io.paths import absolute, open_file

SEQ = "seq"


@dataclass(frozen=True)
class Slice:
    """Row groups of a file. `seq` numbers its first row; None if rows carry their own."""

    path: str
    first: int
    stop: int
    rows: int
    seq: int | None

    def to_json(self) -> dict[str, Any]:
        """As it is kept in a commit."""
        return asdict(self)

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, Int64s]:
        """Read some columns of the event log, and the sequence numbers of the rows."""
        try:
            with open_file(self.path) as file:
                parquet = pq.ParquetFile(file)
                names = parquet.schema_arrow.names
                wanted = [name for name in columns if name in names]
                extra = [SEQ] if self.seq is None else []
                groups = list(range(self.first, self.stop))
                table = parquet.read_row_groups(groups, columns=[*wanted, *extra])
        except (pa.ArrowException, OSError) as error:
            raise unreadable(self.path, error) from None
        if self.seq is None:
            seq = table[SEQ].to_numpy()
        else:
            seq = np.arange(self.seq, self.seq + len(table), dtype=np.int64)
        return completed(table), seq


def unreadable(path: str, error: Exception) -> SourceError:
    """Say that a file cannot be read, and what to do."""
    reason = str(error).splitlines()[0]
    return SourceError(
        f"{absolute(path)}: not a readable Parquet file ({reason}); repair or remove it"
    )


@dataclass(frozen=True)
class EventFile:
    """What the end of a Parquet file says: how many rows each group has, and if it is normal."""

    path: str
    groups: list[int]
    normal: bool
    numbered: bool  # rows carry their own sequence numbers

    @classmethod
    def look(cls, path: str) -> EventFile | None:
        """Look at a file; None if it is not Parquet."""
        try:
            with open_file(path) as file:
                if file.size() < 8 or file.read(4) != b"PAR1":
                    return None
                parquet = pq.ParquetFile(file)
                schema, metadata = parquet.schema_arrow, parquet.metadata
                counts = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, error) from None
        numbered = SEQ in schema.names and schema.field(SEQ).type == pa.int64()
        return cls(path, counts, is_normal(schema), numbered)

    def slices(self, seq: int | None) -> list[Slice]:
        """One slice for each row group, numbered from `seq` on."""
        found, base = [], seq
        for at, rows in enumerate(self.groups):
            found.append(Slice(self.path, at, at + 1, rows, base))
            base = None if base is None else base + rows
        return found


ALL_COLUMNS = [*EVENT_SCHEMA.names, "problem", "raw"]
MESSAGE_COLUMNS = ["op", "id", "text", "point", "region", *CARRIED, "at", "ttl"]
