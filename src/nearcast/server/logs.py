"""Structured logs on standard error: readable on a terminal, lines of JSON elsewhere."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LossyStream:
    """Writes to a stream what can be written.

    A full disk, or a stream that was closed, must not fail the request that a line is about.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write some text, or lose it."""
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        """Pass on what was written."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def set_up_logs(level: str = "info") -> None:
    """Write logs of this level and above; they never hold headers, bodies or query strings."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    person = sys.stderr.isatty()
    last: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if person else structlog.processors.JSONRenderer()
    )
    if not person:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", LossyStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()  # logs of libraries take the same way
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processor=last)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(LEVELS[level], logging.WARNING))
