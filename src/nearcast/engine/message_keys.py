"""The terms and keys of many messages at once, as numbers: see `nearcast.engine.operands`.

A kernel reads plain ASCII texts and flat properties. It looks each token up, and from there the
prefixes and the groups of tokens that somebody asks for; of properties only those with a name that
somebody asks for. The other messages are read one by one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import inner, kernel
from nearcast.arrays.slots import Secret, Slots, find, hash_bytes
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.engine.conditions import MessageNumbers
from nearcast.engine.operands import Operands
from nearcast.engine.terms import TermIds, TextBatch
from nearcast.events.properties import (
    NULL,
    NUMBER,
    PropertyColumn,
    no_values,
)
from nearcast.text import Analyser, Content
from nearcast.text.columns import buffers, cut_ascii, not_ascii, spliced

_BESIDE = 8  # bytes that a key has beside name and value, at most


class KeyedMessages:
    """The terms and keys of messages, and what residual predicates ask of them."""

    def __init__(
        self,
        terms: TextBatch,
        numbers: MessageNumbers,
        texts: pa.StringArray,
        properties: PropertyColumn | None,
        analyser: Analyser,
    ) -> None:
        self.terms = terms
        self.numbers = numbers
        self._texts, self._properties, self._analyser = texts, properties, analyser
        self._contents: dict[int, Content] = {}

    def content(self, row: int) -> Content:
        """What predicates in plain code look at, made when it is needed."""
        made = self._contents.get(row)
        if made is None:
            tokens = self._analyser.tokens(self._texts[row].as_py())
            properties = None if self._properties is None else self._properties[row]
            made = self._contents[row] = Content(tokens, properties)
        return made


@inner
def _put_once(terms: Int32s, written: int, term: int, seen: Int64s, mark: int) -> int:
    """Write a term that the message does not have yet, and give how many there are."""
    if term >= 0 and seen[term] != mark:
        seen[term] = mark
        terms[written] = term
        written += 1
    return written


@inner
def _lower_into(data: Bytes, begin: int, end: int, buffer: Bytes, size: int) -> int:
    for at in range(begin, end):
        letter = data[at]
        buffer[size] = letter + np.uint8(32) if 65 <= letter <= 90 else letter
        size += 1
    return size


@inner
def _number_into(data: Bytes, begin: int, end: int, zero: bool, buffer: Bytes, size: int) -> int:
    """Write a number as Python writes a double: at least one digit on both sides of the point."""
    if zero:
        begin, end = begin + (data[begin] == 45), begin + (data[begin] == 45) + 1
    point = end
    for at in range(begin, end):
        buffer[size] = data[at]
        size += 1
        if data[at] == 46:
            point = at
    if point == end:
        buffer[size], buffer[size + 1] = np.uint8(46), np.uint8(48)
        return size + 2
    while buffer[size - 1] == 48 and buffer[size - 2] != 46:
        size -= 1
    return size


@inner
def _find_key(slots: Slots, secret: Secret, buffer: Bytes, size: int) -> int:
    first, second = hash_bytes(secret, buffer, 0, size, False)
    return int(find(slots, first, second))


@kernel
def _read_keys(
    slots: Slots, secret: Secret, data: Bytes, offsets: Int64s, simple: npt.NDArray[np.bool_],
    prefixes: Int64s, phrases: Int64s, all_known: bool, everyone: int, seen: Int64s, mark: int,
    starts: Int64s, terms: Int32s, hashes: Slots, spans: Int64s, tokens_as: Int32s, buffer: Bytes,
    names: Slots, words: Bytes, word_starts: Int64s, word_names: Int64s,
    kinds: npt.NDArray[np.int8], word_spans: Int64s, numbers: Floats,
    number_starts: Int64s, number_names: Int32s, number_values: Floats,
) -> None:  # fmt: skip
    """Write the numbers of the terms and keys of simple messages, each once a message.

    Text i is `data[offsets[i] : offsets[i + 1]]`, its properties the values from `word_starts[i]`
    on, whose names and strings are spans of `words`. `hashes`, `spans`, `tokens_as` and `buffer`
    are scratch space for one message.
    """
    written = valued = 0
    for row in range(len(offsets) - 1):
        starts[row], number_starts[row] = written, valued
        if not simple[row]:
            continue
        now = mark + row
        tokens = cut_ascii(data, offsets[row], offsets[row + 1], secret, hashes, spans)
        for token in range(tokens):
            term = find(slots, hashes[token, 0], hashes[token, 1])
            tokens_as[token] = term
            written = _put_once(terms, written, term, seen, now)
        if everyone >= 0:
            written = _put_once(terms, written, everyone, seen, now)
        # Prefixes: zero, caret, the letters.
        if len(prefixes) > 0:
            buffer[0], buffer[1] = np.uint8(0), np.uint8(94)
            for token in range(tokens):
                begin, end = spans[token, 0], spans[token, 1]
                for length in prefixes:
                    if end - begin < length:
                        break
                    size = _lower_into(data, begin, begin + length, buffer, 2)
                    term = _find_key(slots, secret, buffer, size)
                    written = _put_once(terms, written, term, seen, now)
        # Phrases: zero, tilde, the tokens with a blank between them. Most groups of tokens are
        # ruled out by one that is no term of any subscription.
        if len(phrases) > 0:
            buffer[0] = np.uint8(0)
            for token in range(tokens):
                for length in phrases:
                    if token + length > tokens:
                        break
                    known = True
                    for step in range(length):
                        known &= tokens_as[token + step] >= 0
                    if all_known and not known:
                        break
                    size = 1
                    for step in range(length):
                        buffer[size] = np.uint8(32 if step else 126)
                        begin, end = spans[token + step, 0], spans[token + step, 1]
                        size = _lower_into(data, begin, end, buffer, size + 1)
                    term = _find_key(slots, secret, buffer, size)
                    written = _put_once(terms, written, term, seen, now)
        # Properties: zero, a sign, the name, and zero and the value.
        name = last = -1
        for at in range(word_starts[row], word_starts[row + 1]):
            begin, end = word_names[at, 0], word_names[at, 1]
            if begin != last:
                last = begin
                first, second = hash_bytes(secret, words, begin, end, False)
                name = find(names, first, second)
                for letter in range(begin, end):
                    if words[letter] == 46:
                        name = -1  # a dot leads into an object
            kind = kinds[at]
            if name < 0 or kind >= NULL:
                continue
            buffer[0], buffer[1] = np.uint8(0), np.uint8(63)
            size = 2
            for letter in range(begin, end):
                buffer[size] = words[letter]
                size += 1
            term = _find_key(slots, secret, buffer, size)
            written = _put_once(terms, written, term, seen, now)
            buffer[size] = np.uint8(0)
            size += 1
            buffer[1] = np.uint8(35 if kind == NUMBER else 61)
            if kind == NUMBER:
                value = numbers[at]
                number_names[valued], number_values[valued] = name, value
                valued += 1
                size = _number_into(
                    words, word_spans[at, 0], word_spans[at, 1], value == 0.0, buffer, size
                )
            else:  # a string, true or false
                size = _lower_into(words, word_spans[at, 0], word_spans[at, 1], buffer, size)
            term = _find_key(slots, secret, buffer, size)
            written = _put_once(terms, written, term, seen, now)
    starts[len(offsets) - 1] = written
    number_starts[len(offsets) - 1] = valued


def read_messages(
    ids: TermIds, operands: Operands, texts: pa.StringArray, properties: PropertyColumn | None
) -> KeyedMessages:
    """Turn messages into the numbers of their terms and keys, as far as somebody has them."""
    lookup = ids.lookup(len(texts))
    asked = operands.asked_keys(ids)
    data, offsets = buffers(texts)
    values = no_values(len(texts)) if properties is None else properties.values
    simple = values.flat.copy()
    simple &= ~not_ascii(data, offsets) if lookup.plain else False
    longest = int(np.diff(offsets).max(initial=0))
    tokens = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
    count = int(values.starts[-1])
    room = tokens * (1 + len(asked.prefixes) + len(asked.phrases)) + len(texts) + 2 * count
    starts, terms = np.zeros(len(offsets), np.int64), np.empty(room, np.int32)
    numbers = MessageNumbers(
        np.zeros(len(offsets), np.int64), np.empty(count, np.int32), np.empty(count), simple
    )
    some = longest // 2 + 1
    _read_keys(
        lookup.slots, lookup.secret, data, offsets, simple, asked.prefixes, asked.phrases,
        asked.known, asked.everyone, lookup.seen, lookup.mark, starts, terms,
        np.empty((some, 2), np.uint64), np.empty((some, 2), np.int64), np.empty(some, np.int32),
        np.empty(longest + values.longest + _BESIDE, np.uint8), asked.names, values.data,
        values.starts, values.names, values.kinds, values.spans, values.numbers, numbers.starts,
        numbers.names, numbers.values,
    )  # fmt: skip
    batch = TextBatch(starts, terms[: starts[-1]])
    keyed = KeyedMessages(batch, numbers, texts, properties, ids.analyser)
    odd = ~simple
    if odd.any():
        slow_rows = np.flatnonzero(odd).tolist()
        found = [ids.known(operands.keys_of(keyed.content(row))) for row in slow_rows]
        slow = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(each) for each in found], out=slow[1:])
        keyed.terms = TextBatch(*spliced(*batch, odd, slow, np.concatenate(found)))
    return keyed
