"""`nearcast replay`: an event log in, one line per update out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli import options
from nearcast.cli.http_replay import PREFIX, replay_over_http
from nearcast.cli.progress import progress_of
from nearcast.cli.remote import KeyFileOption, KeyOption, WaitOption, chosen_key
from nearcast.cli.spark_replay import Chosen, check_partitioner, replay_on_spark
from nearcast.engine import (
    RANKING_NAMES,
    Engine,
    Quarantine,
    check_index,
    history_from,
    replay,
    stop_at,
    update_line,
)
from nearcast.engine.replay import Refusal
from nearcast.errors import InvalidValue
from nearcast.events import open_log
from nearcast.events.bodies import read_include
from nearcast.events.streams import STANDARD, open_sink, same_file
from nearcast.geo import WORLD

_ENGINES = ("embedded", "spark", "scan")
_QUARANTINE = "quarantine="


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("replay")(replay_command)


def replay_command(
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="The event log; - is standard input.")
    ],
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="What does the matching: embedded, spark, scan or http=URL."
        ),
    ] = "embedded",
    index: options.IndexOption = "auto",
    ranking: Annotated[
        str,
        typer.Option(metavar="NAME", help="What ranks for the embedded engine: auto or skype."),
    ] = "auto",
    workers: options.WorkersOption = None,
    partitioner: options.PartitionerOption = "auto",
    history: options.HistoryOption = None,
    window_count: options.WindowCountOption = None,
    window_seconds: options.WindowSecondsOption = None,
    space: options.SpaceOption = None,
    on_error: Annotated[
        str,
        typer.Option(
            metavar="stop|quarantine=FILE", help="Stop at a bad event, or set it aside in FILE."
        ),
    ] = "stop",
    include: options.IncludeOption = "",
    output: Annotated[
        str, typer.Option(metavar="FILE", help="Where the updates go; - is standard output.")
    ] = "-",
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    cjk: options.CjkOption = False,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
) -> None:
    r"""Run an event log through an engine and write one JSON line per update.

    The log is JSON Lines or Parquet, plain, gzip or zstd. An update names the event that caused
    it by its 0-based position in the log. With --include message an update that adds or changes a
    message has it as its body; with meta every update has that of its subscription.

    [bold]Example[/bold]

      nearcast sample --output sample.jsonl

      nearcast replay sample.jsonl --output updates.jsonl

      nearcast replay sample.jsonl --include message,meta

    On Spark it is matched and ranked by several workers of this machine.

      nearcast replay sample.jsonl --engine spark --workers 2 --on-error quarantine=aside.jsonl

    Over HTTP the log is added to what a running server already has.

      nearcast replay sample.jsonl --engine http=http://127.0.0.1:8080
    """
    over_http = engine.startswith(PREFIX)
    if engine not in _ENGINES and not over_http:
        raise InvalidValue("--engine", engine, f"one of {', '.join(_ENGINES)} or http=URL")
    if over_http:
        ranked = (history, window_count, window_seconds, space)
        if any((index != "auto", *ranked, stem, stop_words, cjk)):
            raise InvalidValue(
                "--engine", engine, "no settings beside it: the server has its own from its start"
            )
    check_index(index, "--index")
    if ranking not in RANKING_NAMES:
        raise InvalidValue("--ranking", ranking, f"one of {', '.join(RANKING_NAMES)}")
    if ranking != "auto" and (engine != "embedded" or index == "scan"):
        raise InvalidValue("--ranking", ranking, "auto, or an embedded engine with an index")
    options.check_window(window_count, window_seconds)
    if engine != "spark" and (workers is not None or partitioner != "auto"):
        raise InvalidValue("--engine", engine, "spark, as --workers or --partitioner is given")
    included = read_include(include, "--include")
    _keep_apart(events, history, output, on_error)
    analyser = options.analyser(stem, stop_words, cjk)
    matcher = Engine(
        index=index if engine == "embedded" else "scan",
        ranking=ranking,
        window_count=window_count,
        window_seconds=window_seconds,
        space=WORLD if space is None else options.box(space, "--space"),
        history=None if history is None else history_from(history, analyser),
        analyser=analyser,
    )
    if engine == "spark":
        check_partitioner(partitioner)
    with ExitStack() as stack:
        log = stack.enter_context(open_log(events))
        refuse = stack.enter_context(refusal(on_error, log.name))
        sink = stack.enter_context(open_sink(output))
        found = replay(log, matcher, refuse)
        if over_http:
            url = engine.removeprefix(PREFIX)
            found = replay_over_http(
                log,
                url,
                chosen_key(key, key_file),
                wait,
                refuse,
                stop=on_error == "stop",
                include=included,
            )
        if engine == "spark":
            chosen = Chosen(matcher.settings, workers, partitioner, included)
            found = stack.enter_context(replay_on_spark(log, refuse, chosen))
        shown = stack.enter_context(progress_of(log, "replaying"))
        for position, updates in found:
            if updates:
                sink.write(
                    b"".join([update_line(position, update, included) for update in updates])
                )
            shown.step(len(updates))


def _keep_apart(events: str, history: Path | None, output: str, on_error: str) -> None:
    """Refuse to overwrite the input, or to write two streams into one file."""
    taken = {"EVENTS": events} | ({"--history": str(history)} if history else {})
    writes = {"--output": output}
    if on_error.startswith(_QUARANTINE):
        writes["--on-error"] = on_error.removeprefix(_QUARANTINE)
    for option, path in writes.items():
        for other, other_path in taken.items():
            if same_file(path, other_path):
                raise InvalidValue(
                    option, path, f"another file than {other}, which it would overwrite"
                )
        taken[option] = path
    if output == writes.get("--on-error") == STANDARD:
        raise InvalidValue("--on-error", on_error, "a file: the updates go to standard output")


@contextmanager
def refusal(on_error: str, name: str) -> Iterator[Refusal]:
    """Read `--on-error`: stop at a bad event, or set it aside."""
    if on_error == "stop":
        yield stop_at(name)
    elif on_error.startswith(_QUARANTINE) and on_error != _QUARANTINE:
        path = on_error.removeprefix(_QUARANTINE)
        with open_sink(path) as file:
            quarantine = Quarantine(file)
            yield quarantine
        if quarantine.count:
            plural = "event" if quarantine.count == 1 else "events"
            sys.stderr.write(f"nearcast: {quarantine.count} bad {plural} set aside in {path}\n")
    else:
        raise InvalidValue("--on-error", on_error, "stop or quarantine=FILE")
