"""Files of every version that was ever released open, and mean what they meant.

`tests/golden/store-1.nearcast` was written by the first release that had durable engines,
`store-2.nearcast` by the first that kept webhooks in it, and `store-3.nearcast` by the first with
properties, filters, ends of subscriptions and retraction. They are never written again; later
versions get a file of their own beside them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nearcast import (
    Box,
    Circle,
    Engine,
    Message,
    MultiPolygon,
    Polygon,
    Result,
    Subscription,
    Top,
    Update,
)
from nearcast.engine import Entry
from nearcast.store.webhooks import DeadLetter, Webhook

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", ["store-1.nearcast", "store-2.nearcast"])
def test_an_old_file_opens_and_goes_on(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    shutil.copy(GOLDEN / name, path)
    with Engine(index="rarest-term", path=path) as engine:
        assert engine.settings.window.count == 3
        assert engine.settings.space == Box(-10, -10, 10, 10)
        assert engine.settings.analyser.stop_words == {"the"}
        assert engine.settings.history is not None
        assert engine.settings.history.documents == 2
        assert engine.page() == [
            Subscription("best", "jazz blues", point=(0.0, 0.0), top=Top(2, 0.25)),
            Subscription("box", "jazz NOT blues", Box(0, 0, 1, 1)),
            Subscription("circle", "jazz", Circle((0.0, 0.0), 2000.0)),
            Subscription("\u00e9toile \u2606", "caf\u00e9", Polygon([TRIANGLE])),
        ]
        assert engine.results("circle") == [Result("lasts")]
        assert engine.results("\u00e9toile \u2606") == [Result("range")]
        assert engine.results("best") == [
            Result("m4", 0.6023019132978316),
            Result("lasts", 0.5529931868847161),
        ]
        assert engine.message("range") == Message(
            "range", "the Caf\u00e9", region=Box(0, 0, 0.25, 0.25), at=20.0, ttl=1000.0
        )
        assert engine.message("m1") is None
        assert (engine.log.first, engine.log.last) == (1, 10)
        assert engine.log.read(8, 10) == [
            Entry(9, 12, 30.0, "remove", "best", "m1", None),
            Entry(10, 12, 30.0, "add", "best", "m4", 0.6023019132978316),
        ]
        assert engine.recall("key") == b"answer" or engine.recall("key") is None  # after a day
        later = engine.publish("later", "jazz", (0.5, 0.5), at=31.0)
        assert later == [
            Update("remove", "best", "lasts"),
            Update("add", "best", "later", later[1].score),
            Update("add", "box", "later"),
        ]


def test_webhooks_of_an_old_file(tmp_path: Path) -> None:
    path = tmp_path / "store-2.nearcast"
    shutil.copy(GOLDEN / path.name, path)
    with Engine(index="scan", path=path) as engine:
        hook = Webhook("box", "https://example.org/hook", "whsec_" + "A" * 32, 9)
        assert engine.webhooks.all() == [hook]
        letter = DeadLetter(1, "box", 9, b'{"type":"update.add"}', "answered 500", 1.7e9)
        assert engine.webhooks.letters(0, 10) == [letter]
        engine.unsubscribe("box")
        assert engine.webhooks.all() == []
        assert engine.webhooks.letters(0, 10) == [letter]


@pytest.mark.parametrize("index", ["scan", "rarest-term"])
def test_a_file_of_version_3_opens_and_goes_on(index: str, tmp_path: Path) -> None:
    path = tmp_path / "store-3.nearcast"
    shutil.copy(GOLDEN / path.name, path)
    with Engine(index=index, path=path) as engine:
        assert engine.settings.analyser.cjk
        top = Top(2, 0.25, scale=200_000.0, min_score=0.1)
        circle, asked = Circle((0.0, 0.0), 500_000.0), "NOT price:[6 TO 9] *"
        parts = MultiPolygon([[TRIANGLE], [[(2.0, 2.0), (3.0, 2.0), (2.0, 3.0), (2.0, 2.0)]]])
        said = {"meta": {"who": ["x", 1.5]}, "ops": ("add", "change")}
        assert engine.page() == [
            Subscription("anywhere", 'price:<5 "red wine" OR caf*', **said),  # type: ignore[arg-type]
            Subscription("best", "jazz blues", circle, (0.0, 0.0), top, asked),
            Subscription("box", "jazz NOT blues", Box(0, 0, 1, 1), ttl=1000.0),
            Subscription("fence", None, parts, ttl=2000.0),
            Subscription("plain", "jazz", Box(0, 0, 1, 1)),
        ]
        best = [Result("moving", 0.9508583309237315), Result("lasts", 0.6556342410293858)]
        assert {each.id: engine.results(each.id) for each in engine.page()} == {
            "anywhere": [Result("area")],
            "best": best,
            "box": [Result("lasts")],
            "fence": [Result("lasts"), Result("area"), Result("moving")],
            "plain": [Result("lasts"), Result("moving")],
        }
        price, tags = {"price": 4, "tags": ["x", None]}, {"deep": {"a": 2**60}}
        area, text = Polygon([TRIANGLE]), "the Caf\u00e9 \u6771\u4eac\u99c5"
        kept = [
            Message("lasts", "jazz", (0.2, 0.2), None, 11.0, 500.0, price),
            Message("area", text, None, area, 12.0, 500.0, tags),
            Message("moving", "jazz blues", (0.25, 0.25), None, 20.0, 600.0, {"price": 1.5}),
        ]
        assert [engine.message(each.id) for each in kept] == kept
        assert engine.message("gone") is None
        assert engine.message("short") is None
        assert engine.log.read(23, 10) == [
            Entry(24, 15, 20.0, "change", "best", "moving", 0.9508583309237315),
            Entry(25, 15, 20.0, "change", "fence", "moving", None),
            Entry(26, 15, 20.0, "change", "plain", "moving", None),
        ]
        assert [hook.subscription for hook in engine.webhooks.all()] == ["box"]
        assert engine.publish("m", "jazz", (0.5, 0.5), at=511.0) == [
            Update("remove", "best", "lasts"),
            Update("add", "best", "m", 0.5966647283946833),
            Update("add", "box", "m"),
            Update("add", "fence", "m"),
            Update("add", "plain", "m"),
        ]
        engine.publish("late", "jazz", (0.5, 0.5), at=1010.0)
        assert [each.id for each in engine.page()] == ["anywhere", "best", "fence", "plain"]


TRIANGLE = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
