"""Limits that the server sets beyond those of the engine: it refuses what costs too much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nearcast.errors import InvalidValue
from nearcast.server.config import Config, Limits


def check_query(query: object, limits: Limits, field: str = "query") -> None:
    """Refuse a query that is too long to parse while others wait.

    With parentheses a short one can have many conjuncts of many terms. Without any it expands to
    what it says, so it may be longer.
    """
    if not isinstance(query, str):
        return
    nested, flat = limits.query_characters, limits.flat_query_characters
    if len(query) > (nested if "(" in query else flat):
        expected = f"at most {nested:,} characters, or {flat:,} without parentheses"
        raise InvalidValue(field, query, expected)


def check_fields(fields: Mapping[str, Any], config: Config) -> None:
    """Refuse a query, text or region so large that it would delay other requests.

    Also refuse a time far ahead of the clock: no event may be earlier than one before it.
    """
    limits = config.limits
    _check_time(fields.get("at"), config)
    check_query(fields.get("query"), limits)
    check_query(fields.get("filter"), limits, "filter")
    text = fields.get("text")
    if isinstance(text, str) and len(text) > limits.text_characters:
        raise InvalidValue("text", text, f"at most {limits.text_characters:,} characters")
    region = fields.get("region")
    if isinstance(region, Mapping):
        positions, most = _positions(region.get("coordinates")), limits.region_positions
        if positions > most:
            raise InvalidValue(
                "region.coordinates", f"{positions:,} positions", f"at most {most:,}"
            )


def _positions(coordinates: object) -> int:
    """The number of positions in the rings of a polygon, or of several."""
    if not isinstance(coordinates, list):
        return 0
    rings = [each for each in coordinates if isinstance(each, list)]
    inner = [ring for each in rings for ring in each if isinstance(ring, list)]
    if any(isinstance(position, list) for ring in inner for position in ring):
        return sum(len(ring) for ring in inner)
    return sum(len(ring) for ring in rings)


def _check_time(at: object, config: Config) -> None:
    if isinstance(at, int | float) and at > config.clock() + config.lead_s:
        raise InvalidValue(
            "at",
            at,
            f"at most {config.lead_s:g} s ahead of the server's clock, {config.clock():.0f}; "
            "'nearcast serve --max-lead' allows more",
        )
