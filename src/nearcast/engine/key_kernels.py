"""The keys of messages, found by kernels in the bytes of their texts and properties.

Each token is looked up, and from there the prefixes and the groups of tokens that somebody asks
for; of properties only those with a name that somebody asks for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner, kernel
from nearcast.arrays.slots import Secret, Slots, ask_for, find, hash_bytes
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.engine.key_filter import (
    FilterWords,
    longer_phrase,
    longer_prefix,
    may_be_there,
    start_prefix,
)
from nearcast.engine.prefix_memo import PrefixMemo
from nearcast.events.flat_json import NULL, NUMBER
from nearcast.text.columns import cut_ascii


@inlined
def _put_once(terms: Int32s, written: int, term: int, seen: Int64s, mark: int) -> int:
    """Write a term that the message does not have yet, and give how many there are."""
    if term >= 0 and seen[term] != mark:
        seen[term] = mark
        terms[written] = term
        written += 1
    return written


@inlined
def _lower(letter: np.uint8) -> np.uint8:
    return letter + np.uint8(32) if 65 <= letter <= 90 else letter


@inner
def _lower_into(data: Bytes, begin: int, end: int, buffer: Bytes, size: int) -> int:
    for at in range(begin, end):
        buffer[size] = _lower(data[at])
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
def read_keys(
    slots: Slots, secret: Secret, data: Bytes, offsets: Int64s, simple: npt.NDArray[np.bool_],
    prefixes: Int64s, phrases: Int64s, all_known: bool, asked_prefixes: FilterWords,
    asked_phrases: FilterWords, memo: PrefixMemo, everyone: int, seen: Int64s, mark: int,
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
            ask_for(slots, hashes[token, 0])
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
                # What is noted of a term saves looking for its prefixes again.
                term, noted = tokens_as[token], memo.used[0]
                if term >= 0 and memo.first[term] >= 0:
                    entry = memo.first[term]
                    for place in range(entry + 1, entry + 1 + memo.keys[entry]):
                        written = _put_once(terms, written, memo.keys[place], seen, now)
                    continue
                notes = term >= 0 and noted + 1 + len(prefixes) <= len(memo.keys)
                found = 0
                begin, end = spans[token, 0], spans[token, 1]
                value, at = start_prefix(secret), begin
                for length in prefixes:
                    if end - begin < length:
                        break
                    while at < begin + length:
                        value = longer_prefix(value, _lower(data[at]))
                        at += 1
                    if not may_be_there(asked_prefixes, value):
                        continue
                    size = _lower_into(data, begin, begin + length, buffer, 2)
                    key = _find_key(slots, secret, buffer, size)
                    written = _put_once(terms, written, key, seen, now)
                    if notes and key >= 0:
                        found += 1
                        memo.keys[noted + found] = key
                if notes:
                    memo.keys[noted], memo.first[term] = found, noted
                    memo.used[0] = noted + found + 1
        # Phrases: zero, tilde, the tokens with a blank between them. Most groups of tokens are
        # ruled out by one that is no term of any subscription.
        if len(phrases) > 0:
            buffer[0] = np.uint8(0)
            for token in range(tokens):
                known, value, step = True, np.uint64(0), 0
                for length in phrases:
                    if token + length > tokens:
                        break
                    while step < length:
                        known &= tokens_as[token + step] >= 0
                        value = longer_phrase(value, hashes[token + step, 0])
                        step += 1
                    if all_known and not known:
                        break
                    if not may_be_there(asked_phrases, value):
                        continue
                    size = 1
                    for part in range(length):
                        buffer[size] = np.uint8(32 if part else 126)
                        begin, end = spans[token + part, 0], spans[token + part, 1]
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
