"""Event logs as Arrow tables: valid, repeatable, and the same however they are cut."""

import numpy as np
import pytest

from nearcast import Engine
from nearcast.errors import InvalidValue
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.events import event_from_json
from nearcast.events.parquet import table_rows
from nearcast_lab.workloads.stream import EventStream
from nearcast_lab.workloads.sts_arrays import StsArrays


@pytest.fixture(scope="module")
def stream() -> EventStream:
    return EventStream(seed=3, subscriptions=20, vocabulary=500)


def test_every_event_is_valid_and_fits_the_ones_before_it(stream: EventStream) -> None:
    table = stream.table(0, 500)
    table.validate(full=True)
    assert table.schema == EVENT_SCHEMA
    engine = Engine(index="scan")
    for fields in table_rows(table):
        engine.apply(event_from_json(fields))


def test_the_population_comes_first_and_keeps_its_size(stream: EventStream) -> None:
    ops = stream.table(0, 20 + 6 * 40)["op"].to_pylist()
    assert set(ops[:20]) == {"subscribe"}
    assert ops[20:].count("publish") == 5 * 40
    assert ops[20:].count("subscribe") == ops[20:].count("unsubscribe") == 20


def test_an_event_does_not_depend_on_where_the_log_is_cut(stream: EventStream) -> None:
    whole = stream.table(0, 100).to_pylist()
    for cut in (0, 7, 20, 26, 55, 100):
        assert stream.table(0, cut).to_pylist() + stream.table(cut, 100).to_pylist() == whole


def test_another_seed_gives_another_log(stream: EventStream) -> None:
    same = EventStream(seed=3, subscriptions=20, vocabulary=500)
    other = EventStream(seed=4, subscriptions=20, vocabulary=500)
    assert same.table(0, 50).equals(stream.table(0, 50))
    assert not other.table(0, 50).equals(stream.table(0, 50))


@pytest.mark.parametrize("arguments", [{"subscriptions": -1}, {"ratio": 0}])
def test_impossible_sizes_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(InvalidValue, match=f"{next(iter(arguments))}: "):
        EventStream(**arguments)  # type: ignore[arg-type]  # the options of the kind go here too


@pytest.mark.parametrize("kind", ["sts-q1", "sts-q3-local"])
def test_workloads_of_ps2stream_are_streams_too(kind: str) -> None:
    """Subscriptions join their terms as the workload has drawn it, and messages are its own."""
    stream = EventStream(seed=2, subscriptions=60, kind=kind, vocabulary=500)
    table = stream.table(0, 90)
    made = StsArrays.named(kind, 2, vocabulary=500)
    drawn = made.subscriptions(0, 60)
    assert drawn.either is not None
    several = np.diff(drawn.starts) > 1
    queries = table["query"].to_pylist()[:60]
    assert [" OR " in query for query in queries] == (drawn.either & several).tolist()
    assert 5 < sum(drawn.either & several) < 55
    points = [point for point in table["point"].to_pylist() if point]
    assert points == made.messages(0, len(points)).boxes[:, :2].tolist()
