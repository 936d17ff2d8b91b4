"""The errors of the package; each says what to do next.

Every error of the package is a `NearcastError`. Its text is one line: where it happened, what was
given, and what would be right.
"""

from __future__ import annotations

_LONGEST_VALUE = 80
_END_OF_A_VALUE = 20
_LONGEST_QUERY = 80


def show(value: object) -> str:
    """Write a value as Python would, on one line.

    What would flood the message is cut within, as the end of a path says most.
    """
    try:
        text = repr(value)
    except ValueError:  # Python does not write out whole numbers of thousands of digits
        text = f"{type(value).__name__} too large to write out"
    except RecursionError:
        text = f"{type(value).__name__} nested too deeply to write out"
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[: _LONGEST_VALUE - _END_OF_A_VALUE - 3]}...{text[-_END_OF_A_VALUE:]}"


def _columns(letter: str) -> int:
    """How many columns of a terminal a character takes."""
    from unicodedata import combining, east_asian_width

    if combining(letter):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


class NearcastError(Exception):
    """The base of all errors that this package raises on purpose."""


class InvalidValue(NearcastError, ValueError):  # noqa: N818 - it is a kind of ValueError
    """A value that the contract does not allow.

    `field` names the place (`point[1]`), `given` is the value, `expected` says what would be right.
    """

    def __init__(self, field: str, given: object, expected: str) -> None:
        super().__init__(f"{field}: {show(given)} given; expected {expected}")
        self.field = field
        self.given = given
        self.expected = expected

    def inside(self, field: str) -> InvalidValue:
        """Return the same error for a value inside `field`."""
        separator = "" if self.field.startswith("[") else "."
        return InvalidValue(f"{field}{separator}{self.field}", self.given, self.expected)


class MissingField(InvalidValue):
    """A field that must be there and is not."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(field, None, expected)
        self.args = (f"{field}: missing; expected {expected}",)

    def inside(self, field: str) -> MissingField:
        """Return the same error for a field that is missing inside `field`."""
        return MissingField(f"{field}.{self.field}", self.expected)


class QueryError(InvalidValue):
    """A query that cannot be understood, with the 0-based `position` of the first trouble.

    A caret under the place is attached as a note, which Python prints below the traceback.
    """

    def __init__(
        self, query: str, position: int, problem: str, remedy: str, field: str = "query"
    ) -> None:
        super().__init__(field, query, remedy)
        self.query = query
        self.position = position
        self.problem = problem
        self.remedy = remedy
        start = self._start()
        shown = repr(query[start : start + _LONGEST_QUERY])
        if start > 0:
            shown = f"...{shown}"
        if start + _LONGEST_QUERY < len(query):
            shown = f"{shown}..."
        self.args = (f"{field}: {problem} at position {position} of {shown}; {remedy}",)
        self.add_note(self.caret())

    def caret(self) -> str:
        """Draw the query with a caret under the place of the trouble, around it if it is long."""
        start = self._start()
        before, after = self.query[start : self.position], self.query[self.position :]
        line = before + after[: _LONGEST_QUERY - len(before)]
        drawn = "".join(letter if letter.isprintable() else " " for letter in line)
        return f"    {drawn}\n    {' ' * sum(map(_columns, before))}^"

    def _start(self) -> int:
        """Where the part of the query begins that is shown: all of it, or what is around."""
        if len(self.query) <= _LONGEST_QUERY:
            return 0
        return max(0, min(self.position - 60, len(self.query) - _LONGEST_QUERY))

    def of(self, field: str) -> QueryError:
        """Return the same error for a query in another field."""
        return QueryError(self.query, self.position, self.problem, self.remedy, field)

    def inside(self, field: str) -> InvalidValue:  # noqa: ARG002 - same signature as its base
        """Return itself: a query error names its own position."""
        return self


class StateError(NearcastError):
    """An event that is well-formed but conflicts with the current state."""


class UnknownIdError(StateError):
    """An event about a subscription that is not there."""


class UnknownMessageError(UnknownIdError):
    """An event about a message that is neither active nor in the window."""


class KindError(StateError):
    """A top-k subscription treated as a boolean one, or the other way round."""


class PastTimeError(StateError):
    """An event from before the time of the last one."""


class SourceError(NearcastError):
    """A file or stream that cannot be read or written as asked."""


class SetupError(NearcastError):
    """A dependency that this machine lacks, or has in an unsuitable version."""


class StoreError(NearcastError):
    """The file of a durable engine cannot be opened, read or written as asked.

    The file has everything that was acknowledged before, and nothing of the failed call.
    """


class DamagedStoreError(StoreError):
    """The file of a durable engine is there, but not whole: a backup is needed."""
