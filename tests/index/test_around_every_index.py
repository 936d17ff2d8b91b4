"""What holds for every index besides its answers: rows, files, threads, memory."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any_index import (
    CASES,
    Conjuncts,
    Kept,
    Sent,
    every_index,
    filled,
    new_index,
    random_messages,
    random_region,
    random_terms,
)
from nearcast.errors import NearcastError
from nearcast.geo import Box, Region
from nearcast.index import INDEXES, Batch, Table, match


@every_index
def test_built_at_once_or_filled_row_by_row_is_the_same(name: str, options: dict[str, Any]) -> None:
    """`build` takes the place of every insertion and deletion before it."""
    kept, messages = filled(name, options, 400), random_messages(60)
    expected = kept.expected(messages)
    assert len(expected) > 20
    assert kept.answer(messages) == expected
    kept.index.build()
    assert kept.answer(messages) == expected
    kept.index = new_index(name, options, kept.table)
    kept.index.build()
    assert kept.answer(messages) == expected
    kept.remove(list(kept.truth)[::2])
    assert kept.answer(messages) == kept.expected(messages)


@every_index
def test_a_box_that_moves_is_found_where_it_is(name: str, options: dict[str, Any]) -> None:
    """After a small step and after a large one, and no longer where it was."""
    kept = Kept(name, options)
    kept.add(1, [([1, 2], []), ([3], [])], Box(1.0, 1.0, 2.0, 2.0))
    kept.add(2, [([3], [])], Box(-50.0, -50.0, 50.0, 50.0))
    kept.index.build()
    places = [(1.05, 1.5), (2.05, 1.5), (101.5, 41.5), (1.5, 1.5)]
    messages = [Sent(frozenset(terms), place) for terms in ([1, 2], [3]) for place in places]
    for west, south in ((1.1, 1.0), (101.0, 41.0), (101.2, 41.1), (1.0, 1.0)):
        kept.move(1, Box(west, south, west + 1.0, south + 1.0))
        expected = kept.expected(messages)
        assert any(owner == 1 for _, owner in expected)
        assert kept.answer(messages) == expected


@every_index
def test_threads_change_nothing(name: str, options: dict[str, Any]) -> None:
    """Messages spread over threads, and calls from several threads at once, get equal answers."""
    kept, messages = filled(name, options, 400), random_messages(60)
    expected = kept.expected(messages)
    assert kept.answer(messages, 2) == expected
    assert kept.answer(messages, 3) == expected
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: kept.answer(messages), range(8)))
    assert answers == [expected] * 8


@every_index
def test_inputs_are_not_changed(name: str, options: dict[str, Any]) -> None:
    """An index reads what it is given, and leaves rows, batches and the table as they are."""
    kept, messages = filled(name, options, 200), random_messages(20)
    batch, _ = kept.batch(messages)

    def state() -> list[bytes]:
        arrays = (*batch, *kept.table.rows, kept.table.frequency)
        return [np.ascontiguousarray(array).tobytes() for array in arrays]

    before = state()
    match(kept.index, batch)
    match(kept.index, batch, 2)
    kept.index.build()
    assert state() == before
    rows = kept.table.live_rows()[:50]
    given = rows.copy()
    kept.index.move(rows)
    assert rows.tolist() == given.tolist()
    assert state() == before
    kept.index.delete(rows)
    assert rows.tolist() == given.tolist()
    assert state() == before
    new = kept.table.add(9999, [([1], []), ([2], [])], Box(0, 0, 1, 1))
    before, given = state(), new.copy()
    kept.index.insert(new)
    assert new.tolist() == given.tolist()
    assert state() == before


_CHILD = """
import json, pickle, sys
from pathlib import Path
import numpy as np
from nearcast.index import INDEXES, match

answers = []
for name, folder, table, batch, doomed in pickle.loads(Path(sys.argv[1]).read_bytes()):
    index = INDEXES[name].load(Path(folder), table)
    pairs = []
    for round in range(2):
        found = match(index, batch)
        pairs.append(sorted(zip(found.messages.tolist(), found.owners.tolist())))
        freed = index.delete(doomed)
        table.remove(doomed)
        table.release(freed)
    answers.append(pairs)
print(json.dumps(answers))
"""


def test_another_process_loads_what_was_saved(tmp_path: Path) -> None:
    """A saved index gives equal answers in another process, and goes on from there."""
    jobs, expected = [], []
    for number, case in enumerate(CASES):
        name, options = case.values
        assert isinstance(name, str)
        assert isinstance(options, dict)
        kept, messages = filled(name, options, 150), random_messages(30)
        messages = [sent for sent in messages if len(sent.boxes()) == 1]
        batch, _ = kept.batch(messages)
        leaving = list(kept.truth)[::3]
        doomed = np.concatenate([kept.rows[owner] for owner in leaving])
        kept.index.save(tmp_path / str(number))
        jobs.append((name, str(tmp_path / str(number)), kept.table, batch, doomed))
        first = sorted(kept.expected(messages))
        second = [pair for pair in first if pair[1] not in leaving]
        assert first != second
        expected.append([[list(pair) for pair in first], [list(pair) for pair in second]])
    (tmp_path / "jobs").write_bytes(pickle.dumps(jobs))
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "jobs")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for case, got, wanted in zip(CASES, json.loads(done.stdout), expected, strict=True):
        assert got == wanted, case.id


@every_index
def test_files_of_another_kind_are_refused(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Loading says what is wrong with a folder that holds something else."""
    (tmp_path / "about.json").write_text('{"kind": "cheese", "version": 1}')
    with pytest.raises(NearcastError, match="cheese"):
        INDEXES[name].load(tmp_path, Table())
    new_index(name, options, Table()).save(tmp_path / "index")
    loaded = INDEXES[name].load(tmp_path / "index", Table())
    nothing = Batch(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty((0, 4)))
    assert len(match(loaded, nothing).owners) == 0


@every_index
def test_numbers_of_rows_are_given_back_and_used_again(name: str, options: dict[str, Any]) -> None:
    """Under constant replacement rows are reused without a trace, and memory stays bounded."""
    random = np.random.default_rng(5)
    count, messages = 300, random_messages(10)

    def subscription() -> tuple[Conjuncts, Region]:
        return [(random_terms(random, 3), [])], random_region(random)

    kept = Kept(name, options)
    kept.table.ensure_terms(300)
    for owner in range(count):
        kept.add(owner, *subscription())
    fresh = new_index(name, options, kept.table)
    fresh.build()
    sizes = fresh.stats()["bytes"], kept.index.stats()["bytes"]
    rows = len(kept.table)
    for _ in range(10):
        for first, last in pairwise(range(0, count + 1, 50)):
            kept.remove(list(range(first, last)))
            kept.answer(messages)
            for owner in range(first, last):
                kept.add(owner, *subscription())
    assert kept.answer(messages) == kept.expected(messages)
    assert kept.index.stats()["bytes"] <= 3 * max(sizes)
    assert len(kept.table) <= 3 * rows
    kept.remove(list(kept.truth))
    assert kept.answer(messages) == set()


@every_index
def test_messages_of_any_length_and_answers_of_any_size_fit(
    name: str, options: dict[str, Any]
) -> None:
    """A message of 100,000 terms, one without terms, and one that every row wants."""
    kept, many = Kept(name, options), 100_000
    kept.table.ensure_terms(many)
    count = 3000
    starts = np.arange(0, 2 * count + 1, 2, dtype=np.int64)
    terms = (np.arange(2 * count) * 31 % many).astype(np.int32)
    boxes = np.tile([-0.1, -0.1, 0.1, 0.1], (count, 1))
    boxes[0] = (-180.0, -90.0, 0.0, 0.0)
    boxes[1] = (0.0, 0.0, 180.0, 90.0)
    kept.table.add_boxes(np.arange(count, dtype=np.int32), boxes, starts, terms)
    kept.index.build()
    everything, nothing = np.arange(many, dtype=np.int32), np.empty(0, np.int32)
    lengths = np.cumsum([0, 0, many, 2, many])
    found = match(
        kept.index,
        Batch(
            lengths.astype(np.int64),
            np.concatenate((nothing, everything, terms[-2:], everything)),
            np.zeros((4, 4)),
        ),
    )
    assert np.bincount(found.messages, minlength=4).tolist() == [0, count, 1, count]
    assert sorted(found.owners[found.messages == 3].tolist()) == list(range(count))
