"""The bounding boxes of all subscriptions of an engine, for maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from nearcast.engine.core import EventCore
from nearcast.events import Subscription

if TYPE_CHECKING:
    from nearcast.engine.indexed import Indexed


def bounding_boxes(core: EventCore) -> npt.NDArray[np.float64]:
    """The bounding box of every subscription that has a place; of one in two parts, one of them."""
    if not core.plain:
        return cast("Indexed", core).boxes()
    boxes = [box for each in core.subscriptions() if (box := _box(each)) is not None]
    return np.array(boxes, np.float64).reshape(-1, 4)


def _box(subscription: Subscription) -> tuple[float, ...] | None:
    if subscription.point is not None:
        return (*subscription.point, *subscription.point)
    return None if subscription.region is None else subscription.region.bounds()[0]
