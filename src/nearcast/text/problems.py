"""Errors in the text of a query, written for its author."""

from __future__ import annotations

from nearcast.errors import QueryError

_A_TERM = "a word with a letter or digit that is not a stop word"
_EXAMPLES = "such as category:deal, price:<500, price:[100 TO 500] or price:*"


def no_term(text: str, position: int) -> QueryError:
    """Reject an operand without letter or digit, or a query of stop words only."""
    return QueryError(text, position, "no term", f"write {_A_TERM}")


def no_term_beside_or(text: str, position: int) -> QueryError:
    """Reject an OR with a side of which the analyser leaves nothing."""
    return QueryError(text, position, "no term", f"write on each side of OR {_A_TERM}")


def empty_query(text: str) -> QueryError:
    """Reject a query of blanks."""
    return QueryError(text, 0, "empty query", "write at least one term, such as 'ipad'")


def nothing_to_find(text: str, position: int) -> QueryError:
    """Reject an alternative that only says what must not be there."""
    remedy = "say with each NOT also what to find, as in 'pizza NOT pineapple' or '* NOT pineapple'"
    return QueryError(text, position, "nothing but excluded terms", remedy)


def too_many_conjuncts(text: str, position: int, most: int) -> QueryError:
    """Reject a query that has too many alternatives when its parentheses are multiplied out."""
    remedy = "use fewer alternatives joined by AND, or several subscriptions"
    return QueryError(text, position, f"more than {most:,} conjuncts", remedy)


def syntax_in_bag(text: str, position: int, found: str) -> QueryError:
    """Reject what is more than a word in a top-k query."""
    remedy = (
        "write plain words only: no parentheses, quotes, stars or properties, no AND, OR or NOT in "
        "capitals; a filter may have them"
    )
    return QueryError(text, position, f"{found!r} in a top-k query", remedy)


def leading_sign(text: str, position: int, sign: str) -> QueryError:
    """Reject a word that begins with - or !."""
    remedy = "say NOT, as in 'pizza NOT pineapple', or remove it to look for the word"
    return QueryError(text, position, f"{sign!r} before a word", remedy)


def empty_phrase(text: str, position: int) -> QueryError:
    """Reject quotes without a letter or digit between them."""
    return QueryError(text, position, "empty phrase", f"write between the quotes {_A_TERM}")


def open_quote(text: str, position: int) -> QueryError:
    """Reject a quote that is never closed."""
    remedy = 'add the closing quote; a quote inside is written \\"'
    return QueryError(text, position, "'\"' without a closing one", remedy)


def quote_in_word(text: str, position: int) -> QueryError:
    """Reject a quote that follows a word at once."""
    remedy = 'put a blank before it, or write a property, such as category:"happy hour"'
    return QueryError(text, position, "'\"' inside a word", remedy)


def sticks(text: str, position: int, closing: str) -> QueryError:
    """Reject what follows a closing quote or bracket at once."""
    return QueryError(
        text, position, f"{text[position]!r} right after {closing!r}", "put a blank between them"
    )


def star_inside(text: str, position: int) -> QueryError:
    """Reject a star that is not at the end of a word."""
    remedy = "a star stands at the end of a word, as in ipad*, or alone for every message"
    return QueryError(text, position, "'*' inside a word", remedy)


def no_prefix(text: str, position: int) -> QueryError:
    """Reject a star after something other than one term."""
    remedy = "write letters and digits only before the star, as in ipad*, and no stop word"
    return QueryError(text, position, "no single term before '*'", remedy)


def short_prefix(text: str, position: int, shortest: int) -> QueryError:
    """Reject a prefix that too many terms begin with."""
    remedy = f"write at least {shortest} letters or digits before the star"
    return QueryError(text, position, "prefix too short", remedy)


def no_property(text: str, position: int) -> QueryError:
    """Reject a word with a colon after something other than a name."""
    remedy = (
        "before ':' write the name of a property: letters, digits, '_', '-' and single dots, "
        f"beginning with a letter or '_', {_EXAMPLES}; or put the word in quotes"
    )
    return QueryError(text, position, "':' in a word that is no property", remedy)


def no_value(text: str, position: int) -> QueryError:
    """Reject a property that is compared with nothing, or with what looks like syntax."""
    remedy = f"write right after ':' what it is to be, {_EXAMPLES}; strings may be in quotes"
    return QueryError(text, position, "no value of a property", remedy)


def no_number(text: str, position: int) -> QueryError:
    """Reject a comparison with something other than a number."""
    return QueryError(text, position, "no number", "write a number as in JSON, such as price:<=9.5")


def no_range(text: str, position: int) -> QueryError:
    """Reject a bracket that begins no range of numbers."""
    remedy = "write two numbers as in JSON, as in price:[100 TO 500]"
    return QueryError(text, position, "no range of numbers", remedy)


def closed_too_often(text: str, position: int) -> QueryError:
    """Reject a closing parenthesis without an open one."""
    remedy = "remove it, or add the matching '(' before it"
    return QueryError(text, position, "')' without a '('", remedy)


def never_closed(text: str, position: int) -> QueryError:
    """Reject a parenthesis that is never closed."""
    return QueryError(text, position, "'(' without a ')'", "add the matching ')'")


def out_of_place(
    text: str, found: str, position: int, last: str, last_position: int, opened: list[int]
) -> QueryError:
    """Explain a token where an operand should be; an empty token is the end.

    `last` is the token before it, and `opened` says where the open parentheses are.
    """
    if found == "" and opened:
        return never_closed(text, opened[0])
    if found == ")" and not opened:
        return closed_too_often(text, position)
    if last in ("AND", "OR", "NOT"):
        return _lonely(text, last_position, last, "after")
    if found == ")":
        remedy = "write a term between them, or remove them"
        return QueryError(text, last_position, "empty parentheses", remedy)
    return _lonely(text, position, found, "before")


def _lonely(text: str, position: int, operator: str, side: str) -> QueryError:
    remedy = f"write one there, or {operator.lower()!r} in small letters to look for that word"
    return QueryError(text, position, f"{operator} without a term {side} it", remedy)
