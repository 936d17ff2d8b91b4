"""Results of single subscriptions against a plain evaluation of the whole window."""

from __future__ import annotations

import numpy as np

from nearcast.geo import planar_distance
from nearcast.topk.core import TopK
from nearcast.topk.score import weighed
from nearcast_lab.workloads.topk_arrays import MessageArrays, QueryArrays, TopkArrays

_SUBSCRIPTIONS = 3  # looked at each time


class WindowCheck:
    """Keeps only the workload: messages of the window are generated again for every check."""

    def __init__(self, workload: TopkArrays, queries: QueryArrays, window: int) -> None:
        self._workload, self._queries, self._window = workload, queries, window
        self.done = 0
        self._posts: MessageArrays | None = None
        self._first = 0

    def agrees(self, core: TopK, next_number: int, seed: int) -> bool:
        """Whether some subscriptions have exactly the results they should."""
        posts = self._messages(next_number)
        chosen = np.random.default_rng(seed).integers(0, len(self._queries.points), _SUBSCRIPTIONS)
        subs = np.unique(chosen).astype(np.int32)
        members = core.members(subs)
        for place, sub in enumerate(subs.tolist()):
            rows = members.events == place
            got = list(zip(members.messages[rows], members.scores[rows], strict=True))
            if got != self._best(sub, posts, next_number - self._window, next_number):
                return False
        self.done += 1
        return True

    def _messages(self, next_number: int) -> MessageArrays:
        """The messages from the oldest of the window on, and some that are still to come."""
        first = next_number - self._window
        if self._posts is None or next_number > self._first + len(self._posts.points):
            self._first = first
            self._posts = self._workload.messages(first, next_number + self._window // 4)
        return self._posts

    def _best(
        self, sub: int, posts: MessageArrays, first: int, end: int
    ) -> list[tuple[np.int64, np.float64]]:
        queries, idf = self._queries, self._workload.idf
        terms = queries.terms[queries.starts[sub] : queries.starts[sub + 1]].tolist()
        x, y = queries.points[sub].tolist()
        squared = 0.0
        for term in terms:
            squared += float(idf[term]) * float(idf[term])
        low, high = first - self._first, end - self._first
        span = slice(posts.starts[low], posts.starts[high])
        hits = np.flatnonzero(np.isin(posts.terms[span], terms)) + posts.starts[low]
        rows = np.unique(np.searchsorted(posts.starts, hits, side="right") - 1)
        found = []
        for row in rows.tolist():
            weights, length = {}, 0.0
            for at in range(posts.starts[row], posts.starts[row + 1]):
                weight = int(posts.counts[at]) * float(idf[posts.terms[at]])
                weights[int(posts.terms[at])] = weight
                length += weight * weight
            dot = 0.0
            for term in terms:
                if term in weights:
                    dot += float(idf[term]) * weights[term]
            distance = planar_distance(x, y, *posts.points[row].tolist())
            score = weighed(
                float(queries.alphas[sub]), dot, squared, length, distance, self._workload.diagonal
            )
            found.append((score, row + self._first))
        found.sort(reverse=True)
        return [(number, score) for score, number in found[: int(queries.ks[sub])]]  # type: ignore[misc]
