"""The fields of events and updates, declared once.

Everything that lists them follows from here: the JSON of the log (`events`), Arrow and Parquet
(`columns`), Spark (`nearcast.spark.readers.schema`) and OpenAPI (`nearcast.server.schemas`).
A new field is a line in one of the tables, and an attribute of the value that carries it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from nearcast.geo.codec import SHAPES

TEXT, NUMBER, WHOLE, JSON = "text", "number", "whole", "json"
"""The plain kinds of values: a string, a double, a 64-bit integer; any JSON, in columns as text."""


class Many(NamedTuple):
    """A list of values of one kind."""

    of: Kind


class Struct(NamedTuple):
    """An object with fields of its own; in a log it may also be given as JSON text."""

    fields: tuple[tuple[str, Kind], ...]


Kind = str | Many | Struct


class Field(NamedTuple):
    """One field: its name, its kind, where it occurs, and what a client should know of it."""

    name: str
    kind: Kind
    events: tuple[str, ...] = ()
    """The kinds of event that have it, by their `op`; none for a field of updates."""
    about: dict[str, Any] = {}  # noqa: RUF012 - never changed
    """The field in JSON Schema; `{"$ref": NAME}` refers to a shape of the API."""
    required: bool = False
    carried: bool = False
    """Whether messages have it and no index looks at it: it is kept as it is and given back."""


_COORDINATES = Many(NUMBER)


def _in_lists(depth: int) -> Kind:
    return Many(_in_lists(depth - 1)) if depth else NUMBER


_REGION_FIELDS = {
    field.column or name: _in_lists(field.depth)
    for shape in SHAPES.values()
    for name, field in shape.fields.items()
}
_REGION = Struct((("type", TEXT), *_REGION_FIELDS.items()))
_TOP = Struct((("k", WHOLE), ("alpha", NUMBER), ("scale", NUMBER), ("min_score", NUMBER)))

SUBSCRIBE, MOVE, UNSUBSCRIBE, PUBLISH = "subscribe", "move", "unsubscribe", "publish"
RETRACT = "retract"
_ALL = (SUBSCRIBE, MOVE, UNSUBSCRIBE, PUBLISH, RETRACT)

UpdateOp = Literal["add", "remove", "change"]
"""What an update does, by name."""
OPS: tuple[UpdateOp, ...] = get_args(UpdateOp)
UPDATE_OPS = ("", *OPS)
"""The same by number, for kernels and columns."""
ADD, REMOVE, CHANGE = range(1, len(UPDATE_OPS))
WITHOUT_BODY = frozenset({"remove"})
"""The ops of updates that carry neither the message nor a score."""

EVENT_FIELDS = (
    Field("op", TEXT, _ALL, {"type": "string", "enum": sorted(_ALL)}, required=True),
    Field(
        "id", TEXT, _ALL, {"type": "string", "minLength": 1, "maxLength": 255, "example": "s1"},
        required=True,
    ),
    Field(
        "query", TEXT, (SUBSCRIBE,),
        {"type": "string", "minLength": 1, "example": "ipad AND (discount OR sale)"},
    ),
    Field("text", TEXT, (PUBLISH,), {"type": "string", "example": "iPad sale!"}),
    Field("region", _REGION, (SUBSCRIBE, MOVE, PUBLISH), {"$ref": "Region"}),
    Field("point", _COORDINATES, (SUBSCRIBE, MOVE, PUBLISH), {"$ref": "Point"}),
    Field("top", _TOP, (SUBSCRIBE,), {"$ref": "Top"}),
    Field(
        "at", NUMBER, _ALL,
        {
            "type": "number",
            "description": "Event time in seconds. Never before that of an earlier event; without "
            "it, the server's clock.",
            "example": 1700000000.0,
        },
    ),
    Field(
        "ttl", NUMBER, (SUBSCRIBE, MOVE, PUBLISH),
        {
            "type": "number",
            "minimum": 0,
            "description": "Seconds for which a message stays active, or a subscription exists.",
        },
    ),
    Field(
        "properties", JSON, (PUBLISH,),
        {
            "type": "object",
            "description": "What queries may ask for, as in `price:<500`; at most 64 KiB.",
            "example": {"price": 199},
        },
        carried=True,
    ),
    Field(
        "filter", TEXT, (SUBSCRIBE,),
        {
            "type": "string",
            "description": "A query that messages must satisfy to be ranked; beside top.",
            "example": "contract:full-time",
        },
    ),
    Field(
        "meta", JSON, (SUBSCRIBE,),
        {"type": "object", "description": "Given back with every update; at most 4 KiB."},
    ),
    Field(
        "ops", Many(TEXT), (SUBSCRIBE,),
        {
            "type": "array",
            "items": {"type": "string", "enum": list(OPS)},
            "minItems": 1,
            "description": "The kinds of update it gets; by default all.",
        },
    ),
)  # fmt: skip
"""The fields of the event log, in the order in which they are written."""

UPDATE_FIELDS = (
    Field("event", WHOLE),
    Field("op", TEXT),
    Field("subscription", TEXT),
    Field("message", TEXT),
    Field("score", NUMBER, about={"type": "number", "example": 0.73}),
)
"""The fields of updates, in the order in which they are written."""


CARRIED = {field.name: field.kind for field in EVENT_FIELDS if field.carried}
"""The fields of messages that are kept as they are and given back, with their kinds."""


def carried_in(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a message carries, from its fields in JSON form."""
    return {name: fields[name] for name in CARRIED if fields.get(name) is not None}


def fields_of(op: str) -> tuple[Field, ...]:
    """The fields that a kind of event can have, without its `op`."""
    return tuple(field for field in EVENT_FIELDS if op in field.events and field.name != "op")


STRUCTURED = tuple(
    field.name for field in EVENT_FIELDS if field.kind == JSON or not isinstance(field.kind, str)
)
"""The fields of events that can be given as JSON text in a column."""
