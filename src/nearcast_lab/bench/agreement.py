"""Whether indexes agree, with each other and with a plain evaluation of all subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearcast.index import Batch, match
from nearcast_lab.bench.matching import Contestant, MatchTally
from nearcast_lab.workloads.arrays import Subscriptions

_SAMPLE = 20


class DisagreementError(RuntimeError):
    """Two ways to match gave different answers: a defect, whichever is right."""


def check_agreement(labels: Sequence[str], tallies: Sequence[MatchTally]) -> None:
    """Compare the digests of all indexes over the messages that both of two have seen."""
    for label, tally in zip(labels, tallies, strict=True):
        for other, reference in zip(labels, tallies, strict=True):
            pairs = zip(tally.digests, reference.digests, strict=False)
            for number, (one, another) in enumerate(pairs):
                if one != another:
                    raise DisagreementError(
                        f"{label} and {other} differ in slice {number} of the messages"
                    )


def wanted_by(
    subscriptions: Subscriptions, live: npt.NDArray[np.integer], batch: Batch, message: int
) -> list[int]:
    """Give the live subscriptions that want a message, by looking at every one of them."""
    west, south, east, north = batch.boxes[message]
    boxes = subscriptions.boxes[live]
    near = live[
        (boxes[:, 0] <= east)
        & (boxes[:, 2] >= west)
        & (boxes[:, 1] <= north)
        & (boxes[:, 3] >= south)
    ]
    terms = frozenset(batch.terms[batch.starts[message] : batch.starts[message + 1]].tolist())
    starts = subscriptions.starts
    return [
        number
        for number in near.tolist()
        if terms.issuperset(subscriptions.terms[starts[number] : starts[number + 1]].tolist())
    ]


def check_sample(
    contestants: Sequence[Contestant],
    batch: Batch,
    subscriptions: Subscriptions,
    live: npt.NDArray[np.integer],
) -> None:
    """Compare all indexes with the plain evaluation, on messages spread over the batch."""
    for message in np.linspace(0, len(batch) - 1, _SAMPLE).astype(int).tolist():
        expected = wanted_by(subscriptions, live, batch, message)
        for contestant in contestants:
            found = match(contestant.index, batch.part(message, message + 1))
            if sorted(found.owners.tolist()) != expected:
                raise DisagreementError(
                    f"{contestant.choice.label} found {len(found.owners)} subscriptions for "
                    f"message {message}; looking at all of them finds {len(expected)}"
                )
