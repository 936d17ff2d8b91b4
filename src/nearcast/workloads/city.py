"""A made-up harbour city for the demo: its quarters, its people, and what happens there.

Port Lumen lies on no map. Its stream mixes the three modes: deals are instant, incidents last for
some minutes and are met by people on the move, concerts compete for the best places in a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.model import Event, Message, Move, Publish, Subscribe, Subscription, Top

CENTRE = (4.40, 47.20)

QUARTERS: dict[str, tuple[float, float]] = {
    "Old Harbour": (4.385, 47.195),
    "Lantern Hill": (4.405, 47.212),
    "Mint Square": (4.398, 47.203),
    "Riverside": (4.420, 47.198),
    "Glassworks": (4.432, 47.208),
    "Northgate": (4.402, 47.226),
    "Saltmarsh": (4.368, 47.186),
    "Orchard Row": (4.415, 47.183),
}

_DEALS = (
    "{discount} off {thing} at {shop}, {quarter}",
    "{shop} in {quarter}: {thing} on sale, {discount} today only",
    "Last {thing} going cheap at {shop}, {quarter}",
)
_THINGS = (
    "iPad", "running shoes", "espresso machine", "pizza", "pineapple pizza", "city bikes",
    "headphones", "ramen", "vinyl records", "camping tents", "sushi", "garden chairs",
    "e-coupon books",
)  # fmt: skip
_SHOPS = ("Bexley's", "Corner & Co", "The Tin Drum", "Halyard", "Nine Lives", "Maison Ott")
_DISCOUNTS = ("10%", "20%", "30%", "half price", "50% discount")
_INCIDENTS = (
    "Tram 4 stopped in {quarter}, expect delays",
    "Water main burst, road closed near {quarter}",
    "Accident on the ring road at {quarter}, traffic slow",
    "Power cut in parts of {quarter}",
    "Storm warning: high water expected in {quarter}",
    "Fire brigade called to {quarter}, road closed",
)
_CONCERTS = (
    "Jazz trio tonight in {quarter}",
    "Late blues session, {quarter}, free entry",
    "Open air jazz and blues festival in {quarter}",
    "Brass band plays jazz standards at {quarter}",
)

_FIRST_NAMES = (
    "Ada", "Bo", "Chidi", "Dana", "Emre", "Fay", "Goran", "Hana", "Ines", "Jun", "Kofi", "Lea",
    "Mira", "Nils", "Ola", "Pia", "Quin", "Rosa", "Sami", "Tove", "Uma", "Vito", "Wen", "Yara",
)  # fmt: skip
_WISHES = (
    "ipad AND (discount OR sale)", "pizza NOT pineapple", "road closed", "tram delays",
    "shoes OR tents OR bikes", "sale", "ramen OR sushi", "vinyl records", "storm OR flood OR water",
    "espresso sale", "power cut", "e-coupon", "headphones discount", "jazz",
)  # fmt: skip


@dataclass(frozen=True)
class Person:
    """Someone with a standing interest."""

    name: str
    wish: str
    where: str


class City:
    """The people of Port Lumen and an endless stream of what happens: one seed, one story."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)  # noqa: S311 - a story to repeat, not a secret to keep
        self.people: dict[str, Person] = {}
        self.messages: dict[str, Message] = {}

    def subscriptions(self) -> Iterator[Event]:
        """Everyone's standing interests: circles, boxes, a polygon, a ranked list, a courier."""
        quarters = list(QUARTERS.items())
        for number, name in enumerate(_FIRST_NAMES):
            quarter, centre = quarters[number % len(quarters)]
            wish = _WISHES[number % len(_WISHES)]
            radius = self._random.choice([800.0, 1500.0, 3000.0])
            region: Region = Circle(centre, radius)
            where = f"within {radius / 1000:g} km of {quarter}"
            if number % 5 == 4:
                region, where = _block(centre, 0.012), f"in the blocks around {quarter}"
            yield self._introduce(Subscription(name.lower(), wish, region), where)
        harbour = Polygon(
            [[(4.36, 47.18), (4.39, 47.18), (4.40, 47.20), (4.38, 47.21), (4.36, 47.18)]]
        )
        yield self._introduce(
            Subscription("harbour-watch", "storm OR fire OR water", harbour), "in the harbour"
        )
        yield self._introduce(
            Subscription("courier", "closed OR delays OR accident", Circle(CENTRE, 1200.0)),
            "within 1.2 km, on the move",
        )
        yield self._introduce(
            Subscription("night-owl", "jazz blues", point=CENTRE, top=Top(3, 0.5)),
            "the 3 best in town",
        )

    def _introduce(self, subscription: Subscription, where: str) -> Subscribe:
        name = subscription.id.replace("-", " ").title()
        self.people[subscription.id] = Person(name, subscription.query, where)
        return Subscribe(subscription)

    def stream(self) -> Iterator[Event]:
        """What happens, without end: a message a few seconds apart, and the courier's rounds."""
        random, at = self._random, 0.0
        for number in count(1):
            at += random.uniform(1.0, 6.0)
            if number % 4 == 0:
                lon, lat = random.choice(list(QUARTERS.values()))
                yield Move("courier", region=Circle((lon, lat), 1200.0), at=at)
            message = self._message(f"m{number}", at)
            self.messages[message.id] = message
            yield Publish(message)

    def _message(self, id: str, at: float) -> Message:
        random = self._random
        quarter, (lon, lat) = random.choice(list(QUARTERS.items()))
        point = (lon + random.gauss(0, 0.004), lat + random.gauss(0, 0.003))
        kind = random.random()
        if kind < 0.6:
            text = random.choice(_DEALS).format(
                discount=random.choice(_DISCOUNTS),
                thing=random.choice(_THINGS),
                shop=random.choice(_SHOPS),
                quarter=quarter,
            )
            return Message(id, text, point, at=at)
        if kind < 0.85:
            text = random.choice(_INCIDENTS).format(quarter=quarter)
            if text.startswith("Storm"):
                return Message(id, text, region=_block((lon, lat), 0.02), at=at, ttl=600.0)
            return Message(id, text, point, at=at, ttl=300.0)
        return Message(id, random.choice(_CONCERTS).format(quarter=quarter), point, at=at)


def _block(centre: tuple[float, float], side: float) -> Box:
    lon, lat = centre
    return Box(lon - side / 2, lat - side / 2, lon + side / 2, lat + side / 2)
