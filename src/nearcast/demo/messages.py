"""The messages of the demo: deals, active incidents, and concerts that compete for top-k.

They are all made up, shops included; only the names of the suburbs are real.
"""

from __future__ import annotations

from typing import Any

from nearcast.demo.city import SUBURBS, City

THINGS = (
    "pizza", "pineapple pizza", "sushi", "ramen", "dumplings", "laksa", "tacos", "gelato", "coffee",
    "croissants", "oysters", "burgers", "vinyl records", "running shoes", "surfboards", "wetsuits",
    "city bikes", "camping tents", "headphones", "iPad", "cameras", "board games", "novels",
    "pot plants", "armchairs", "espresso machines", "yoga mats", "swim goggles", "guitars",
    "umbrellas",
)  # fmt: skip
SHOPS = (
    "Bexley's", "Corner & Co", "The Tin Drum", "Halyard", "Nine Lives", "Maison Ott", "Blue Heron",
    "Salt & Cedar", "Paper Moon", "The Little Anchor", "Quill", "Fig Tree", "Old Ferry Store",
)  # fmt: skip
_DISCOUNTS = ("10% off", "20% off", "30% discount on", "half price", "two for one on", "last")
_DEALS = (
    "{discount} {thing} at {shop}, {suburb}",
    "{shop} in {suburb}: {thing} on sale, {discount} today",
    "Tonight only at {shop}, {suburb}: {discount} {thing}",
)
_INCIDENTS = (
    ("Accident near {suburb}, traffic slow", 240),
    ("Road closed in {suburb}, burst water main", 300),
    ("Light rail stopped at {suburb}, expect delays", 180),
    ("Bus delays around {suburb}", 180),
    ("Power cut in parts of {suburb}", 300),
    ("Fire brigade called to {suburb}, road closed", 240),
)
_STORMS = (
    "Storm warning for {suburb}: hail and strong wind",
    "Heavy rain over {suburb}, flood in low streets",
)
_CONCERTS = (
    "Jazz trio tonight in {suburb}",
    "Late blues session in {suburb}, free entry",
    "Open air jazz and blues festival, {suburb}",
    "Brass band plays jazz standards in {suburb}",
    "Folk and blues at {shop}, {suburb}",
)


class MessageGenerator:
    """Generates an endless stream of messages in the JSON of the API."""

    def __init__(self, city: City) -> None:
        self._city = city
        self._count = 0

    def first(self) -> dict[str, Any]:
        """The message to begin with: one that concerns the visitor, see `people.yours`."""
        return {
            "id": "m0",
            "text": "Half price sushi at Fig Tree, Newtown",
            "point": SUBURBS["Newtown"],
        }

    def next(self) -> dict[str, Any]:
        """Make up the next message."""
        self._count += 1
        city, random = self._city, self._city.random
        suburb = city.suburb()
        message: dict[str, Any] = {"id": f"m{self._count}", "point": city.point(suburb)}
        names = {"suburb": suburb, "shop": random.choice(SHOPS)}
        kind = random.random()
        if kind < 0.66:
            names |= {"discount": random.choice(_DISCOUNTS), "thing": random.choice(THINGS)}
            text = random.choice(_DEALS)
        elif kind < 0.84:
            text, message["ttl"] = random.choice(_INCIDENTS)
            _widen(message, 0.002)
        elif kind < 0.87:
            text, message["ttl"] = random.choice(_STORMS), 300
            _widen(message, 0.01)
        else:
            text = random.choice(_CONCERTS)
        written = text.format(**names)
        return message | {"text": written[0].upper() + written[1:]}


def _widen(message: dict[str, Any], degrees: float) -> None:
    """Have a message cover a box around its point, about as wide as it is high."""
    lon, lat = message.pop("point")
    wide = 1.2 * degrees
    edges = (lon - wide, lat - degrees, lon + wide, lat + degrees)
    message["region"] = {"type": "Box", "bbox": [round(edge, 5) for edge in edges]}
