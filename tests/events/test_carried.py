"""What messages carry comes back as it was given, also where there is more than one such field."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.events import Message
from nearcast.events.carried import CarriedColumns, CarriedValues, carried_of
from nearcast.events.fields import CARRIED, TEXT
from nearcast.events.given import CarriedFields


@pytest.fixture
def lang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another field, of plain text."""
    monkeypatch.setitem(CARRIED, "lang", TEXT)


def given() -> CarriedColumns:
    """Three messages: one with both fields, one with one of them, one with none."""
    values: dict[str, list[Any]] = {
        "properties": [{"a": 1}, None, None],
        "lang": ["en", "de", None],
    }
    columns = CarriedColumns.of(values)
    assert columns is not None
    return columns


EXPECTED = [{"properties": {"a": 1}, "lang": "en"}, {"lang": "de"}, {}]


def test_calls_and_messages_have_every_field_that_is_declared() -> None:
    assert list(CarriedFields.__annotations__) == list(CARRIED)
    assert CARRIED.keys() <= {field.name for field in fields(Message)}
    assert Message("m", point=(0, 0), properties={"a": 1}).carried == {"properties": {"a": 1}}
    assert Message("m", point=(0, 0)).carried == {}


@pytest.mark.usefixtures("lang")
def test_columns_give_back_each_message() -> None:
    columns = given()
    assert [columns[row] for row in range(3)] == EXPECTED
    assert [columns.part(1, 3)[row] for row in range(2)] == EXPECTED[1:]
    assert [columns.take(np.array([2, 0]))[row] for row in range(2)] == [{}, EXPECTED[0]]
    members = ['{"properties":{"a":1},"lang":"en"}', '{"lang":"de"}', None]
    assert columns.members().to_pylist() == members


def test_one_field_is_joined_without_reading_it() -> None:
    columns = CarriedColumns({"properties": pa.array(['{"a": 1}', None])})
    assert columns.members().to_pylist() == ['{"properties":{"a": 1}}', None]
    assert CarriedColumns.of({"properties": [None, None]}) is None


@pytest.mark.usefixtures("lang")
def test_values_are_kept_by_number() -> None:
    values = CarriedValues()
    assert not values
    values.put_columns([5, 7, 9], given())
    assert [values.get(number) for number in (5, 7, 9, 10)] == [*EXPECTED, {}]
    rows = values.rows([7, 9, 5])
    assert [rows.get(row) for row in range(3)] == [EXPECTED[1], {}, EXPECTED[0]]
    values.renumber({5: 0, 7: 1, 9: 2})
    columns = values.columns([1, 0])
    assert columns is not None
    assert [columns[0], columns[1]] == [EXPECTED[1], EXPECTED[0]]
    values.drop([0, 1, 3])
    assert not values


def test_json_is_read_when_it_is_asked_for() -> None:
    values = CarriedValues()
    values.put_columns([1], CarriedColumns({"properties": pa.array(["broken"])}))
    values.put(2, Message("m", point=(0, 0), properties={"b": [2]}))
    assert values.get(2) == {"properties": {"b": [2]}}
    assert carried_of({"properties": '{"c":3}', "text": "no"}) == {"properties": {"c": 3}}
    with pytest.raises(ValueError, match="malformed"):
        values.get(1)
