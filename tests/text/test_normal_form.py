"""The normal form of texts is that of Unicode, however long they are and whatever they are of."""

import random
import sys
from time import process_time
from unicodedata import combining, decomposition, normalize

import pytest

from nearcast.text import Analyser, fold
from nearcast.text import analyser as analyser_module
from nearcast.text import normal_form as module
from nearcast.text.normal_form import nfkc

PAUSE_S = 0.3
MARKS = [chr(code) for code in range(0x300, 0x1F000) if combining(chr(code))]
HANGUL = [chr(code) for some in (range(0x1100, 0x1200), range(0xAC00, 0xAC40)) for code in some]
COMPOSED = [
    part
    for code in range(0xC0, 0x20000)
    if len(parts := decomposition(chr(code)).split()) == 2 and not parts[0].startswith("<")
    for part in (chr(int(parts[0], 16)), chr(int(parts[1], 16)), chr(code))
]
ODD = [*"aé -_.", *"\u0344\u0f73\uff9e\uff9f\u3131\u314f\uffc2\uffa1\ufdfa\ufefb\u1fb7\u2075\u33c2"]
ALL = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize("letters", [MARKS, HANGUL, COMPOSED, ODD, ALL])
@pytest.mark.parametrize("seed", range(40))
def test_a_text_in_pieces_has_the_same_normal_form(
    monkeypatch: pytest.MonkeyPatch, letters: list[str], seed: int
) -> None:
    chosen = random.Random(seed)
    module._crowds.cache_clear()
    monkeypatch.setattr(module, "_MANY", chosen.choice([2, 3, 32]))
    monkeypatch.setattr(module, "_PIECE", chosen.choice([1, 2, 5]))
    kinds = [letters, letters, MARKS, HANGUL, COMPOSED, ODD]
    try:
        for _ in range(50):
            size = chosen.randint(0, 40)
            text = "".join(chosen.choice(chosen.choice(kinds)) for _ in range(size))
            assert nfkc(text) == normalize("NFKC", text), ascii(text)
    finally:
        module._crowds.cache_clear()


def test_nothing_that_follows_others_is_missing() -> None:
    """A character that may begin a piece is not changed by any that may be before it."""
    begins = module._beginning()
    before = ["a", "\u1100", "\uac00", "\u0301", "\u09c7", "\u0cc6", "\U000110b5"]
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if begins.match(letter):
            assert not combining(normalize("NFKD", letter)[0]), hex(code)
            for first in before:
                whole = normalize("NFKC", first + letter)
                assert whole == normalize("NFKC", first) + normalize("NFKC", letter), hex(code)


@pytest.mark.parametrize("seed", range(40))
def test_a_text_in_pieces_has_the_same_terms(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chosen = random.Random(seed)
    letters = [*ODD, *"abc xyz  ..,;", *chosen.sample(ALL, 20), *chosen.sample(MARKS, 5)]
    text = "".join(chosen.choices(letters, k=2000))
    whole = Analyser().tokens(text)
    monkeypatch.setattr(analyser_module, "_PIECE", chosen.choice([1, 10, 100]))
    assert Analyser().tokens(text) == whole


@pytest.mark.parametrize(
    "text",
    [
        "a" + "\u0345" * 32_000 + "\u0327" * 32_000,
        "a" + "\u0315\u0327" * 32_000,
        "\u0f73\u0344\uff9e" * 21_000,
        ("a" + "\u0315\u0327" * 15) * 2000,
        ("\u1fb7" + "\u0345" * 31) * 2000,
    ],
)
def test_marks_in_any_order_take_no_time(text: str) -> None:
    """Their number may not count squared: 65,536 of them took seconds."""
    nfkc(text)
    started = process_time()
    Analyser().tokens(text)
    fold(text)
    assert process_time() - started < PAUSE_S
