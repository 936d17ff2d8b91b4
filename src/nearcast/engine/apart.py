"""Regions that the rows of the table do not say, kept as objects beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nearcast.arrays.types import Floats
from nearcast.events import Message
from nearcast.geo import Box, Region
from nearcast.index import Matches
from nearcast.index.table import decides


class RegionsApart(Mapping[int, Region]):
    """The regions of owners that have no rows, and of shapes that the table does not decide.

    The rows of such a shape have the boxes around it, so what they match is looked at here.
    """

    def __init__(self, regions: Mapping[int, Region] | None = None) -> None:
        self._regions = dict(regions or {})
        self.bounded = not all(map(decides, self._regions.values()))
        """Whether there ever was a region that the table does not decide."""

    def __getitem__(self, owner: int) -> Region:
        return self._regions[owner]

    def __iter__(self) -> Iterator[int]:
        return iter(self._regions)

    def __len__(self) -> int:
        return len(self._regions)

    def put(self, owner: int, region: Region, rows: int) -> None:
        """Take in the region of an owner with that many rows, if they do not say it."""
        exact = decides(region)
        self.bounded |= not exact
        if not exact or not rows:
            self._regions[owner] = region

    def drop(self, owner: int) -> None:
        """Forget the region of an owner, if it is here."""
        self._regions.pop(owner, None)

    def meets(self, owner: int, message: Message) -> bool:
        """Whether a message that an owner's rows match is in its region."""
        region = self._regions.get(owner)
        if region is None:
            return True
        if message.region is not None:
            return region.meets(message.region)
        return message.point is not None and region.contains(*message.point)

    def within(self, found: Matches, boxes: Floats) -> Matches:
        """The same for the pairs of many messages that are in plain boxes, of size 0 for points."""
        kept = np.ones(len(found.owners), np.bool_)
        apart = np.isin(found.owners, np.array([*self._regions], np.int32))
        for place in np.flatnonzero(apart).tolist():
            region, box = self._regions[int(found.owners[place])], boxes[found.messages[place]]
            is_point = box[0] == box[2] and box[1] == box[3]
            kept[place] = region.contains(*box[:2]) if is_point else region.meets(Box(*box))
        return found._replace(messages=found.messages[kept], owners=found.owners[kept])
