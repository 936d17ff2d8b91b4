"""Figures 15 to 20 of Skype: what keywords, k, sizes, Zipf's law and a window of seconds change."""

from __future__ import annotations

from nearcast_lab.bench.topk import OURS
from nearcast_lab.experiments.claims import claim_of, falls, listed, rises
from nearcast_lab.experiments.topk_runs import (
    RIVAL,
    SKYPE,
    Series,
    TopkScale,
    point,
    stream,
    whole,
)
from nearcast_lab.progress import Progress
from nearcast_lab.report import Claim

_KS = (10, 20, 50)
_NOISE = 0.1


def effects(scale: TopkScale, progress: Progress) -> tuple[list[Series], list[Claim]]:
    """Figures 15 to 18: keywords, k, subscriptions, window; ours beside Skype."""
    series: list[Series] = []
    sizes = (scale.subscriptions // 4, scale.subscriptions // 2, scale.subscriptions)
    varied = {
        ("15", "max_keywords"): (1, 3, 5),
        ("16", "k"): _KS,
        ("17", "subscriptions"): sizes,
        ("18", "window"): (scale.window // 4, scale.window // 2, scale.window),
    }
    for (number, name), values in varied.items():
        for value in values:
            for method in (OURS, SKYPE):
                run = stream(scale, method, progress, {name: value})
                series.append(point(number, name, value, run))
    rows = {
        number: [row for row in series if row["method"] == SKYPE and row["figure"] == number]
        for number, _ in varied
    }
    arriving = {number: [row["arriving_us"] for row in each] for number, each in rows.items()}
    expiring = {number: [row["expiring_us"] for row in each] for number, each in rows.items()}
    visited = {number: [row["visited"] for row in each] for number, each in rows.items()}
    both = {
        number: [a + e for a, e in zip(arriving[number], expiring[number], strict=True)]
        for number in rows
    }
    growth = sizes[-1] / sizes[0]
    return series, [
        claim_of(
            "15", "arriving messages cost more with more keywords (up to 1, 3, 5)",
            f"{listed(arriving['15'])} us, {listed(visited['15'])} postings looked at",
            {"postings": rises(visited["15"]), "time": rises(arriving["15"], _NOISE)},
        ),
        claim_of(
            "16", "cost grows with k, and slowly (10, 20, 50)",
            f"{listed(both['16'])} us, {listed(visited['16'])} postings looked at",
            {
                "grows": rises(both["16"], _NOISE),
                "less than half in proportion": both["16"][-1] < 2.5 * both["16"][0],
            },
            "buffers and thresholds follow k: buffers hold "
            f"{listed([row['buffer_size'] for row in rows['16']])} messages",
        ),
        claim_of(
            "17", "cost grows no faster than the number of subscriptions (a quarter, a half, all)",
            f"{listed(both['17'])} us, {listed(visited['17'])} postings looked at",
            {
                "postings": visited["17"][-1] <= (1 + _NOISE) * growth * visited["17"][0],
                "time": both["17"][-1] <= (1 + _NOISE) * growth * both["17"][0],
            },
        ),
        claim_of(
            "18", "in a larger window arriving messages cost less, and expiring ones about the "
            "same (a quarter, a half, all)",
            f"{listed(arriving['18'])} and {listed(expiring['18'])} us; {listed(visited['18'])} "
            "postings looked at",
            {
                "postings": falls(visited["18"]),
                "arriving": falls(arriving["18"], _NOISE),
                "expiring, within a factor of 2": max(expiring["18"]) <= 2 * min(expiring["18"]),
            },
            "subscriptions that fewer than k messages match buffer whatever comes; the larger the "
            "window, the fewer they are: "
            f"{listed([row['reevaluations_per_1000'] for row in rows['18']])} re-evaluations a "
            f"thousand messages, {listed([row['buffer_size'] for row in rows['18']])} buffered",
        ),
    ]  # fmt: skip


def others(scale: TopkScale, progress: Progress) -> tuple[list[Series], list[Claim]]:
    """Figures 19 and 20: keywords by Zipf's law, and a window of seconds; beside CIQ with kmax."""
    methods = (OURS, SKYPE, RIVAL)
    series: list[Series] = []
    cost: dict[tuple[str, str, int], float] = {}
    expiring: dict[tuple[str, int], float] = {}
    for place, source in enumerate(("message", "zipf")):
        for method in methods:
            run = stream(scale, method, progress, {"keywords": source})
            cost[source, method, 0] = whole(run)
            series.append(point("19", "keywords: message, zipf", place, run))
    for k in _KS:
        for method in methods:
            run = stream(scale, method, progress, {"k": k}, timed=True)
            cost["timed", method, k], expiring[method, k] = whole(run), run["expiring_us"]
            series.append(point("20", "k, window of seconds", k, run))
    changed = {m: cost["zipf", m, 0] / cost["message", m, 0] for m in methods}
    gains = {m: [cost["timed", RIVAL, k] / cost["timed", m, k] for k in _KS] for m in methods}
    expired = [expiring[RIVAL, k] / expiring[SKYPE, k] for k in _KS]
    return series, [
        claim_of(
            "19", "keywords drawn by Zipf's law cost about what keywords of messages do",
            f"Skype {changed[SKYPE]:.1f}x, CIQ with kmax {changed[RIVAL]:.1f}x, "
            f"ours {changed[OURS]:.1f}x",
            {"within a factor of 2": 0.5 <= changed[SKYPE] <= 2},
            "other lists are read, and thresholds are others",
        ),
        claim_of(
            "20", "in a window of seconds Skype is faster than CIQ with kmax (k = 10, 20, 50)",
            f"{listed(gains[SKYPE], 'x')}; expiring messages alone {listed(expired, 'x')}; "
            f"ours {listed(gains[OURS], 'x')}",
            {f"k = {k}": gain > 1 for k, gain in zip(_KS, gains[SKYPE], strict=True)}
            | {f"expiring, k = {k}": gain > 1 for k, gain in zip(_KS, expired, strict=True)},
            "as for figure 13a: every message looks up its terms in every cell",
        ),
        claim_of(
            "20", "it is an order of magnitude faster",
            listed(gains[SKYPE], "x"),
            {f"k = {k}": gain >= 8 for k, gain in zip(_KS, gains[SKYPE], strict=True)},
            "as for figures 13a and 14",
        ),
    ]  # fmt: skip
