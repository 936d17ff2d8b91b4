"""Subscriptions, messages, updates and results as HTML, for notebooks: tables, and a plain map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from nearcast.events.values import Message, Result, Subscription, Update
from nearcast.geo import Box, Circle, MultiPolygon, Polygon, Region

MOST_ROWS = 50
MOST_SHOWN = 300  # subscriptions of an engine on its map
_LISTED = 10  # and in its table
_WIDTH, _HEIGHT, _MARGIN = 640, 320, 14
_METRES_PER_DEGREE = 111_195.0
_SHAPE = 'fill="#0d8a80" fill-opacity=".12" stroke="#0d8a80"'
_POINT = 'fill="#d81b60"'


def as_html(things: Sequence[Any]) -> str | None:
    """Write a list of values of one kind as a table; None for anything else."""
    kind = type(things[0]) if things else None
    if kind not in _ROWS or any(type(each) is not kind for each in things):
        return None
    rows = [_ROWS[kind](each) for each in things[:MOST_ROWS]]
    names = [name for name in rows[0] if any(row[name] != "" for row in rows)]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(row[name])}</td>" for name in names) + "</tr>"
        for row in rows
    )
    more = len(things) - len(rows)
    note = f"<p>{more:,} more</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def about_engine(name: str, some: Sequence[Subscription]) -> str:
    """Show an engine by its name and some of its subscriptions, on a map and as a table."""
    return f"<p>{escape(name)}</p>" + map_of(some) + (as_html(some[:_LISTED]) or "")


def map_of(subscriptions: Iterable[Subscription], messages: Iterable[Message] = ()) -> str:
    """Draw regions and points as SVG, in degrees, in the smallest frame that holds them."""
    regions = [each.region for each in subscriptions if each.region is not None]
    points = [each.point for each in messages if each.point is not None]
    corners = [corner for region in regions for corner in _corners(region)]
    corners += [((lon, lat), (lon, lat)) for lon, lat in points]
    if not corners:
        return ""
    west = min(low[0] for low, _ in corners)
    south = min(low[1] for low, _ in corners)
    east = max(high[0] for _, high in corners)
    north = max(high[1] for _, high in corners)
    squeeze = math.cos(math.radians((south + north) / 2)) or 1.0
    across, up = max((east - west) * squeeze, 1e-9), max(north - south, 1e-9)
    scale = min((_WIDTH - 2 * _MARGIN) / across, (_HEIGHT - 2 * _MARGIN) / up)

    def at(lon: float, lat: float) -> str:
        return (
            f"{_MARGIN + (lon - west) * squeeze * scale:.1f},{_MARGIN + (north - lat) * scale:.1f}"
        )

    shapes = [f'<path d="{_outline(region, at)}" {_SHAPE}/>' for region in regions]
    shapes += [
        '<circle cx="{}" cy="{}" r="3.5" {}/>'.format(*at(*point).split(","), _POINT)
        for point in points
    ]
    bounds = f"{west:g}, {south:g} to {east:g}, {north:g}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="Regions in {bounds}">{"".join(shapes)}</svg><p>{bounds}</p>'
    )


def _corners(region: Region) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    for west, south, east, north in region.bounds():
        yield (west, south), (east, north)


def _outline(region: Region, at: Any) -> str:
    """The border of a region as a path; one across the antimeridian is drawn on both sides."""
    if isinstance(region, Polygon | MultiPolygon):
        several = [region.coordinates] if isinstance(region, Polygon) else region.coordinates
        return "".join(_ring(ring, at) for rings in several for ring in rings)
    if isinstance(region, Circle):
        lon, lat = region.center
        up = region.radius / _METRES_PER_DEGREE
        wide = up / max(math.cos(math.radians(lat)), 0.01)
        turns = [2 * math.pi * step / 48 for step in range(48)]
        return _ring([(lon + wide * math.cos(t), lat + up * math.sin(t)) for t in turns], at)
    boxes = region.bounds() if isinstance(region, Box) else ()
    return "".join(_ring([(w, s), (e, s), (e, n), (w, n)], at) for w, s, e, n in boxes)


def _ring(ring: Iterable[tuple[float, float]], at: Any) -> str:
    return "M" + " L".join(at(*position) for position in ring) + "Z"


def _place(region: Region | None, point: tuple[float, float] | None) -> str:
    if point is not None:
        return f"{point[0]:g}, {point[1]:g}"
    if isinstance(region, Circle):
        return f"{region.radius:,.0f} m around {region.center[0]:g}, {region.center[1]:g}"
    return "anywhere" if region is None else type(region).__name__


def _subscription(each: Subscription) -> dict[str, str]:
    top = "" if each.top is None else f"the {each.top.k} best"
    where = _place(each.region, each.point)
    return {"subscription": each.id, "query": each.query or "", "where": where, "top": top}


def _message(each: Message) -> dict[str, str]:
    properties = ", ".join(f"{name}: {value}" for name, value in (each.properties or {}).items())
    where = _place(each.region, each.point)
    return {"message": each.id, "text": each.text or "", "where": where, "properties": properties}


def _update(each: Update) -> dict[str, str]:
    text = (each.body or {}).get("text")
    return {
        "op": each.op,
        "subscription": each.subscription,
        "message": each.message,
        "score": "" if each.score is None else f"{each.score:.4f}",
        "text": text or "",
    }


def _result(each: Result) -> dict[str, str]:
    return {"message": each.message, "score": "" if each.score is None else f"{each.score:.4f}"}


_ROWS: dict[Any, Any] = {
    Subscription: _subscription,
    Message: _message,
    Update: _update,
    Result: _result,
}
