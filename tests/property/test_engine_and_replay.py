"""Calling an engine and replaying a log are one thing, in whatever format the log is written."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from event_logs import logs, worlds
from naive import Fields, Given
from nearcast import Engine, NearcastError, Top, Update
from nearcast.cli.main import main
from nearcast.engine import history_from
from nearcast.events import event_from_json, open_writer
from nearcast.geo import WORLD, Box, region_from_json

EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def history_log(world: Given, folder: Path) -> Path | None:
    if world.history is None:
        return None
    path = folder / "history.jsonl"
    lines = [{"op": "publish", "id": "m", "text": text, "point": [0, 0]} for text in world.history]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def engine_of(world: Given, folder: Path) -> Engine:
    history = history_log(world, folder)
    return Engine(
        index="rarest-term",
        window_count=world.count,
        window_seconds=world.seconds,
        space=WORLD if world.space is None else Box(*world.space),
        history=None if history is None else history_from(history),
    )


def options_of(world: Given, folder: Path) -> list[str]:
    options = []
    if world.count is not None:
        options += ["--window-count", str(world.count)]
    if world.seconds is not None:
        options += ["--window-seconds", str(world.seconds)]
    if world.space is not None:
        options += ["--space=" + ",".join(map(str, world.space))]
    if (history := history_log(world, folder)) is not None:
        options += ["--history", str(history)]
    return options


def call(engine: Engine, fields: Fields) -> list[Update]:
    """Do by a method what an event says."""
    id, at, get = fields["id"], fields.get("at"), fields.get
    region: Any = None if get("region") is None else region_from_json(get("region"))
    point: Any = get("point")
    match fields["op"]:
        case "subscribe":
            top = get("top")
            chosen = None if top is None else Top(top.get("k"), top.get("alpha"))
            return engine.subscribe(id, get("query"), region, point=point, top=chosen, at=at)
        case "move":
            return engine.move(id, region, point=point, at=at)
        case "unsubscribe":
            return engine.unsubscribe(id, at=at)
        case "publish":
            ttl: Any = get("ttl")
            return engine.publish(id, get("text"), point, region=region, at=at, ttl=ttl)
    raise NearcastError


def line_of(position: int, update: Update) -> dict[str, Any]:
    fields: dict[str, Any] = {"event": position, "op": update.op}
    fields |= {"subscription": update.subscription, "message": update.message}
    return fields if update.score is None else fields | {"score": update.score}


@EXAMPLES
@given(worlds, logs(), st.sampled_from(["scan", "embedded"]))
def test_methods_and_replay_give_the_same_updates(
    world: Given, log: list[Fields], engine_name: str
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        engine, updates, refused = engine_of(world, folder), [], []
        for position, fields in enumerate(log):
            try:
                updates += [line_of(position, update) for update in call(engine, fields)]
            except NearcastError:
                refused.append(position + 1)
        path, out, aside = folder / "log.jsonl", folder / "out.jsonl", folder / "aside.jsonl"
        path.write_text("\n".join(map(json.dumps, log)))
        arguments = ["replay", str(path), "--engine", engine_name, "--output", str(out)]
        arguments += ["--on-error", f"quarantine={aside}", *options_of(world, folder)]
        assert main(arguments) == 0
        assert [json.loads(line) for line in out.read_text().splitlines()] == updates
        entries = [json.loads(line) for line in aside.read_text().splitlines()]
        assert [entry["line"] for entry in entries] == refused
        assert [entry["event"] for entry in entries] == [log[line - 1] for line in refused]
        event(f"updates: {min(len(updates), 5)}, refused: {min(len(refused), 3)}")


@EXAMPLES
@given(worlds, logs(), st.sampled_from(["log.parquet", "log.jsonl.gz", "log.parquet.zst"]))
def test_the_format_of_a_log_makes_no_difference(
    world: Given, log: list[Fields], other: str
) -> None:
    well_formed = []
    for fields in log:
        try:
            well_formed.append(event_from_json(fields))
        except NearcastError:
            continue
    with TemporaryDirectory() as name:
        folder, answers = Path(name), []
        for log_name in ("log.jsonl", other):
            path, out, aside = folder / log_name, folder / "out", folder / "aside"
            with open_writer(path) as writer:
                for each in well_formed:
                    writer.write(each)
            arguments = ["--output", str(out), "--on-error", f"quarantine={aside}"]
            assert main(["replay", str(path), *arguments, *options_of(world, folder)]) == 0
            lines = [json.loads(line)["line"] for line in aside.read_text().splitlines()]
            answers.append((out.read_bytes(), lines))
        assert answers[0] == answers[1]


@EXAMPLES
@given(worlds, logs())
def test_a_table_of_messages_is_as_many_calls(world: Given, log: list[Fields]) -> None:
    """Up to the first message that is refused: there a table ends, or does not begin."""
    with TemporaryDirectory() as name:
        one, many = engine_of(world, Path(name)), engine_of(world, Path(name))
    messages: list[Fields] = []
    updates = []
    for fields in log:
        try:
            found = call(one, fields)
        except NearcastError:
            continue
        if fields["op"] == "publish":
            updates += [line_of(len(messages), update) for update in found]
            messages.append(fields)
        else:
            if messages:
                assert table_updates(many, messages) == updates
            messages, updates = [], []
            call(many, fields)
    assert not messages or table_updates(many, messages) == updates


def table_updates(engine: Engine, messages: list[Fields]) -> list[dict[str, Any]]:
    columns = {
        key: [m.get(key) for m in messages] for key in ("id", "text", "point", "at", "ttl")
    } | {"region": [None if m.get("region") is None else json.dumps(m["region"]) for m in messages]}
    rows = engine.publish_table(pa.table(columns)).to_pylist()
    return [{key: value for key, value in row.items() if value is not None} for row in rows]
