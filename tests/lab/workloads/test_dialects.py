"""Words that depend on place: messages and subscriptions differ by region, and plans see it."""

import numpy as np
import pytest

from nearcast.partition.grid import Grid
from nearcast.partition.hybrid import DELTA, NODES, hybrid
from nearcast.partition.kdt import whole
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample, rows_of, sample_of
from nearcast.partition.similarity import texts_of
from nearcast_lab.bench.partition import sampled_messages
from nearcast_lab.workloads.registry import generate
from nearcast_lab.workloads.sts_arrays import LOCAL, StsArrays

WORKERS = 8


def sample_and_grid(name: str) -> tuple[Sample, Grid]:
    made = StsArrays.named(name, 1, vocabulary=20_000)
    rows = made.conjuncts(0, 3000)
    sampled = sampled_messages(made.messages(0, 3000))
    placed = rows_of(rows.boxes, rows.starts, rows.terms, rows.owners)
    return sample_of(placed, sampled, operations=600), Grid(*made.space, 64, 32)


@pytest.fixture(scope="module")
def plan() -> Plan:
    sample, grid = sample_and_grid("sts-q1-local")
    return hybrid(sample, WORKERS, grid)


@pytest.mark.parametrize("name", LOCAL)
def test_messages_and_subscriptions_differ_only_where_words_depend_on_place(name: str) -> None:
    for each, alike in ((name, False), (name.removesuffix("-local"), True)):
        sample, grid = sample_and_grid(each)
        assert (texts_of(sample, grid).similarity(whole(grid)) >= DELTA) == alike


def test_the_first_phase_decides_and_leaves_nodes_for_the_second(plan: Plan) -> None:
    """Before, a region whose similarity changed with every cut took all nodes there may be."""
    by_text, by_space = plan.about["nodes_by_text"], plan.about["nodes_by_space"]
    assert by_text > 0
    assert by_space > 0
    assert by_text + by_space <= NODES * WORKERS // 2
    assert plan.about["planned_max_by_min"] < 20


def test_a_message_has_different_terms_in_any_dialect() -> None:
    made = StsArrays.named("sts-q3-local", 3, vocabulary=300)
    batch = made.messages(0, 500)
    for one, end in zip(batch.starts[:-1], batch.starts[1:], strict=True):
        assert len(np.unique(batch.terms[one:end])) == end - one


def test_logs_have_the_same_words_as_arrays() -> None:
    log = list(generate("sts-q1", subscriptions=0, messages=50, seed=1, local=1.0, foreign=0.5))
    made = StsArrays.named("sts-q1", 1, local=1.0, foreign=0.5).messages(0, 50)
    texts = [event["text"].split() for event in log if event["op"] == "publish"]
    assert [len(text) for text in texts] == np.diff(made.starts).tolist()
    words: dict[str, int] = {}
    for text, one, end in zip(texts, made.starts[:-1], made.starts[1:], strict=True):
        for word, term in zip(text, made.terms[one:end].tolist(), strict=True):
            assert words.setdefault(word, term) == term
