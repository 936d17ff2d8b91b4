"""Flat hash tables behave as dictionaries do."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast._jit import read_only
from nearcast.arrays.slots import (
    FIXED,
    NOTHING,
    Secret,
    add_to,
    change,
    empty_slots,
    find,
    hash_strings,
    hash_with,
    move_slots,
    put,
    remove,
    secret_words,
    term_hash,
)

# Few first hashes that agree in their low bits: chains that wrap around the end of the table.
KEYS = st.sampled_from(
    [(low + 16 * high, second << 31) for low in (0, 14, 15) for high in (0, 1) for second in (1, 2)]
)
STEPS = st.lists(
    st.tuples(KEYS, st.sampled_from(["count", "uncount", "remove", "find"])), max_size=60
)


@settings(deadline=None)  # the first call compiles
@given(steps=STEPS)
def test_counting_and_removing_follow_a_dictionary(
    steps: list[tuple[tuple[int, int], str]],
) -> None:
    """Counts, removals and searches agree with a dictionary, through growth too."""
    slots, model = empty_slots(16), dict[tuple[int, int], int]()
    for (first, second), step in steps:
        key, a, b = (first, second), np.uint64(first), np.uint64(second)
        if step == "count":
            model[key] = model.get(key, 0) + 1
            assert add_to(slots, a, b, 1) == model[key]
        elif step == "uncount" and key in model:
            model[key] -= 1
            assert add_to(slots, a, b, -1) == model[key]
            if not model[key]:
                del model[key]
        elif step == "remove":
            assert remove(slots, a, b) == model.pop(key, NOTHING)
        assert find(slots, a, b) == model.get(key, NOTHING)
    larger = empty_slots(64)
    move_slots(slots, larger)
    for first, second in {key for key, _ in steps}:
        expected = model.get((first, second), NOTHING)
        assert find(slots, np.uint64(first), np.uint64(second)) == expected
        assert find(larger, np.uint64(first), np.uint64(second)) == expected


def test_a_number_can_be_changed_in_place() -> None:
    """A key keeps its place and gets another number."""
    slots = empty_slots(4)
    put(slots, np.uint64(7), np.uint64(1 << 40), 5)
    change(slots, np.uint64(7), np.uint64(1 << 40), 2**31 - 2)
    assert find(slots, np.uint64(7), np.uint64(1 << 40)) == 2**31 - 2


def test_one_term_has_one_hash() -> None:
    """A term alone and the same term in a column have the same hash; others have others."""
    data = np.frombuffer(b"jazzjazz!", np.uint8)
    hashes = np.empty((3, 2), np.uint64)
    hash_strings(data, np.array([0, 4, 8, 9]), hashes)
    assert hashes[0].tolist() == hashes[1].tolist() != hashes[2].tolist()
    assert term_hash("jazz") == hashes[0, 0] != hashes[0, 1]


def hashed(secret: Secret, words: list[bytes]) -> list[list[int]]:
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=offsets[1:])
    hashes = np.empty((len(words), 2), np.uint64)
    hash_with(secret, np.frombuffer(b"".join(words), np.uint8), offsets, hashes)
    found: list[list[int]] = hashes.tolist()
    return found


def siphash(key: tuple[int, int], data: bytes) -> list[int]:
    """SipHash-1-3 with 128 bits, in plain Python."""
    mask = (1 << 64) - 1

    def turned(value: int, bits: int) -> int:
        return ((value << bits) | (value >> (64 - bits))) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[1]) & mask
            v[0] = (v[0] + v[3]) & mask
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    start = b"somepseudorandomlygeneratedbytes"
    v = [int.from_bytes(start[at : at + 8], "big") ^ key[at // 8 % 2] for at in (0, 8, 16, 24)]
    v[1] ^= 0xEE
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(1)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(3)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(3)
    return [first, v[0] ^ v[1] ^ v[2] ^ v[3]]


@given(st.lists(st.binary(max_size=300), max_size=5), st.binary(min_size=16, max_size=16))
@settings(max_examples=100, deadline=None)
def test_a_hash_with_a_secret_is_siphash(words: list[bytes], key: bytes) -> None:
    secret = read_only(np.frombuffer(key, np.uint64))
    known = (int(secret[0]), int(secret[1]))
    assert hashed(secret, words) == [siphash(known, word) for word in words]


def test_words_that_were_chosen_to_crowd_a_table_do_not_do_so_under_a_secret() -> None:
    words = [f"w{number}".encode() for number in range(60_000)]
    fixed = np.array(hashed(FIXED, words), np.uint64)[:, 0] & np.uint64(0xFF)
    chosen = [word for word, place in zip(words, fixed.tolist(), strict=True) if place == 0]
    assert len(chosen) > 100
    places = np.array(hashed(secret_words(), chosen), np.uint64)[:, 0] & np.uint64(0xFF)
    assert len(np.unique(places)) > len(chosen) // 4


def test_secrets_differ() -> None:
    assert hashed(secret_words(), [b"a"]) != hashed(secret_words(), [b"a"])
