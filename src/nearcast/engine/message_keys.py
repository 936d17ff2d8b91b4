"""The terms and keys of many messages at once, as numbers: see `nearcast.engine.operands`.

A kernel reads plain ASCII texts and flat properties (`nearcast.engine.key_kernels`). The other
messages are read one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.engine.conditions import MessageNumbers
from nearcast.engine.key_kernels import read_keys
from nearcast.engine.operands import Operands
from nearcast.engine.terms import TermIds, TextBatch
from nearcast.events.flat_json import no_values
from nearcast.events.properties import PropertyColumn
from nearcast.text import Analyser, Content
from nearcast.text.columns import buffers, not_ascii, spliced

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


def read_messages(
    ids: TermIds, operands: Operands, texts: pa.StringArray, properties: PropertyColumn | None
) -> KeyedMessages:
    """Turn messages into the numbers of their terms and keys, as far as somebody has them."""
    asked, mark = operands.asked_keys(ids), ids.next_mark(len(texts))
    lookup = ids.lookup(asked.prefixes)
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
    read_keys(
        lookup.slots, lookup.secret, data, offsets, simple, asked.prefixes, asked.phrases,
        asked.known, *lookup.filters, lookup.memo, asked.everyone, lookup.seen, mark, starts, terms,
        np.empty((some, 2), np.uint64), np.empty((some, 2), np.int64), np.empty(some, np.int32),
        np.empty(longest + values.longest + _BESIDE, np.uint8), asked.names, values.data,
        values.starts, values.names, values.kinds, values.spans, values.numbers, numbers.starts,
        numbers.names, numbers.values,
    )  # fmt: skip
    batch = TextBatch(starts, terms[: starts[-1]])
    batch = operands.with_ranges(batch, numbers, mark, ids, lookup)
    keyed = KeyedMessages(batch, numbers, texts, properties, ids.analyser)
    odd = ~simple
    if odd.any():
        slow_rows = np.flatnonzero(odd).tolist()
        found = [operands.known_in_order(ids, keyed.content(row)) for row in slow_rows]
        slow = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(each) for each in found], out=slow[1:])
        keyed.terms = TextBatch(*spliced(*batch, odd, slow, np.concatenate(found)))
    return keyed
