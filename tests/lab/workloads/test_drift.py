"""Workloads that drift: where messages are, interval by interval, and what is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.errors import InvalidValue
from nearcast_lab.workloads.drift import Drift, Drifting
from nearcast_lab.workloads.stream import EventStream
from nearcast_lab.workloads.sts_arrays import StsArrays

CALM, INTERVAL = 500, 2000


def drifting(drift: Drift) -> Drifting:
    return Drifting(drift, seed=3, subscriptions=200, calm=CALM, interval=INTERVAL)


def test_a_festival_is_in_one_city_after_another() -> None:
    """Three in ten messages of an interval are close together, elsewhere in the next."""
    calm, busy = drifting("regions"), drifting("festival")
    end = CALM + 2 * INTERVAL
    usual, found = (made.messages(0, end).boxes[:, :2] for made in (calm, busy))
    moved = (usual != found).any(axis=1)
    assert not moved[:CALM].any()
    centres = []
    for first in (CALM, CALM + INTERVAL):
        visitors = found[first : first + INTERVAL][moved[first : first + INTERVAL]]
        assert 0.25 < len(visitors) / INTERVAL < 0.35
        centres.append(np.median(visitors, axis=0))
        assert (np.abs(visitors - centres[-1]) < (3.0, 1.5)).all()
    assert np.abs(centres[0] - centres[1]).max() > 0.5
    assert (calm.messages(0, 9).terms == busy.messages(0, 9).terms).all()


def test_subscriptions_are_those_of_the_paper() -> None:
    """Q3 with a switch of regions after every population; some ask for either of their terms."""
    made = drifting("regions")
    conjuncts = StsArrays.named("sts-q3", 3, switch_every=200).conjuncts(0, 600)
    found = made.subscriptions(0, 600)
    assert found.either is not None
    rows = np.where(found.either, np.diff(found.starts), 1)
    assert rows.sum() == len(conjuncts)
    assert (found.boxes[conjuncts.owners] == conjuncts.boxes).all()
    table = EventStream(subscriptions=200, workload=made).table(0, 200)
    queries = table["query"].to_pylist()
    several = np.diff(found.starts[:201]) > 1
    asked = [" OR " in query for query in queries]
    assert asked == (found.either[:200] & several).tolist()
    assert 20 < sum(asked) < 180
    with pytest.raises(InvalidValue, match="drift: 'x' given; expected one of regions, festival"):
        Drifting("x", seed=1, subscriptions=1, calm=0, interval=1)  # type: ignore[arg-type]  # on purpose
