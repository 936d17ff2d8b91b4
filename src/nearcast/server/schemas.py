"""JSON schemas of all bodies and responses of the API, for `/openapi.json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nearcast.events.fields import (
    EVENT_FIELDS,
    MOVE,
    PUBLISH,
    SUBSCRIBE,
    UPDATE_FIELDS,
    Field,
    fields_of,
)
from nearcast.geo.codec import AREAS, SHAPES, RegionShape

Schema = dict[str, Any]

_LON = {"type": "number", "minimum": -180, "maximum": 180}
_LAT = {"type": "number", "minimum": -90, "maximum": 90}
_POINT: Schema = {
    "type": "array",
    "description": "Longitude and latitude in degrees, WGS 84.",
    "items": {"type": "number", "minimum": -180, "maximum": 180},
    "minItems": 2,
    "maxItems": 2,
    "example": [151.21, -33.87],
}
_COUNT: Schema = {"type": "integer", "minimum": 0, "example": 3}
_ROLE: Schema = {"type": "string", "enum": ["primary", "standby", "fenced"]}


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def _described(fields: Iterable[Field]) -> dict[str, Schema]:
    """Fields as properties of an object."""
    return {
        each.name: ref(each.about["$ref"]) if "$ref" in each.about else each.about
        for each in fields
    }


def _object(properties: dict[str, Schema], required: tuple[str, ...] = (), **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def _example(name: str, shape: RegionShape) -> dict[str, Any]:
    return {"type": name} | dict(zip(shape.fields, shape.example or (), strict=True))


_EVENT = _described(EVENT_FIELDS)
_ID, _QUERY, _AT = _EVENT["id"], _EVENT["query"], _EVENT["at"]
_SCORE = _described(UPDATE_FIELDS)["score"]
_SUBSCRIPTION = {
    name: about for name, about in _described(fields_of(SUBSCRIBE)).items() if name != "at"
}
_MESSAGE = _described(fields_of(PUBLISH)) | {"id": {**_ID, "example": "m1"}, "region": ref("Area")}

_SHAPES = {
    name: _object(
        {"type": {"type": "string", "enum": [name]}}
        | {name: field.about for name, field in shape.fields.items()},
        ("type", *shape.fields),
        **({} if shape.example is None else {"example": _example(name, shape)}),
    )
    for name, shape in SHAPES.items()
}
_TOP = _object(
    {
        "k": {"type": "integer", "minimum": 1, "maximum": 1000},
        "alpha": {"type": "number", "minimum": 0, "maximum": 1},
        "scale": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Metres within which nearness falls to 0.",
        },
        "min_score": {"type": "number", "description": "What scores less is no result."},
    },
    ("k", "alpha"),
    description="Ask for the k best only; alpha weighs nearness against likeness.",
    example={"k": 20, "alpha": 0.5},
)
_SUBSCRIPTION_EXAMPLE = {
    "id": "s1",
    "query": "ipad AND (discount OR sale)",
    "region": {"type": "Circle", "center": [151.2, -33.87], "radius": 2000},
}
_MESSAGE_EXAMPLE = {"id": "m1", "text": "iPad sale!", "point": [151.21, -33.87]}
_REFUSED = _object(
    {"line": {"type": "integer"}, "type": {"type": "string"}, "detail": {"type": "string"}},
    ("line", "type", "detail"),
)
_BULK: dict[str, Schema] = {
    "accepted": _COUNT,
    "refused": _COUNT,
    "updates": _COUNT,
    "errors": {
        "type": "array",
        "description": "Why lines were refused: the first thousand of them.",
        "items": _REFUSED,
    },
}
_WEBHOOK_OUT: dict[str, Schema] = {
    "subscription": _ID,
    "url": {"type": "string"},
    "after": {"type": "integer", "description": "The last update that was delivered."},
    "failures": {"type": "integer", "description": "Attempts in a row that failed."},
    "error": {"type": ["string", "null"], "description": "Why the last attempt failed."},
}
_TERM = _object({"term": {"type": "string"}, "found": {"type": "boolean"}}, ("term", "found"))
_OPERAND: dict[str, Schema] = {
    "operand": {"type": "string", "description": "As in the query, such as price:<9."},
    "means": {"type": "string", "description": "The same in words."},
}
_HELD = _object(_OPERAND | {"holds": {"type": "boolean"}}, (*_OPERAND, "holds"))

SCHEMAS: dict[str, Schema] = {
    "Point": _POINT,
    **_SHAPES,
    "Region": {"oneOf": [ref(name) for name in SHAPES]},
    "Area": {"oneOf": [ref(name) for name in AREAS]},
    "Top": _TOP,
    "NewSubscription": _object(
        _SUBSCRIPTION | {"at": _AT},
        description="A query, a region or both; or a query with a point and top, and perhaps a "
        "filter and a region. Without an id it gets one.",
        example=_SUBSCRIPTION_EXAMPLE,
    ),
    "Subscription": _object(_SUBSCRIPTION, ("id",), example=_SUBSCRIPTION_EXAMPLE),
    "ChangedSubscription": _object(
        _SUBSCRIPTION | {"updates": _COUNT},
        ("id", "updates"),
        example=_SUBSCRIPTION_EXAMPLE | {"updates": 0},
    ),
    "Move": _object(
        _described(each for each in fields_of(MOVE) if each.name != "id"),
        description="A region; for a top-k subscription a point, a region or both.",
        example={"region": {"type": "Circle", "center": [151.3, -33.9], "radius": 2000}},
    ),
    "Page": _object(
        {
            "subscriptions": {"type": "array", "items": ref("Subscription")},
            "next": {"type": ["string", "null"], "description": "`after` for the next page."},
        },
        ("subscriptions", "next"),
    ),
    "Results": _object(
        {
            "results": {
                "type": "array",
                "items": _object(
                    {"message": _ID, "score": _SCORE} | _MESSAGE, ("message",), example={}
                ),
            }
        },
        ("results",),
    ),
    "NewMessage": _object(
        _MESSAGE,
        description="A text, properties or both, at a point or over an area. Without an id it "
        "gets one.",
        example=_MESSAGE_EXAMPLE,
    ),
    "Message": _object(_MESSAGE, ("id", "at"), example=_MESSAGE_EXAMPLE | {"at": 1700000000.0}),
    "Matches": _object(
        {
            "matches": {
                "type": "array",
                "items": _object({"subscription": _ID, "score": _SCORE}, ("subscription",)),
            }
        },
        ("matches",),
        example={"matches": [{"subscription": "s1"}]},
    ),
    "Published": _object(
        {"id": _ID, "updates": _COUNT}, ("id", "updates"), example={"id": "m1", "updates": 3}
    ),
    "Bulk": _object(_BULK, tuple(_BULK)),
    "NumberedBulk": _object(
        _BULK | {"seqs": {"type": "array", "items": {"type": ["integer", "null"]}}},
        (*_BULK, "seqs"),
    ),
    "Query": _object(
        {"query": _QUERY, "top": ref("Top")}, ("query",), example={"query": "pizza NOT pineapple"}
    ),
    "CheckedQuery": _object(
        {
            "valid": {"type": "boolean"},
            "reads": {"type": "string"},
            "terms": {"type": "array", "items": {"type": "string"}},
            "operands": {"type": "array", "items": _object(_OPERAND, tuple(_OPERAND))},
            "hints": {"type": "array", "items": {"type": "string"}},
            "error": {"type": "string"},
            "position": {"type": "integer"},
        },
        ("valid",),
        example={
            "valid": True,
            "reads": "pizza AND NOT pineapple AND price:<9",
            "terms": ["pineapple", "pizza"],
            "operands": [{"operand": "price:<9", "means": "price is less than 9"}],
            "hints": [],
        },
    ),
    "Explanation": _object(
        {
            "matches": {"type": "boolean"},
            "text": _object(
                {
                    "matches": {"type": "boolean"},
                    "terms": {"type": "array", "items": {"type": "string"}},
                    "alternatives": {
                        "type": "array",
                        "items": _object(
                            {
                                "required": {"type": "array", "items": _TERM},
                                "excluded": {"type": "array", "items": _TERM},
                                "having": {"type": "array", "items": _HELD},
                                "lacking": {"type": "array", "items": _HELD},
                                "found_by": {
                                    "type": "string",
                                    "enum": ["terms", "range", "property", "place"],
                                },
                                "rarest_of": {"type": "array", "items": {"type": "string"}},
                            }
                        ),
                    },
                },
                ("matches", "terms"),
            ),
            "filter": _object({"matches": {"type": "boolean"}}, ("matches",)),
            "space": _object({"matches": {"type": "boolean"}}, ("matches",)),
            "top": _object({"score": {"type": ["number", "null"]}}),
            "result": {"type": "boolean", "description": "Whether it is a result now."},
        },
        ("matches", "text"),
    ),
    "NewWebhook": _object(
        {
            "url": {"type": "string", "example": "https://example.org/hook"},
            "secret": {"type": "string", "description": "whsec_..., or none to get a new one."},
            "after": {"type": "integer", "minimum": 0},
        },
        ("url",),
    ),
    "Webhook": _object(_WEBHOOK_OUT, ("subscription", "url", "after")),
    "MadeWebhook": _object(
        _WEBHOOK_OUT | {"secret": {"type": "string"}}, ("subscription", "url", "after", "secret")
    ),
    "DeadLetters": _object(
        {
            "letters": {
                "type": "array",
                "items": _object(
                    {
                        "id": {"type": "integer"},
                        "subscription": _ID,
                        "update": {"type": "integer"},
                        "body": {"type": "object"},
                        "error": {"type": "string"},
                        "at": {"type": "number"},
                    },
                    ("id", "subscription", "update", "body", "error", "at"),
                ),
            },
            "next": {"type": ["integer", "null"]},
        },
        ("letters", "next"),
    ),
    "Backup": _object({"name": {"type": "string"}}, ("name",)),
    "Replication": _object(
        {
            "id": {"type": "string"},
            "role": _ROLE,
            "term": _COUNT,
            "tenants": {
                "type": "object",
                "additionalProperties": {"type": ["integer", "null"]},
                "description": "By tenant: the number of its latest commit; null if not open.",
            },
        },
        ("id", "role", "term", "tenants"),
    ),
    "Promoted": _object(
        {
            "role": _ROLE,
            "term": _COUNT,
            "fenced": {"type": "boolean", "description": "The old primary accepts no changes."},
            "caught_up": {"type": "boolean", "description": "It had nothing more to give."},
            "tenants": {
                "type": "object",
                "additionalProperties": _object({"position": _COUNT, "last_update": _COUNT}),
            },
        },
        ("role", "term", "fenced", "caught_up", "tenants"),
    ),
    "Fence": _object(
        {
            "term": {"type": "integer", "minimum": 1, "maximum": 2**53},
            "primary": {"type": ["string", "null"], "description": "Where changes go now."},
        },
        ("term",),
    ),
    "Fenced": _object(
        {
            "role": _ROLE,
            "term": _COUNT,
            "positions": {"type": "object", "additionalProperties": _COUNT},
        },
        ("role", "term", "positions"),
    ),
    "Replayed": _object({"replayed": _COUNT}, ("replayed",)),
    "Problem": _object(
        {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "field": {"type": "string"},
            "position": {"type": "integer"},
        },
        ("type", "title", "status", "detail"),
        description="RFC 9457.",
        example={
            "type": "urn:nearcast:problem:invalid-value",
            "title": "Invalid value",
            "status": 422,
            "detail": "point[1]: 91 given; expected a latitude in [-90, 90]",
            "field": "point[1]",
        },
    ),
}
