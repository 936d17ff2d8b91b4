"""The `sts` workloads as arrays are the ones of the logs."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.errors import InvalidValue
from nearcast_lab.workloads.registry import generate
from nearcast_lab.workloads.sts_arrays import STS_WORKLOADS, StsArrays
from nearcast_lab.workloads.words import Words

OPTIONS = {"vocabulary": 2000, "cities": 7}


@pytest.mark.parametrize("name", sorted(STS_WORKLOADS))
def test_arrays_say_what_the_log_says(name: str) -> None:
    """The same boxes, terms and conjuncts for each subscription; the same messages."""
    events = list(generate(name, subscriptions=300, messages=200, seed=4, **OPTIONS))
    arrays = StsArrays.named(name, 4, **OPTIONS)
    words = Words(2000)

    def word(term: int) -> str:
        return words.phrases(np.array([term]), np.array([0, 1]))[0]

    conjuncts = arrays.conjuncts(0, 300)
    found: list[tuple[list[float], list[str]]] = [([], []) for _ in range(300)]
    for row in range(len(conjuncts)):
        box, queries = found[conjuncts.owners[row]]
        box[:] = conjuncts.boxes[row].tolist()
        terms = conjuncts.terms[conjuncts.starts[row] : conjuncts.starts[row + 1]]
        queries.append(" AND ".join(map(word, terms)))
    for event, (box, queries) in zip(events[:300], found, strict=True):
        assert event["region"]["bbox"] == box
        assert event["query"] == " OR ".join(queries)
    messages = arrays.messages(0, 200)
    published = [event for event in events if event["op"] == "publish"]
    for number, event in enumerate(published):
        assert (
            event["point"]
            == messages.boxes[number, :2].tolist()
            == messages.boxes[number, 2:].tolist()
        )
        terms = messages.terms[messages.starts[number] : messages.starts[number + 1]]
        assert event["text"].split() == [word(term) for term in terms]


def test_any_part_can_be_made_on_its_own() -> None:
    """Owners are numbered from the first of a part; rows are those of the whole."""
    arrays = StsArrays.named("sts-q2", 1, **OPTIONS)
    all_of_it, part = arrays.conjuncts(0, 100), arrays.conjuncts(40, 100)
    rows = all_of_it.owners >= 40
    assert (all_of_it.boxes[rows] == part.boxes).all()
    assert (all_of_it.owners[rows] - 40 == part.owners).all()
    assert len(arrays.conjuncts(5, 5)) == 0
    assert len(arrays.messages(5, 5)) == 0


def test_an_unknown_name_is_refused() -> None:
    """The error lists what there is."""
    with pytest.raises(InvalidValue, match="workload: 'tweets' given; expected one of sts-q1"):
        StsArrays.named("tweets", 1)
