"""Section 8 of Skype (VLDB J.): what its figures claim, and what is measured here.

Data are made up (`nearcast generate topk`), not the paper's tweets, and the message index is ours
for all methods; so ratios are compared, not microseconds. Each claim is judged by predicates, and
what was counted, which does not depend on the machine, is beside each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from nearcast_lab.bench.distribution import DistributionSetup, Row
from nearcast_lab.bench.topk import Matching
from nearcast_lab.charts import Figure
from nearcast_lab.experiments import topk_distributed
from nearcast_lab.experiments.claims import SKYPE_PAPER
from nearcast_lab.experiments.topk_dissemination import dissemination
from nearcast_lab.experiments.topk_effects import effects, others
from nearcast_lab.experiments.topk_reevaluation import reevaluation
from nearcast_lab.experiments.topk_runs import Series, TopkScale
from nearcast_lab.progress import Progress
from nearcast_lab.report import Claim, Report, figure

EMBEDDED, DISTRIBUTED = "8.1", "8.2"
SECTIONS = (EMBEDDED, DISTRIBUTED)


class TopkExperimentReport(TypedDict):
    """All that was found."""

    subscriptions: int
    window: int
    messages: int
    claims: list[Claim]
    series: list[Series]
    matching: list[Matching]
    distribution: list[Row]


def measure(scale: TopkScale, sections: Sequence[str], progress: Progress) -> TopkExperimentReport:
    """Measure everything, one figure after another, of sections 8.1 and 8.2 or one of them."""
    report: TopkExperimentReport = {
        "subscriptions": scale.subscriptions,
        "window": scale.window,
        "messages": int(scale.turnovers * scale.window),
        "claims": [],
        "series": [],
        "matching": [],
        "distribution": [],
    }
    if EMBEDDED in sections:
        report["matching"], report["claims"] = dissemination(scale, progress)
        for part in (reevaluation, effects, others):
            series, claims = part(scale, progress)
            report["series"] += series
            report["claims"] += claims
    if DISTRIBUTED in sections:
        found = topk_distributed.measure(_arrangement(scale), progress)
        report["distribution"] = found.rows
        report["claims"] += found.claims
    return report


def _arrangement(scale: TopkScale) -> DistributionSetup:
    return DistributionSetup(
        subscriptions=scale.subscriptions,
        window=scale.window,
        messages=10 * scale.sample,
        shift=scale.shift,
        vocabulary=scale.vocabulary,
        seed=scale.seed,
    )


def report_of(found: TopkExperimentReport) -> Report:
    """Arrange what was found for a page."""
    about = (
        f"{found['subscriptions']:,} subscriptions, a window of {found['window']:,} messages, "
        f"{found['messages']:,} messages after it. Section 8.2 is simulated."
    )
    figures = [*_figures(found), *topk_distributed.figures_of(found["distribution"])]
    title = "Top-k subscriptions: Skype, section 8, measured again"
    return Report(title, about, found["claims"], figures)


def _figures(found: TopkExperimentReport) -> Iterator[Figure]:
    if found["matching"]:
        methods = [row["method"] for row in found["matching"]]
        costs = {"matching": [row["us_per_message"] for row in found["matching"]]}
        yield figure(SKYPE_PAPER, "11 to 13", "Dissemination", "method", methods, costs, bars=True)
    for number in dict.fromkeys(row["figure"] for row in found["series"]):
        rows = [row for row in found["series"] if row["figure"] == number]
        methods = list(dict.fromkeys(row["method"] for row in rows))
        if len(methods) == len(rows):  # what is varied is a part of the method's name
            costs = {
                "arriving": [row["arriving_us"] for row in rows],
                "expiring": [row["expiring_us"] for row in rows],
            }
            yield figure(SKYPE_PAPER, number, "Re-evaluation", "method", methods, costs, bars=True)
            continue
        lines = {
            name: [r["arriving_us"] + r["expiring_us"] for r in rows if r["method"] == name]
            for name in methods
        }
        points = [f"{value:g}" for value in dict.fromkeys(row["value"] for row in rows)]
        yield figure(SKYPE_PAPER, number, "Arriving and expiring", rows[0]["varied"], points, lines)
