"""Paths as Spark writes them, and the file systems behind them, for Python tasks.

A path without a scheme, or with `file:`, is one of this machine or of what is mounted on all. Any
other scheme goes to the file systems of pyarrow: `s3a://` as `s3://`, `hdfs://`, `gs://`, `abfss://`.
Objects that are not at Amazon are found by the variable `AWS_ENDPOINT_URL`, as by its own tools.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
from pyarrow import fs

from nearcast.errors import SourceError

_LOCAL = re.compile(r"file:(//)?(?=/)")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
RENAMES = ("local", "hdfs")
"""File systems, by what pyarrow calls them, that can rename a file or folder in one step."""
_SAME_AS = {"s3a": "s3", "s3n": "s3"}


def is_local(path: str) -> bool:
    """Whether a path is one of the machine's own files."""
    return _LOCAL.match(path) is not None or _SCHEME.match(path) is None


def local_path(path: str) -> Path:
    """Give the path of a local file; Spark puts `file:` before it and escapes nothing."""
    return Path(_LOCAL.sub("", path, count=1))


def absolute(path: str) -> str:
    """Give a path that means the same in every process: one of this machine from its root on."""
    return str(local_path(path).absolute()) if is_local(path) else path


def resolve(path: str) -> tuple[Any, str]:
    """Give the file system of a path (a `pyarrow.fs.FileSystem`) and the path inside it."""
    if is_local(path):
        return fs.LocalFileSystem(), str(local_path(path).absolute())
    scheme, _, rest = path.partition(":")
    uri = f"{_SAME_AS.get(scheme, scheme)}:{rest}"
    if uri.startswith("s3:"):
        uri += _endpoint()
    try:
        files, inside = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise SourceError(
            f"{path}: no file system for it ({reason}); "
            "give a local path, or one that pyarrow.fs can open"
        ) from None
    return files, inside


def _endpoint() -> str:
    """Where objects are kept if not at Amazon: pyarrow leaves it to us to look."""
    given = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not given:
        return ""
    parts = urlsplit(given)
    return "?" + urlencode({"endpoint_override": parts.netloc, "scheme": parts.scheme})


def open_file(path: str) -> Any:
    """Open a file for reading, as a `pyarrow.NativeFile`, wherever it is."""
    try:
        if is_local(path):
            return pa.memory_map(str(local_path(path)))
        files, inside = resolve(path)
        return files.open_input_file(inside)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({_reason(error)})") from None


def _reason(error: OSError) -> str:
    return error.strerror or str(error).splitlines()[0]
