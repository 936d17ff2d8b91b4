"""Compiled kernels for every node of a pipeline, by way of its state.

The driver offers its own. A node whose package brought kernels that fit does not look there; one
that has none takes what is offered. If nothing offered fits either, one node of its kind compiles,
offers what it made, and the others wait for that.
"""

from __future__ import annotations

import io
import json
import logging
import time
import zipfile
from functools import cache
from uuid import uuid4

from nearcast import _kernel_builder, _kernel_files
from nearcast.errors import SourceError
from nearcast.spark.io.files import Files

PART = "spark"
_FOLDER = "kernels"
_LOOK_S = 0.5
_PATIENCE_S = 600.0  # for a node that compiles, and may have died

_log = logging.getLogger("nearcast.spark")


def _name(target: str, ending: str = "zip") -> str:
    return f"{_FOLDER}/{_kernel_files.stamp()}.{target}.{ending}"


def build() -> None:
    """Compile what tasks and the driver need on this machine, if it is not at hand."""
    if not _kernel_builder.prepared(PART):
        _log.info("waiting for kernels that are being compiled, once on this machine")
        while not _kernel_builder.prepared(PART):
            time.sleep(_LOOK_S)


def offer(state: str) -> None:
    """Put this machine's kernels into the state, as far as none of their kind are there."""
    files = Files(state)
    for target in _kernel_files.targets():
        chosen = [path for path in _kernel_files.kernel_files() if _fits(path.name, target)]
        if not _kernel_files.at_hand(PART, target) or not chosen:
            continue
        if not files.exists(_name(target)):
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in chosen:
                    archive.writestr(path.name, path.read_bytes())
            files.write(_name(target), packed.getvalue(), durable=False)


def _fits(name: str, target: str) -> bool:
    return name.endswith(f".{target}{_kernel_files.ENDING}")


@cache
def fetch(state: str) -> None:
    """See to it, once in a process, that this machine has kernels, without compiling them twice."""
    files = Files(state)
    if _kernel_files.at_hand(PART) or _take(files):
        return
    target = _kernel_files.built_for()
    claim = _name(target, "claim")
    mine = uuid4().hex
    waited = time.monotonic()
    while files.exists(claim) and time.monotonic() - waited < _PATIENCE_S:
        if _take(files):
            return
        time.sleep(_LOOK_S)
    files.write(claim, json.dumps({"by": mine}).encode(), durable=False)
    if json.loads(files.read(claim))["by"] != mine:  # another node was faster
        fetch.__wrapped__(state)
        return
    build()
    offer(state)
    files.remove(claim)


def _take(files: Files) -> bool:
    """Take the kernels that are offered and fit."""
    for target in _kernel_files.targets():
        if not files.exists(_name(target)):
            continue
        try:
            with zipfile.ZipFile(io.BytesIO(files.read(_name(target)))) as archive:
                found = {name: archive.read(name) for name in archive.namelist()}
        except (SourceError, zipfile.BadZipFile, OSError) as error:
            _log.warning("%s: the kernels there cannot be read (%s)", _name(target), error)
            continue
        _kernel_files.keep(found)
        _kernel_files.mark(PART, target)
        return True
    return False
