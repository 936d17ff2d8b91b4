"""AP-Tree, sections I and V: how far ahead of the compared indexes it is."""

from __future__ import annotations

from collections.abc import Mapping

from nearcast_lab.experiments.boolean.compared import ANYWHERE, dataset
from nearcast_lab.experiments.boolean.findings import AP_TREE, OURS, Findings
from nearcast_lab.experiments.boolean.lab import BooleanWorld, IndexRun, Lab
from nearcast_lab.report import Claim, claim, figure

PRINTED, AGAIN = "ap-tree", "ap-tree:cut=again"
RIVALS = ("iq-tree", "rq-tree", "rt-tree", "keyword-trie")
ON_TWEETS = (2.0, 10.0)
"""From and to how many times the second best, on tweets."""
ON_GN = 30.0
"""Up to how many times the second best, on place names."""
TIME, ROWS = "us of CPU a message", "rows looked at a message"


def leads(runs: Mapping[str, IndexRun], tree: str) -> dict[str, float]:
    """How many times the cost of a tree its best rival has, by what is counted."""
    best = {
        TIME: min(runs[name].us for name in RIVALS),
        ROWS: min(runs[name].candidates for name in RIVALS),
    }
    own = {TIME: runs[tree].us, ROWS: runs[tree].candidates}
    return {unit: best[unit] / max(own[unit], 1e-9) for unit in best}


def parts(tweets: float, gn: float) -> list[bool]:
    """Which parts of the claim hold: the lead on tweets, and the one on place names."""
    return [tweets >= ON_TWEETS[0], gn >= ON_GN]


def lead(lab: Lab) -> Findings:
    """The claim that AP-Tree is 2 to 10 times ahead on tweets, and up to 30 times on GN."""
    lab.begin("AP-Tree: its lead")
    labels = [PRINTED, AGAIN, *RIVALS, OURS]
    runs: dict[str, dict[str, IndexRun]] = {}
    for name in ("TWEETS", "ANYWHERE", "GN"):
        runs[name] = lab.runs(labels, _world(lab, name))
    names = list(runs)
    us = {label: [runs[name][label].us for name in names] for label in labels}
    rows = {label: [runs[name][label].candidates for name in names] for label in labels[:-1]}
    figures = [
        figure(AP_TREE, "12a, lead", "Datasets: matching", "dataset", names, us, bars=True),
        figure(AP_TREE, "12a, rows", "Datasets: rows looked at", "dataset", names, rows,
               "rows a message", bars=True),
    ]  # fmt: skip
    return figures, [judged(runs, tree, unit) for tree in (PRINTED, AGAIN) for unit in (TIME, ROWS)]


def _world(lab: Lab, name: str) -> BooleanWorld:
    if name == "ANYWHERE":
        kind, options = ANYWHERE
        return lab.world(lab.scale.subscriptions, kind, **options)
    return dataset(lab, name)


def judged(runs: Mapping[str, Mapping[str, IndexRun]], tree: str, unit: str) -> Claim:
    """Hold what was measured on each dataset against the claim, in time or in rows."""
    ahead = {name: leads(run, tree)[unit] for name, run in runs.items()}
    which = "as printed" if tree == PRINTED else "with cut=again, which is ours"
    matched = ", ".join(f"{name} {run[tree].matches:.1f}" for name, run in runs.items())
    return claim(
        AP_TREE, "12a", f"AP-Tree ({which}) is {ON_TWEETS[0]:g} to {ON_TWEETS[1]:g} times as good "
        f"as the second best on TWEETS and up to {ON_GN:g} times on GN, in {unit}",
        ", ".join(f"{name} {times:.2f}x" for name, times in ahead.items()) + " the second best",
        parts(ahead["TWEETS"], ahead["GN"]),
        f"matches a message: {matched}. The best rivals file a row under its rarest term, and so "
        "look at few rows more than match",
    )  # fmt: skip
