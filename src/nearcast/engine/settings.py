"""The settings of an engine, fixed when it is created."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nearcast.errors import InvalidValue
from nearcast.events import Point
from nearcast.geo import WORLD, Box, planar_distance
from nearcast.text import DEFAULT, Analyser, Vocabulary, idf_of
from nearcast.topk import Scorer, Window

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from nearcast.arrays.types import Floats


@dataclass(frozen=True)
class Settings:
    """The sliding window, the space and the term weights of top-k, and the text analyser.

    `secret` is that of a pipeline (`PipelineState.secret`), which sets it; engines draw their own.
    """

    window: Window = field(default_factory=Window)
    space: Box = WORLD
    history: Vocabulary | None = None
    analyser: Analyser = DEFAULT
    secret: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if self.space.west > self.space.east:
            raise InvalidValue("space", self.space, "west at most east: distances are planar")
        if self.diagonal == 0:
            raise InvalidValue("space", self.space, "a box of more than one point")

    @property
    def diagonal(self) -> float:
        """The longest distance in the space, in degrees."""
        box = self.space
        return planar_distance(box.west, box.south, box.east, box.north)

    def scorer(self) -> Scorer:
        """The score function these settings define."""
        return Scorer(self.diagonal, idf_of(self.history))

    def outside(self, points: Floats) -> npt.NDArray[np.bool_]:
        """Which of some points, as rows, are outside the space; one of NaN is not."""
        import numpy as np

        box = self.space
        if box == WORLD:
            return np.zeros(len(points), np.bool_)
        beyond = (points < (box.west, box.south)) | (points > (box.east, box.north))
        return np.asarray(beyond.any(axis=1))

    def check_inside(self, point: Point, field_name: str = "point") -> None:
        """Refuse a point outside the space, where the score is not defined."""
        if self.space is not WORLD and not self.space.contains(*point):
            box = self.space
            bounds = f"{box.west:g},{box.south:g},{box.east:g},{box.north:g}"
            raise InvalidValue(field_name, point, f"a point inside the space {bounds}")


@dataclass(frozen=True)
class GivenSettings:
    """The settings that were given explicitly; None for the others."""

    window_count: int | None = None
    window_seconds: float | None = None
    space: Box | None = None
    history: Vocabulary | None = None
    analyser: Analyser | None = None

    def settings(self) -> Settings:
        """Fill in the defaults."""
        return Settings(
            Window(self.window_count, self.window_seconds),
            WORLD if self.space is None else self.space,
            self.history,
            DEFAULT if self.analyser is None else self.analyser,
        )
