"""AP-Tree: maintenance (figures 16 and 17), and general boolean subscriptions (VLDB J., 18)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearcast.geo import Box
from nearcast_lab.bench.match import table_for
from nearcast_lab.bench.matching import add_to_table
from nearcast_lab.experiments.boolean.findings import AP_PLUS, AP_TREE, OURS, Findings, each
from nearcast_lab.experiments.boolean.lab import BooleanWorld, IndexRun, Lab, insert_rest
from nearcast_lab.report import claim, figure

_AP, _NR, _IQ, _RQ = "ap-tree", "ap-tree:rebuild=false", "iq-tree", "rq-tree"
_THRESHOLDS = (0.0001, 0.001, 0.01, 0.1, 0.5)
_SHARES = (10, 30, 50, 70, 90)
_DEFAULT = 20
_KEYWORDS = (3, 4, 5, 6, 7)
_STEPS = 50


def _grown(
    lab: Lab, labels: Sequence[str], whole: BooleanWorld, share: int
) -> tuple[dict[str, IndexRun], dict[str, float]]:
    """Build from the first `share` percent, insert the rest, and match."""
    table = table_for(whole.workload)
    world = BooleanWorld(whole.workload, whole.subscriptions, table)
    count = len(whole.subscriptions)
    first = max(1, count * share // 100)
    add_to_table(table, whole.subscriptions, 0, first)
    indexes = {label: built.made for label, built in lab.build_all(labels, world).items()}
    lab.report(f"inserting {count - first:,} subscriptions")
    taken = insert_rest(indexes, world, first, max(1, count // _STEPS))
    return lab.times(indexes, lab.messages(world)), taken


def maintenance(lab: Lab) -> Findings:
    """Figures 16 and 17."""
    lab.begin("AP-Tree: maintenance")
    whole = lab.world(lab.scale.subscriptions)
    labels = [f"ap-tree:rebuild_divergence={value}" for value in _THRESHOLDS]
    runs, taken = _grown(lab, labels, whole, _DEFAULT)
    matching, inserting = [runs[label].us for label in labels], [taken[name] for name in labels]
    names = [_AP, _NR, _IQ, _RQ, OURS]
    match_lines: dict[str, list[float]] = {name: [] for name in names}
    insert_lines: dict[str, list[float]] = {name: [] for name in names}
    for share in _SHARES:
        runs, taken = _grown(lab, names, whole, share)
        for name in names:
            match_lines[name].append(runs[name].us)
            insert_lines[name].append(taken[name])
    points = [f"{share} %" for share in _SHARES]
    steady = max(match_lines[_AP]) / min(match_lines[_AP])
    worse = match_lines[_NR][0] / match_lines[_AP][0]
    behind = [
        min(iq, rq) / ap
        for ap, iq, rq in zip(match_lines[_AP], match_lines[_IQ], match_lines[_RQ], strict=True)
    ]
    costliest = max(names, key=lambda name: insert_lines[name][0])
    return [
        figure(AP_TREE, "16", "Threshold of divergence: matching and insertion", "theta_KL",
               _THRESHOLDS, {"matching, us a message": matching,
                             "insertion, us a subscription": inserting}, "us"),
        figure(AP_TREE, "17a", "Built from a part, then grown: matching", "built at once", points,
               match_lines),
        figure(AP_TREE, "17b", "Built from a part, then grown: insertion", "built at once", points,
               insert_lines, "us a subscription"),
    ], [
        claim(
            AP_TREE, "16", "a smaller threshold matches faster and makes insertion more expensive",
            f"0.0001 to 0.5: matching {each(matching, 'us')}; insertion {each(inserting, 'us')}",
            [matching[0] < matching[-1], inserting[0] > inserting[-1]],
            "a subtree is also remade when it has doubled, so a tree that grows fivefold is "
            "rebuilt whatever the threshold",
        ),
        claim(
            AP_TREE, "17a", "AP-Tree stays as fast however it grew, and without rebuilds it is "
            "slow when it was built from little",
            f"with rebuilds within {steady:.2f}x; without, {worse:.2f} times its time when built "
            "from 10 %", [steady <= 1.5, worse >= 1.2],
            "full leaves are divided by the cost model even without rebuilds",
        ),
        claim(
            AP_TREE, "17a", "AP-Tree beats IQ- and RQ-Tree after growth",
            f"the better of them takes {each(behind)} times its time",
            [value > 1 for value in behind], "as in figure 15",
        ),
        claim(
            AP_TREE, "17b", "AP-Tree costs most to maintain, about 120 us a subscription",
            ", ".join(f"{name} {insert_lines[name][0]:.1f}" for name in names)
            + " us when built from 10 %",
            [costliest == _AP, insert_lines[_AP][0] <= 240],
            "remaking subtrees takes most of it: without, "
            f"{insert_lines[_NR][0]:.1f} us a subscription",
        ),
    ]  # fmt: skip


def _boolean_world(lab: Lab, count: int, keywords: int) -> BooleanWorld:
    """Two clauses, AND or OR within and between, as rows of disjunctive normal forms.

    Cut and operators are drawn as in `nearcast generate tweets --boolean`.
    """
    workload = lab.workload(min_keywords=keywords, max_keywords=keywords)
    subscriptions = workload.subscriptions(0, count)
    table = table_for(workload)
    random = np.random.default_rng(lab.seed)
    starts, terms = subscriptions.starts.tolist(), subscriptions.terms
    boxes = subscriptions.boxes.tolist()
    cuts, operators = random.random(count), random.integers(0, 8, count).tolist()
    for owner in range(count):
        row = terms[starts[owner] : starts[owner + 1]].tolist()
        middle = 1 + int(cuts[owner] * (len(row) - 1))
        bits = operators[owner]
        left, right = (
            [clause] if not either else [[term] for term in clause]
            for clause, either in ((row[:middle], bits & 1), (row[middle:], bits & 2))
            if clause
        ) if middle < len(row) else ([row], [])  # fmt: skip
        if bits & 4 or not right:
            conjuncts = [*left, *right]
        else:
            conjuncts = [[*one, *other] for one in left for other in right]
        table.add(owner, [(conjunct, []) for conjunct in conjuncts], Box(*boxes[owner]))
    return BooleanWorld(workload, subscriptions, table)


def expressions(lab: Lab) -> Findings:
    """Figure 18 of the journal version."""
    lab.begin("AP-Tree: general boolean subscriptions")
    labels = [_AP, _IQ, _RQ, OURS]
    by_terms: dict[str, list[float]] = {label: [] for label in labels}
    for keywords in _KEYWORDS:
        runs = lab.runs(labels, _boolean_world(lab, lab.scale.subscriptions, keywords))
        for label in labels:
            by_terms[label].append(runs[label].us)
    by_size: dict[str, list[float]] = {label: [] for label in labels}
    sizes = [max(1, count // 2) for count in lab.scale.populations]
    last: dict[str, IndexRun] = {}
    for count in sizes:
        runs = lab.runs(labels, _boolean_world(lab, count, 5))
        last = runs
        for label in labels:
            by_size[label].append(runs[label].us)
    spread = {label: max(by_terms[label]) / min(by_terms[label]) for label in labels}
    ahead = [
        min(by_terms[_IQ][at], by_terms[_RQ][at]) / by_terms[_AP][at]
        for at in range(len(_KEYWORDS))
    ]
    growth = {label: by_size[label][-1] / by_size[label][0] for label in labels}
    return [
        figure(AP_PLUS, "18a", "General boolean subscriptions: number of terms", "terms",
               _KEYWORDS, by_terms),
        figure(AP_PLUS, "18b", "General boolean subscriptions: how many", "subscriptions",
               [f"{size:,}" for size in sizes], by_size),
    ], [
        claim(
            AP_PLUS, "18a", "with 3 to 7 terms all trees stay about as fast",
            ", ".join(f"{label} within {spread[label]:.2f}x" for label in labels),
            [spread[label] <= 2 for label in labels[:3]],
            "an OR of single terms matches more messages with every term",
        ),
        claim(
            AP_PLUS, "18a", "AP-Tree is fastest, most of all with 6 or 7 terms",
            f"the better of IQ and RQ takes {each(ahead)} times its time",
            [value > 1 for value in ahead],
            "half of the rows are single terms from an OR, which only their regions distinguish",
        ),
        claim(
            AP_PLUS, "18b", "AP-Tree scales well with the number of subscriptions",
            "from the fewest to the most: "
            + ", ".join(f"{label} {growth[label]:.1f} times" for label in labels),
            growth[_AP] <= 1.1 * sizes[-1] / sizes[0],
            f"{last[_AP].matches:,.0f} subscriptions match a message at the most, as an OR of "
            "frequent terms matches much; naming each subscription once takes a sort, whatever the "
            "index",
        ),
    ]  # fmt: skip
