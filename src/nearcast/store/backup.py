"""A consistent copy of an engine's file, made while it is in use."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from nearcast.errors import StoreError
from nearcast.store.connect import naming_file, open_reader, store_error, to_disk


def copy_file(source: Path, target: Path) -> None:
    """Copy the latest committed state to a new file, which appears when it is complete."""
    if target.exists():
        raise StoreError(f"{target}: exists already; choose another path for the copy")
    unfinished = target.with_name(target.name + ".unfinished")
    reader = open_reader(source)
    try:
        unfinished.unlink(missing_ok=True)
        with naming_file(unfinished):
            os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            copy = sqlite3.connect(unfinished, isolation_level=None)
            try:
                reader.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # so that the copy is one file
            finally:
                copy.close()
        to_disk(unfinished)
        unfinished.replace(target)
        to_disk(target.parent)
    except sqlite3.Error as error:
        raise store_error(source, error) from None
    except OSError as error:
        raise StoreError(
            f"{target}: cannot be written ({error.strerror}); choose another"
        ) from None
    finally:
        reader.close()
        unfinished.unlink(missing_ok=True)
