"""The analyser: what a text becomes."""

import pickle
import sys
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast.text import DEFAULT, ENGLISH_STOP_WORDS, Analyser
from nearcast.text import analyser as module


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("#IPad, don't", ["ipad", "don", "t"]),
        ("", []),
        ("  \t\n", []),
        ("😀 & --- ()", []),
        ("sale SALE Sale", ["sale", "sale", "sale"]),
        ("snake_case__x_", ["snake", "case", "x"]),
        ("a\x00b\x1fc\x7fd", ["a", "b", "c", "d"]),
        ("2nd 3.14", ["2nd", "3", "14"]),
        # Compatibility forms become the plain ones.
        ("ﬁne oﬃce", ["fine", "office"]),
        ("ＩＰａｄ　１２", ["ipad", "12"]),
        ("x² ½", ["x2", "1", "2"]),
        ("℡ ⅷ", ["tel", "viii"]),
        # Casefold goes further than lower case.
        ("Straße STRASSE ẞ", ["strasse", "strasse", "ss"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σίσυφοσ", "σίσυφοσ"]),
        # Combining marks belong to the letter or digit they follow, and to nothing else.
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("q\u0301z", ["q\u0301z"]),
        ("हिन्दी, தமிழ்", ["हिन्दी", "தமிழ்"]),
        ("1\ufe0f\u20e3 \u0301 \u0301a _\u0301b", ["1\ufe0f\u20e3", "a", "b"]),
        ("葛\U000e0100飾", ["葛\U000e0100飾"]),
        # The Turkish dotted capital folds to i and a combining dot.
        ("İstanbul ISTANBUL ıstanbul", ["i\u0307stanbul", "istanbul", "ıstanbul"]),
        # Scripts without blanks between words stay in one run, up to punctuation.
        ("東京都、大阪 カナ", ["東京都", "大阪", "カナ"]),
        ("ｶﾞ", ["ガ"]),
        ("서울 \u1112\u1161\u11ab", ["서울", "한"]),
        ("٣٤ ४२ 七", ["٣٤", "४२", "七"]),
        ("Привет,МИР", ["привет", "мир"]),
        ("a\u200bb\u00a0c\u2028d", ["a", "b", "c", "d"]),
        ("\ud800a", ["a"]),
    ],
)
def test_a_text_becomes_its_folded_runs_of_letters_and_digits(text: str, tokens: list[str]) -> None:
    assert DEFAULT.tokens(text) == tokens
    assert DEFAULT.terms(text) == frozenset(tokens)


def test_every_character_is_a_letter_or_digit_a_mark_or_a_gap() -> None:
    """As the general category says; the marks are found by looking at a part of Unicode only."""
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        folded = unicodedata.normalize("NFKC", f"x{letter}y").casefold()
        runs, run = [], ""
        for each in folded:
            if each.isalnum() or (run and unicodedata.category(each)[0] == "M"):
                run += each
            else:
                runs.append(run)
                run = ""
        assert DEFAULT.tokens(f"x{letter}y") == [each for each in [*runs, run] if each], hex(code)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("東京駅で火事", ["東京", "京駅", "駅で", "で火", "火事"]),
        ("駅 火。事", ["駅", "火", "事"]),
        ("iPhone発売日2020年", ["iphone", "発売", "売日", "2020", "年"]),
        ("ラーメン ｶﾞｷﾞ 人々", ["ラー", "ーメ", "メン", "ガギ", "人々"]),
        ("서울시청 \u1112\u1161\u11ab", ["서울", "울시", "시청", "한"]),
        ("葛\U000e0100飾区", ["葛\U000e0100飾", "飾区"]),
        ("\U00020000\U00020001\U00020002", ["\U00020000\U00020001", "\U00020001\U00020002"]),
        ("plain ASCII हिन्दी", ["plain", "ascii", "हिन्दी"]),
    ],
)
def test_with_cjk_han_kana_and_hangul_are_cut_into_pairs(text: str, tokens: list[str]) -> None:
    analyser = Analyser(cjk=True)
    assert analyser.tokens(text) == tokens
    assert analyser.terms(text) == frozenset(tokens)
    assert [term for phrase in analyser.phrases(text) for term in phrase] == tokens
    assert analyser.tokens(" ".join(tokens)) == tokens


def test_what_is_cut_into_pairs_is_known_by_its_name_in_unicode() -> None:
    named = (
        "CJK UNIFIED",
        "CJK COMPATIBILITY IDEO",
        "HIRAGANA",
        "HENTAIGANA",
        "KATAKANA",
        "HANGUL",
    )
    others = "〆々〇〡〢〣〤〥〦〧〨〩〻〼\U00016fe3"
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if not letter.isalnum() or DEFAULT.tokens(letter) != [letter]:
            continue
        pairs = unicodedata.name(letter, "").startswith(named) or letter in others
        found = Analyser(cjk=True).tokens(letter * 3)
        assert found == ([letter * 2] * 2 if pairs else [letter * 3]), hex(code)


def test_phrases_are_the_pairs_of_one_run() -> None:
    analyser = Analyser(cjk=True, stop_words=["の"])
    assert analyser.phrases("iPhone発売日 東京・大阪城 の") == [
        ["iphone"],
        ["発売", "売日"],
        ["東京"],
        ["大阪", "阪城"],
    ]
    assert DEFAULT.phrases("e-coupon 東京駅") == [["e"], ["coupon"], ["東京駅"]]


@given(st.text(st.characters(max_codepoint=127), max_size=60))
@settings(deadline=None, max_examples=300)
def test_the_quick_way_with_ascii_is_the_general_way(text: str) -> None:
    assert module._split(text) == module._split_any(text)


def test_every_ascii_character_is_folded_by_the_general_rule() -> None:
    for code in range(128):
        text = f"x{chr(code)}y"
        assert module._split(text) == module._split_any(text)


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=500)
def test_terms_written_out_are_read_back_unchanged(text: str) -> None:
    tokens = DEFAULT.tokens(text)
    assert DEFAULT.tokens(" ".join(tokens)) == tokens


def test_what_any_single_character_becomes_is_read_back_unchanged() -> None:
    """Casefold comes after NFKC, so this is a fact of Unicode and not of the code."""
    for code in range(sys.maxunicode + 1):
        tokens = DEFAULT.tokens(chr(code))
        assert DEFAULT.tokens(" ".join(tokens)) == tokens, hex(code)


@given(st.text(max_size=20), st.text(max_size=20))
@settings(deadline=None)
def test_a_blank_keeps_texts_apart(left: str, right: str) -> None:
    assert DEFAULT.tokens(f"{left} {right}") == DEFAULT.tokens(left) + DEFAULT.tokens(right)


def test_stop_words_are_analysed_and_dropped() -> None:
    analyser = Analyser(stop_words=["The", "ＡＮＤ", "don't"])
    assert analyser.stop_words == {"the", "and", "don", "t"}
    assert analyser.tokens("Don't eat THE fish and chips") == ["eat", "fish", "chips"]


def test_the_english_stop_words_are_analysed_already() -> None:
    assert Analyser(stop_words=ENGLISH_STOP_WORDS).stop_words == ENGLISH_STOP_WORDS
    assert 40 <= len(ENGLISH_STOP_WORDS) <= 60


def test_one_string_is_not_taken_for_a_list_of_stop_words() -> None:
    with pytest.raises(InvalidValue, match="stop_words: 'the' given"):
        Analyser(stop_words="the")


def test_stemming_comes_after_the_stop_words() -> None:
    analyser = Analyser("english", ["discounts"])
    assert analyser.tokens("Discounts, discounted running RUNS") == ["discount", "run", "run"]


def test_a_stemmer_may_be_used_from_many_threads() -> None:
    analyser = Analyser("english")
    words = [f"running{number} discounted relational" for number in range(200)]
    expected = [analyser.tokens(word) for word in words]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert list(threads.map(analyser.tokens, words)) == expected


def test_each_thread_has_its_own_stemmer() -> None:
    found = [module._stemmer("english")]
    thread = threading.Thread(target=lambda: found.append(module._stemmer("english")))
    thread.start()
    thread.join()
    assert found[0] is module._stemmer("english")
    assert found[0] is not found[1]


def test_an_unknown_language_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue, match=r"'klingon' given.*english.*spanish"):
        Analyser("klingon")


def test_without_pystemmer_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(InvalidValue, match=r"pip install 'nearcast\[stemming\]'"):
        Analyser("english")
    assert Analyser().tokens("still works") == ["still", "works"]


def test_analysers_with_equal_settings_are_equal_and_hash_alike() -> None:
    one, other = Analyser("english", ["the", "a"]), Analyser("english", ["A", "The", "the"])
    assert one == other
    assert hash(one) == hash(other)
    assert len({DEFAULT, Analyser(), Analyser("english"), Analyser(stop_words=["a"])}) == 3
    assert Analyser(cjk=True) != DEFAULT


def test_an_analyser_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        DEFAULT.stemmer = "english"  # type: ignore[misc] # that it must fail is the test


def test_an_analyser_survives_pickling() -> None:
    analyser = Analyser("english", ["the"], cjk=True)
    copy = pickle.loads(pickle.dumps(analyser))  # noqa: S301 - our own bytes, made on this line
    assert copy == analyser
    assert copy.tokens("the running 東京駅") == ["run", "東京", "京駅"]
