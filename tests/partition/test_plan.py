"""Plans are checked, survive being saved, and say what is wrong with a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.arrays.slots import FIXED, as_secret
from nearcast.errors import InvalidValue, SourceError
from nearcast.geo import Box
from nearcast.partition import _plan_file
from nearcast.partition.grid import Grid, checked, grid_over
from nearcast.partition.plan import FORMAT_VERSION, MIXED, Plan, TextMap
from nearcast.partition.sample import hashed
from nearcast.text.columns import hash_terms

TERMS = np.sort(hashed(np.arange(6)))
GRID = Grid(0.0, 0.0, 6.0, 5.0, 6, 5)


def made(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "scheme": "text-metric",
        "workers": 3,
        "kind": "grid",
        "grid": GRID,
        "cell_worker": np.repeat([-2, 2, -1, 0, 0], 6),
        "maps": [TextMap(TERMS[:2], [1, 0], [2]), TextMap(TERMS[:0], [], [0, 1])],  # type: ignore[arg-type]
        "order_terms": TERMS,
        "order_counts": np.arange(6) + 1,
        "number": 4,
        "about": {"loads": [1.5, 2, 3], "é": "ü"},
    }
    return Plan(**fields | changes)


def test_a_plan_survives_being_saved(tmp_path: Path) -> None:
    """What is loaded is the same plan, to the last array and note."""
    plan = made()
    plan.save(tmp_path / "plan")
    again = Plan.load(tmp_path / "plan")
    assert again == plan
    assert hash(again) == hash(plan)
    assert (again.scheme, again.workers, again.kind, again.number) == ("text-metric", 3, "grid", 4)
    assert again.grid == GRID
    assert again.about == {"loads": [1.5, 2, 3], "é": "ü"}
    assert again.cell_worker.tolist() == plan.cell_worker.tolist()
    assert [[part.tolist() for part in each] for each in again.maps] == [
        [part.tolist() for part in each] for each in plan.maps
    ]
    assert again.order_terms.tolist() == TERMS.tolist()
    assert again.order_counts.tolist() == [1, 2, 3, 4, 5, 6]
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_a_plan_with_letters_divides_text_the_same_for_a_pipeline_with_a_secret() -> None:
    """Each term has the worker and the count that it was planned with, by its other hash."""
    words = [f"word{n}" for n in range(300)] + ["größe", "東京"]
    plain, secret = hash_terms(words), as_secret(b"sixteen letters.")
    order, half = np.argsort(plain), np.sort(plain[:150])
    split = TextMap(half, np.arange(150, dtype=np.int32) % 3, np.array([2], np.int32))
    plan = made(
        maps=[split, TextMap(TERMS[:0], [], [0, 1])],  # type: ignore[arg-type]
        order_terms=plain[order], order_counts=np.arange(302) + 1, letters=words,
    )  # fmt: skip
    assert Plan.from_bytes(plan.to_bytes()) == plan
    again = plan.hashed_with(secret)
    assert again.letters == ()
    fresh = dict(zip(plain.tolist(), hash_terms(words, secret).tolist(), strict=True))
    workers = dict(zip(split.terms.tolist(), split.workers.tolist(), strict=True))
    found = dict(zip(again.maps[0].terms.tolist(), again.maps[0].workers.tolist(), strict=True))
    assert found == {fresh[term]: worker for term, worker in workers.items()}
    counts = dict(zip(again.order_terms.tolist(), again.order_counts.tolist(), strict=True))
    assert counts == {
        fresh[term]: count + 1 for count, term in enumerate(plan.order_terms.tolist())
    }
    assert plan.hashed_with(FIXED) == plan.changed(number=plan.number, letters=())
    assert made().hashed_with(secret) == made()
    with pytest.raises(InvalidValue, match="all terms of the plan; 1 are missing"):
        plan.changed(letters=words[1:])


def test_a_plan_of_the_first_version_has_no_letters() -> None:
    plan = made()
    facts, arrays = plan.described()
    del facts["letters"]
    again = Plan.from_bytes(_plan_file.pack(1, facts, arrays))
    assert again == plan
    assert again.letters == ()


def test_a_change_has_the_next_number() -> None:
    """A changed plan is another one, and the plan it came from stays as it was."""
    plan = made()
    other = plan.changed(cell_worker=np.zeros(30, np.int32))
    assert (plan.number, other.number) == (4, 5)
    assert other != plan
    assert not other.split_cells.any()
    assert plan.split_cells.sum() == 12


def test_blocks_know_whether_their_cells_are_alike() -> None:
    """A block has the code of its cells where they share one, also at the edge of the grid."""
    codes = np.zeros((5, 6), np.int32)
    codes[:4, 4:] = -1
    codes[0, 0] = 2
    assert made(cell_worker=codes.ravel()).arrays.blocks.tolist() == [MIXED, -1, 0, 0]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"workers": 0}, "workers: 0 given; expected a whole number from 1 to 32768"),
        ({"workers": True}, "workers: True given"),
        ({"workers": 2}, r"cell_worker: \[-2, 2\] given; expected workers below 2"),
        ({"kind": "tree"}, "kind: 'tree' given; expected one of grid, hash, shared"),
        ({"scheme": 5}, "scheme: 5 given"),
        ({"number": -1}, "number: -1 given"),
        ({"cell_worker": np.zeros(29)}, r"cell_worker: \(29,\) given; expected one worker for 30"),
        ({"maps": [TextMap(TERMS, np.arange(6) % 3, np.zeros(1))]}, "or -1 - k for one of 1 text"),  # type: ignore[arg-type]
        ({"maps": [TextMap(TERMS[::-1], np.zeros(6), np.zeros(1))] * 2}, r"maps\[0\]: 6 given"),  # type: ignore[arg-type]
        ({"maps": [TextMap(TERMS, np.zeros(5), np.zeros(1))] * 2}, r"maps\[0\]: 6 given"),  # type: ignore[arg-type]
        ({"maps": [TextMap(TERMS, np.full(6, 3), np.zeros(1))] * 2}, r"maps\[0\]: \[3, 3\] given"),  # type: ignore[arg-type]
        ({"maps": [TextMap(TERMS, np.zeros(6), np.array([-1]))] * 2}, r"maps\[0\]: \[-1, -1\] g"),  # type: ignore[arg-type]
        ({"maps": [TextMap(TERMS, np.zeros(6), np.zeros(0))] * 2}, r"maps\[0\].others: \[\] given"),  # type: ignore[arg-type]
        ({"order_terms": TERMS[[0, 0, 1, 2, 3, 4]]}, "order_terms: 6 given; expected sorted"),
        ({"order_counts": np.arange(6)}, "order_counts: 0 given; expected counts of 1 or more"),
        ({"grid": Grid(6.0, 0.0, 0.0, 5.0, 6, 5)}, "expected borders with west < east"),
        ({"grid": Grid(0.0, 0.0, float("nan"), 5.0, 6, 5)}, "expected borders with west < east"),
        ({"grid": Grid(0.0, 0.0, 6.0, 5.0, 0, 5)}, "expected 1 to 16777216 cells"),
    ],
)
def test_an_impossible_plan_is_refused(changes: dict[str, Any], problem: str) -> None:
    """No plan can be made by which a kernel would read what is not there."""
    with pytest.raises(InvalidValue, match=problem):
        made(**changes)


def test_a_missing_or_foreign_file_is_refused_in_words(tmp_path: Path) -> None:
    """Each way of not being a plan is named."""
    with pytest.raises(SourceError, match="none: the plan cannot be read: .*No such file"):
        Plan.load(tmp_path / "none")
    with pytest.raises(SourceError, match="nowhere/plan: the plan cannot be written"):
        made().save(tmp_path / "nowhere" / "plan")
    for content in (b"", b"NEAR", b"PAR1" + bytes(100), b"{}"):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(SourceError, match="other: not a plan; expected a file that"):
            Plan.load(tmp_path / "other")
    later = _plan_file.pack(FORMAT_VERSION + 1, {}, {})
    with pytest.raises(SourceError, match="a plan of version 3, this reads version 2; make a new"):
        Plan.from_bytes(later)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_refused(data: st.DataObject) -> None:
    """A changed byte or a missing end never gives a plan, only an error that names the file."""
    whole = made().to_bytes()
    if data.draw(st.booleans()):
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        at = data.draw(st.integers(0, len(whole) - 1))
        changed = whole[at] ^ data.draw(st.integers(1, 255))
        damaged = whole[:at] + bytes([changed]) + whole[at + 1 :]
    with pytest.raises(SourceError, match="a.plan: "):
        Plan.from_bytes(damaged, "a.plan")


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"scheme": "x", "workers": 1, "kind": "grid", "grid": [0, 0, 1], "number": 1, "about": {}},
        {"scheme": "x", "workers": 1, "kind": "no", "grid": list(GRID), "number": 1, "about": {}},
    ],
)
def test_a_whole_file_with_senseless_facts_is_refused(facts: dict[str, Any]) -> None:
    """A right checksum over wrong content is damage too."""
    arrays = {
        name: np.zeros(count, np.int32)
        for name, count in {"cell_worker": 30, "map_starts": 1, "other_starts": 1}.items()
    } | {name: np.zeros(0, np.uint64) for name in ("map_terms", "order_terms", "others")}
    arrays |= {name: np.zeros(0, np.int64) for name in ("map_workers", "order_counts")}
    with pytest.raises(SourceError, match="plan: damaged"):
        Plan.from_bytes(_plan_file.pack(FORMAT_VERSION, facts, arrays))


def test_grids_fit_their_spaces() -> None:
    """A wide space has more columns; one across the antimeridian, or thin, still has a grid."""
    assert grid_over() == Grid(-180.0, -90.0, 180.0, 90.0, 128, 64)
    assert grid_over(Box(0.0, 0.0, 1.0, 1.0)).columns == 64
    assert grid_over(Box(170.0, 0.0, -170.0, 1.0), 8, 4) == Grid(-180.0, 0.0, 180.0, 1.0, 8, 4)
    assert checked(grid_over(Box(180.0, 90.0, 180.0, 90.0))).cells == 64 * 64
