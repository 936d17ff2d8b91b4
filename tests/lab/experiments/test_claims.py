"""Verdicts follow from predicates: all, some or none of a claim's parts hold."""

import pytest

from nearcast_lab.experiments.claims import at_most, claim_of, falls, rises


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [((True, True), "holds"), ((True, False), "partly"), ((False, False), "fails")],
)
def test_a_verdict_is_computed_from_the_parts(parts: tuple[bool, bool], verdict: str) -> None:
    made = claim_of("1", "is fast", "2 us", dict(zip("ab", parts, strict=True)), "because")
    assert made["verdict"] == verdict
    assert made["why"] == ("" if verdict == "holds" else "because")


def test_predicates_look_at_every_point() -> None:
    assert at_most([1.0, 2.0], [2.0, 3.0], 0.7)
    assert not at_most([1.0, 2.2], [2.0, 3.0], 0.7)
    assert rises([1.0, 1.0, 2.0])
    assert not rises([1.0, 0.95, 2.0])
    assert rises([1.0, 0.95, 2.0], 0.1)
    assert falls([3.0, 3.0, 1.0])
    assert not falls([3.0, 3.1, 1.0])
    assert falls([3.0, 3.1, 1.0], 0.1)
