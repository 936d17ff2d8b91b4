"""Keys of operands: strings beside terms by which an index of terms finds messages.

A message has keys beside its terms, strings that no text can give, such as one for every prefix of
a term that some query asks for. What satisfies an operand has its keys.

| operand             | key                        | exact |
|---------------------|----------------------------|-------|
| `*`, or no query    | that of every message      | yes   |
| `ipad*`             | the prefix                 | yes   |
| `category:deal`     | name and folded string     | yes   |
| `price:5`           | name and number            | no    |
| `price:*`           | the name                   | yes   |
| `price:<5`          | the name                   | no    |
| the same, by itself | name, cell or edge         | no    |
| `"red wine"`        | the terms side by side     | up to four terms |

Of an exact operand the converse is true too: what has its key satisfies it. Ranges have keys of
their own (`nearcast.text.ranges`) where nothing else narrows an alternative down. Beside a term the
name will do: otherwise messages would have many keys more, which no row is found by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearcast.text.dnf import Conjunct
from nearcast.text.operands import Equals, Exists, Operand, Phrase, Prefix, Within, fold
from nearcast.text.ranges import range_key

EVERYONE = "\0*"
"""The key of every message."""
TRUTHS = ("false", "true")
LONGEST_PHRASE = 4
"""How many terms of a phrase are one key."""


def is_key(term: str) -> bool:
    """Whether a required string is a key, and no term."""
    return term[0] == "\0"


def prefix_key(text: str) -> str:
    """The key of all that has a term with a prefix."""
    return "\0^" + text


def string_key(name: str, text: str) -> str:
    """The key of all that has a property with a string, which is folded."""
    return f"\0={name}\0{text}"


def number_key(name: str, number: str | None) -> str:
    """The key of all that has a property with a number, as `number_text` writes it."""
    return f"\0#{name}\0{number}"


def phrase_key(terms: Sequence[str]) -> str:
    """The key of all that has some terms side by side."""
    return "\0~" + " ".join(terms)


def name_key(name: str) -> str:
    """The key of all that has a property."""
    return f"\0?{name}"


def number_text(value: Any) -> str | None:
    """A number as a double, which is the same for all that are equal; None if it is none."""
    try:
        return repr(float(value) + 0.0)
    except ValueError:
        return None
    except OverflowError:
        return "inf"


def keys_of(operand: Operand) -> list[str]:
    """The keys that every message has which satisfies an operand."""
    match operand:
        case Prefix(text):
            return [prefix_key(text)]
        case Equals(name, text, None):
            return [string_key(name, fold(text))]
        case Equals(name, _, number):
            return [number_key(name, number_text(number))]
        case Within(name=name) | Exists(name=name):
            return [name_key(name)]
        case Phrase(terms) if len(terms) <= LONGEST_PHRASE:
            return [phrase_key(terms)]
        case Phrase(terms):
            return [phrase_key(terms[:LONGEST_PHRASE]), phrase_key(terms[-LONGEST_PHRASE:])]
    return []


def is_found_by_range(conjunct: Conjunct) -> bool:
    """Whether ranges narrow an alternative down, and nothing else but true, false or a name."""
    ranges = [isinstance(operand, Within) for operand in conjunct.having]
    return not conjunct.required and any(ranges) and all(map(_says_little, conjunct.having))


def _says_little(operand: Operand) -> bool:
    if isinstance(operand, Equals):
        return operand.flag is not None
    return isinstance(operand, Within | Exists)


def range_keys(conjunct: Conjunct) -> list[str]:
    """The keys of the ranges that an alternative is found by, each once."""
    if not is_found_by_range(conjunct):
        return []
    ranges = (one for one in conjunct.having if isinstance(one, Within))
    return sorted({range_key(one.name, one.low, one.high) for one in ranges})


def required_strings(conjunct: Conjunct) -> list[str]:
    """The terms and keys that a message must have, terms first; at least one."""
    ranges = range_keys(conjunct)
    others = (one for one in conjunct.having if not (ranges and isinstance(one, Within)))
    keys = {*ranges, *(key for operand in others for key in keys_of(operand))}
    return sorted(conjunct.required) + sorted(keys) or [EVERYONE]


def excluded_strings(conjunct: Conjunct) -> list[str]:
    """The terms, and the keys of exact operands, that a message must not have; terms first."""
    keys = {key for one in conjunct.lacking if is_exact(one) for key in keys_of(one)}
    return sorted(conjunct.excluded) + sorted(keys)


def is_exact(operand: Operand) -> bool:
    """Whether a message that has the key of an operand satisfies it."""
    match operand:
        case Prefix() | Exists():
            return True
        case Equals(_, text, None, flag):
            return flag is not None or fold(text) not in TRUTHS
        case Phrase(terms):
            return len(terms) <= LONGEST_PHRASE
    return False
