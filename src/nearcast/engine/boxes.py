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
    """The bounding box of every subscription, a row each; of one in two parts, one of them."""
    if not core.plain:
        return cast("Indexed", core).boxes()
    return np.array([_box(each) for each in core.subscriptions()], np.float64).reshape(-1, 4)


def _box(subscription: Subscription) -> tuple[float, ...]:
    if subscription.region is not None:
        return subscription.region.bounds()[0]
    assert subscription.point is not None  # noqa: S101 - a subscription has a region or a point
    return (*subscription.point, *subscription.point)
