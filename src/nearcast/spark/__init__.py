"""The pipeline on Spark: a stream of events in, a stream of updates out, each exactly once.

from nearcast.spark import match_stream
updates = match_stream(events, workers=8, partitioner="hybrid", state="...")
"""

from __future__ import annotations

from typing import Any

__all__ = ["match_files", "match_stream"]


def __getattr__(name: str) -> Any:
    # Tasks import modules of this package without needing what only the driver needs.
    if name in __all__:
        from nearcast.spark import stream

        return getattr(stream, name)
    raise AttributeError(name)
