"""Files of every version that was ever released open, and mean what they meant.

`tests/golden/store-1.nearcast` was written by the first release that had durable engines, and
`store-2.nearcast` by the first that kept webhooks in it. They are never written again; later
versions get a file of their own beside them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nearcast import Box, Circle, Engine, Message, Polygon, Result, Subscription, Top, Update
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


TRIANGLE = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
