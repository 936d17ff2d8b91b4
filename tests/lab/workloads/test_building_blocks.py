"""Words, Zipf ranks, random streams and places, each on its own."""

from __future__ import annotations

from importlib.resources import files
from math import cos, radians, sqrt

import numpy as np
import pytest

from inside import from_python
from nearcast.text import DEFAULT, ENGLISH_STOP_WORDS
from nearcast_lab.workloads.corpus import Ragged, distinct_terms, picked_terms
from nearcast_lab.workloads.draws import BELL_REACH, Draws, mixed
from nearcast_lab.workloads.space import SPACES, Cities, boxes_around, cosine, square_boxes
from nearcast_lab.workloads.words import Words, word, words_of
from nearcast_lab.workloads.zipf import cumulative_weights, ranks_of

MANY = np.arange(100_000, dtype=np.int64)


def split_mix(key: int, place: int) -> int:
    """Hash by SplitMix64, in plain integers."""
    z = (key + place * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def test_numbers_are_hashes_of_their_position() -> None:
    """Bits, and the numbers made of them, are those of SplitMix64; kernels agree with arrays."""
    draws = Draws(1, "name")
    places = [0, 1, 77, 2**40]
    expected = [split_mix(int(draws.key), place) for place in places]
    assert draws.bits(np.array(places)).tolist() == expected
    assert draws.uniform(np.array(places)).tolist() == [(bits >> 11) / 2**53 for bits in expected]
    assert int(from_python(mixed)(draws.key)) == expected[0]


def test_streams_are_uniform_and_independent() -> None:
    """Positions, names and seeds give uncorrelated numbers, spread evenly over [0, 1)."""
    first = Draws(1, "a").uniform(MANY)
    rows = [first, Draws(1, "b").uniform(MANY), Draws(2, "a").uniform(MANY), np.roll(first, 1)]
    correlation = np.corrcoef(rows) - np.eye(4)
    assert np.abs(correlation).max() < 0.015
    counts = np.bincount((first * 50).astype(np.int64), minlength=50)
    assert np.abs(counts - 2000).max() < 6 * sqrt(2000)


def test_integers_reach_both_ends() -> None:
    """Both limits of a range of whole numbers are drawn, and nothing beyond them."""
    assert np.unique(Draws(1, "a").integers(MANY, 3, 6)).tolist() == [3, 4, 5, 6]


def test_bell_has_mean_0_and_deviation_1() -> None:
    """The bell is centred, of unit deviation, and ends at its reach."""
    bell = Draws(1, "a").bell(MANY)
    assert abs(bell.mean()) < 0.02
    assert abs(bell.std() - 1) < 0.02
    assert 3 < np.abs(bell).max() <= BELL_REACH


def test_words_are_different_however_many_there_are() -> None:
    """No two terms share a word: of the list, of two parts, of three, and where these begin."""
    terms = np.concatenate((np.arange(40_000), np.arange(1_790_000, 1_900_000), MANY + 10**9))
    words = words_of(terms).tolist()
    assert len(set(words)) == len(words)
    assert all(text.isascii() and text.isalpha() and text.islower() for text in words)
    assert not ENGLISH_STOP_WORDS.intersection(words)


def test_frequent_words_are_those_that_people_try_first() -> None:
    """The queries of the documentation have words that are among the most frequent ones."""
    first = set(words_of(MANY[:30]).tolist())
    assert first >= {"sale", "discount", "ipad", "coffee", "jazz", "blues", "pizza", "traffic"}


def test_a_word_is_its_own_term() -> None:
    """The analyser leaves words as they are, so different terms stay different."""
    for text in words_of(MANY[:20_000]).tolist():
        assert DEFAULT.tokens(text) == [text]


def test_words_can_be_taken_apart_in_one_way_only() -> None:
    """What precedes another word is no beginning of any other word of the list."""
    known = files("nearcast_lab.workloads").joinpath("words.txt").read_text("ascii").split()
    assert len(set(known)) == len(known)
    pairs = words_of(len(known) + MANY).tolist()
    short = {text for text in known if len(text) <= 5}
    heads = {text for text in short if sum(other.startswith(text) for other in known) == 1}
    for pair in pairs:
        ways = [cut for cut in range(1, len(pair)) if pair[:cut] in heads]
        assert len(ways) == 1
        assert pair[ways[0] :] in short


def test_phrases_follow_the_offsets() -> None:
    """Each row of terms becomes the words of just that row."""
    words = Words(100)
    phrases = words.phrases(np.array([5, 9, 5]), np.array([0, 2, 2, 3]))
    assert phrases == [f"{word(5)} {word(9)}", "", word(5)]


@pytest.mark.parametrize(("exponent", "shift"), [(1.0, 0.0), (1.5, 0.0), (1.0, 20.0)])
def test_ranks_follow_zipf(exponent: float, shift: float) -> None:
    """The first ranks appear as often as the law says."""
    weights = cumulative_weights(1000, exponent, shift)
    ranks = ranks_of(weights, Draws(1, "a").uniform(MANY))
    counts = np.bincount(ranks, minlength=1000)
    law = np.array([(rank + 1 + shift) ** -exponent for rank in range(1000)])
    expected = len(MANY) * law / law.sum()
    assert np.abs(counts[:20] - expected[:20]).max() < 6 * sqrt(expected[0])


def test_ranks_stay_inside_at_the_upper_end() -> None:
    """The largest number below 1 still gives a rank that exists."""
    weights = cumulative_weights(7)
    assert ranks_of(weights, np.array([np.nextafter(1.0, 0.0), 0.0])).tolist() == [6, 0]


def test_terms_of_a_row_are_distinct_even_when_all_are_taken() -> None:
    """A row may ask for the whole vocabulary, however skewed, and gets each term once."""
    lengths = np.array([8, 1, 8])
    rows = distinct_terms(1, "a", np.arange(3), lengths, cumulative_weights(8, 3.0))
    assert rows.offsets.tolist() == [0, 8, 9, 17]
    assert sorted(rows.values[:8].tolist()) == sorted(rows.values[9:].tolist()) == list(range(8))


def test_picking_takes_each_place_alike() -> None:
    """Picks are distinct members of the row, all members are picked alike, input is not changed."""
    count = 6000
    values = np.tile(np.arange(5), count)
    rows = Ragged(values, np.arange(0, 5 * count + 1, 5))
    picked = picked_terms(1, "a", np.arange(count), rows, np.full(count, 2))
    pairs = picked.values.reshape(count, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    counts = np.bincount(picked.values, minlength=5)
    assert np.abs(counts - 2 * count / 5).max() < 6 * sqrt(2 * count / 5)
    assert (values == np.tile(np.arange(5), count)).all()


def test_picking_takes_no_more_than_there_is() -> None:
    """A row shorter than requested is taken whole."""
    rows = Ragged(np.array([4, 7]), np.array([0, 2]))
    picked = picked_terms(1, "a", np.array([0]), rows, np.array([5]))
    assert sorted(picked.values.tolist()) == [4, 7]


def test_cosine_agrees_with_the_library() -> None:
    """The series is right to 1e-9 on the whole range of latitudes."""
    degrees = np.linspace(-90, 90, 181)
    expected = [cos(radians(value)) for value in degrees.tolist()]
    assert np.abs(cosine(degrees) - expected).max() < 1e-9


@pytest.mark.parametrize("name", SPACES)
def test_points_lie_in_their_space_and_cluster(name: str) -> None:
    """Points stay inside the space, and half of them share a small part of it."""
    space = SPACES[name]
    points = Cities(1, space, 50, 0.1).points(MANY[:20_000])
    assert (points >= (space.west - 1e-6, space.south - 1e-6)).all()
    assert (points <= (space.east + 1e-6, space.north + 1e-6)).all()
    share = (points - (space.west, space.south)) / (space.width, space.height)
    cells = np.minimum((share * 40).astype(np.int64), 39) @ (40, 1)
    counts = np.sort(np.bincount(cells, minlength=1600))[::-1]
    assert counts[:160].sum() > 10_000
    assert (counts > 0).sum() > 500  # the countryside is not empty


def test_boxes_are_clipped_to_the_world() -> None:
    """A box over the edge of the world ends there."""
    boxes = boxes_around(np.array([[179.0, 89.0], [0.0, 0.0]]), np.full(2, 4.0), np.full(2, 4.0))
    assert boxes.tolist() == [[177.0, 87.0, 180.0, 90.0], [-2.0, -2.0, 2.0, 2.0]]


def test_squares_are_square_on_the_ground() -> None:
    """A square of 100 km at 60 degrees north is twice as wide in degrees as it is high."""
    ((west, south, east, north),) = square_boxes(
        np.array([[10.0, 60.0]]), np.array([100.0])
    ).tolist()
    assert east - west == pytest.approx(2 * (north - south), rel=1e-4)
    assert north - south == pytest.approx(100 / 111.195, rel=1e-4)
