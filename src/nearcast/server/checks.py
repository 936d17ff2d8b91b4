"""Limits that the server sets beyond those of the engine: it refuses what costs too much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nearcast.errors import InvalidValue
from nearcast.geo.codec import POLYGONS
from nearcast.server.config import Config, Limits


def check_query(query: object, limits: Limits) -> None:
    """Refuse a query that is too long to parse while others wait."""
    if isinstance(query, str) and len(query) > limits.query_characters:
        raise InvalidValue("query", query, f"at most {limits.query_characters:,} characters")


def check_fields(fields: Mapping[str, Any], config: Config) -> None:
    """Refuse a query, text or region so large that it would delay other requests.

    Also refuse a time far ahead of the clock: no event may be earlier than one before it.
    """
    limits = config.limits
    _check_time(fields.get("at"), config)
    check_query(fields.get("query"), limits)
    text = fields.get("text")
    if isinstance(text, str) and len(text) > limits.text_characters:
        raise InvalidValue("text", text, f"at most {limits.text_characters:,} characters")
    region = fields.get("region")
    if isinstance(region, Mapping):
        positions, most = _positions(region), limits.region_positions
        if positions > most:
            raise InvalidValue(
                "region.coordinates", f"{positions:,} positions", f"at most {most:,}"
            )


def _positions(region: Mapping[str, Any]) -> int:
    """How many positions the polygons of a region have."""
    given = region.get("coordinates")
    if region.get("type") != "MultiPolygon":
        return _in_rings(given)
    parts = region.get(POLYGONS) if given is None else given
    return sum(map(_in_rings, parts)) if isinstance(parts, list) else 0


def _in_rings(rings: object) -> int:
    if not isinstance(rings, list):
        return 0
    return sum(len(ring) for ring in rings if isinstance(ring, list))


def _check_time(at: object, config: Config) -> None:
    if isinstance(at, int | float) and at > config.clock() + config.lead_s:
        raise InvalidValue(
            "at",
            at,
            f"at most {config.lead_s:g} s ahead of the server's clock, {config.clock():.0f}; "
            "'nearcast serve --max-lead' allows more",
        )
