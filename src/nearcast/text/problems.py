"""Errors in the text of a query, written for its author."""

from __future__ import annotations

import re

from nearcast.errors import QueryError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_A_TERM = "a word with a letter or digit that is not a stop word"


def no_term(text: str, position: int) -> QueryError:
    """Reject a query of which the analyser leaves nothing."""
    return QueryError(text, position, "no term", f"write {_A_TERM}")


def no_term_beside_or(text: str, position: int) -> QueryError:
    """Reject an OR with a side of which the analyser leaves nothing."""
    return QueryError(text, position, "no term", f"write on each side of OR {_A_TERM}")


def no_term_at_all(text: str) -> QueryError:
    """Reject a query that is empty, or plain words of which the analyser leaves nothing."""
    start = len(text) - len(text.lstrip())
    if start == len(text):
        return QueryError(text, 0, "empty query", "write at least one term, such as 'ipad'")
    return no_term(text, start)


def nothing_to_find(text: str, position: int) -> QueryError:
    """Reject an alternative that only says what must not be there."""
    remedy = "say with each NOT also what to find, as in 'pizza NOT pineapple'"
    return QueryError(text, position, "nothing but excluded terms", remedy)


def too_many_conjuncts(text: str, position: int, most: int) -> QueryError:
    """Reject a query that has too many alternatives when its parentheses are multiplied out."""
    remedy = "use fewer alternatives joined by AND, or several subscriptions"
    return QueryError(text, position, f"more than {most:,} conjuncts", remedy)


def syntax_in_bag(text: str, position: int, found: str) -> QueryError:
    """Reject an operator or a parenthesis in a top-k query."""
    remedy = "write plain words only: no parentheses, no AND, OR or NOT in capitals"
    return QueryError(text, position, f"{found!r} in a top-k query", remedy)


def out_of_place(text: str, found: str, position: int) -> QueryError:
    """Explain a token that cannot follow the text before it; an empty token is the end."""
    opened: list[int] = []
    last, last_position = "", 0
    for token in _TOKEN.finditer(text, 0, position):
        last, last_position = token.group(), token.start()
        if last == "(":
            opened.append(last_position)
        elif last == ")":
            opened.pop()
    if found == "" and opened:
        return QueryError(text, opened[0], "'(' without a ')'", "add the matching ')'")
    if found == ")" and not opened:
        remedy = "remove it, or add the matching '(' before it"
        return QueryError(text, position, "')' without a '('", remedy)
    if last in ("AND", "OR", "NOT"):
        return _lonely(text, last_position, last, "after")
    if found == ")":
        remedy = "write a term between them, or remove them"
        return QueryError(text, last_position, "empty parentheses", remedy)
    return _lonely(text, position, found, "before")


def _lonely(text: str, position: int, operator: str, side: str) -> QueryError:
    remedy = f"write one there, or {operator.lower()!r} in small letters to look for that word"
    return QueryError(text, position, f"{operator} without a term {side} it", remedy)
