"""The log of a stream: JSON Lines on the logger `nearcast.spark`."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from nearcast.spark.reports.report import BatchReport, balance

logger = logging.getLogger("nearcast.spark")


def log_event(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields."""
    logger.log(level, event, extra={"fields": fields})


def log_batch(report: BatchReport) -> None:
    """Log that a batch was committed, and with it another version of the plan."""
    if report.moved is not None:
        log_event("plan changed", batch=report.batch, plan=report.plan, **asdict(report.moved))
    if report.advice is not None:
        log_event("better plan found", batch=report.batch, **asdict(report.advice))
    log_event(
        "batch committed",
        batch=report.batch,
        plan=report.plan,
        events=report.events,
        messages=report.messages,
        operations=report.operations,
        updates=report.updates,
        refused=report.refused,
        subscriptions=report.subscriptions,
        active=report.active,
        rankings=report.rankings,
        ranked_updates=report.ranked_updates,
        seconds={step: round(seconds, 4) for step, seconds in report.seconds.items()},
        workers=len(report.workers),
        balance=round(balance(report.workers), 3),
    )


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON: time, level, logger, event, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_to(stream: IO[str], level: int = logging.INFO) -> logging.Handler:
    """Write the log as JSON Lines to a stream; return the handler, which the caller removes."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    logger.addHandler(handler)
    logger.setLevel(min(level, logger.level or level))
    return handler
