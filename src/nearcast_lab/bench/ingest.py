"""How fast messages are read, validated and analysed, and whether memory stays flat."""

from __future__ import annotations

import gc
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import TypedDict

from nearcast.errors import InvalidValue
from nearcast.events import Message, Publish, open_log, open_writer
from nearcast.text import DEFAULT
from nearcast_lab.bench.processes import resident_mib

_SEED = 7
_VOCABULARY = 50_000


class IngestReport(TypedDict):
    """What was measured."""

    messages: int
    words_per_message: float
    log_bytes: int
    cpu_s: float
    messages_per_cpu_s: float
    mebibytes_per_cpu_s: float
    peak_memory_mib_first_tenth: float
    peak_memory_mib: float


def _write_log(path: Path, messages: int, words: int) -> None:
    random = Random(_SEED)  # noqa: S311 - a benchmark wants the same words every time
    syllables = [c + v for c in "bcdfghklmnprstvz" for v in "aeiou"]
    vocabulary = ["".join(random.choices(syllables, k=3)) for _ in range(_VOCABULARY)]
    with open_writer(path) as writer:
        for number in range(messages):
            text = " ".join(random.choices(vocabulary, k=words)).capitalize()
            point = (random.uniform(-180, 180), random.uniform(-90, 90))
            writer.write(Publish(Message(f"m{number}", text, point, at=number * 0.001)))


def _measure(path: Path) -> IngestReport:
    size = path.stat().st_size
    messages = terms = 0
    peak = first_tenth = resident_mib()
    gc.collect()
    started = process_time()
    with open_log(path) as log:
        for record in log:
            if record.event is None:
                raise InvalidValue("log", str(record.error), "a log without bad events")
            if isinstance(record.event, Publish):
                messages += 1
                terms += len(DEFAULT.terms(record.event.message.text))
            if record.position % 20_000 == 0:
                peak = max(peak, resident_mib())
                if (log.progress or 0) <= 0.1:
                    first_tenth = peak
    seconds = process_time() - started
    return IngestReport(
        messages=messages,
        words_per_message=terms / max(1, messages),
        log_bytes=size,
        cpu_s=seconds,
        messages_per_cpu_s=messages / seconds,
        mebibytes_per_cpu_s=size / 2**20 / seconds,
        peak_memory_mib_first_tenth=first_tenth,
        peak_memory_mib=max(peak, resident_mib()),
    )


def measure_ingest(*, messages: int, words: int, path: str | None = None) -> IngestReport:
    """Read a log of messages, made up unless one is given, and report rate and memory."""
    if path is not None:
        return _measure(Path(path))
    with TemporaryDirectory() as folder:
        made_up = Path(folder) / "messages.jsonl"
        _write_log(made_up, messages, words)
        return _measure(made_up)
