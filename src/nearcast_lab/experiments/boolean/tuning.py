"""AP-Tree, section V-B: its parameters and variants."""

from __future__ import annotations

from typing import Any

from nearcast_lab.experiments.boolean.findings import AP_TREE, OURS, Findings, each, times_faster
from nearcast_lab.experiments.boolean.lab import IndexRun, Lab
from nearcast_lab.report import claim, figure

_FANOUTS = (50, 100, 200, 400, 800)
_LEAVES = (5, 10, 20, 40, 100, 400)
_ORDERS = {"Tf": "tf", "Idf": "idf", "Random": "random"}
_VARIANTS = {
    "DP": "ap-tree:keyword_partition=dp",
    "HR": "ap-tree",
    "KFirst": "ap-tree:strategy=k-first",
    "SFirst": "ap-tree:strategy=s-first",
    "Trie-Qd": "ap-tree:strategy=trie-quadtree",
}
_VARIANT_AREA: dict[str, Any] = {"min_area": 1e-5, "max_area": 1e-5}


def tuning(lab: Lab) -> Findings:
    """Figures 9 to 11."""
    lab.begin("AP-Tree: parameters")
    world = lab.world(lab.scale.subscriptions)
    by_fanout = {f: f"ap-tree:fanout={f}" for f in _FANOUTS}
    by_leaf = {t: f"ap-tree:leaf_capacity={t}" for t in _LEAVES}
    by_order = {name: f"ap-tree:order={order}" for name, order in _ORDERS.items()}
    runs: dict[str, IndexRun] = {}
    for labels in (by_fanout.values(), by_leaf.values(), by_order.values()):
        runs |= lab.runs([*labels, OURS], world)  # to hold only a few large trees at a time
    us = {label: run.us for label, run in runs.items()}
    looked = {label: run.candidates for label, run in runs.items()}
    fanouts = [us[by_fanout[f]] for f in _FANOUTS]
    leaves = [us[by_leaf[t]] for t in _LEAVES]
    orders = {name: us[label] for name, label in by_order.items()}
    ours = us[OURS]
    small = [us[by_leaf[t]] for t in _LEAVES if t <= 40]
    best = _FANOUTS[fanouts.index(min(fanouts))]
    figures = [
        figure(AP_TREE, "9a", "Fanout of the AP-Tree", "fanout f", _FANOUTS,
               {"ap-tree": fanouts, OURS: [ours] * len(fanouts)}),
        figure(AP_TREE, "9b", "Leaves of the AP-Tree", "leaf capacity", _LEAVES,
               {"ap-tree": leaves, OURS: [ours] * len(leaves)}),
        figure(AP_TREE, "10", "Order of terms in the AP-Tree", "order", list(orders),
               {"ap-tree": list(orders.values())}, bars=True),
    ]  # fmt: skip
    claims = [
        claim(
            AP_TREE, "9a", "a fanout of 200 is a good choice; small and large ones are worse",
            f"50 to 800: {each(fanouts, 'us')}; the best is {best}",
            [us[by_fanout[200]] <= 1.15 * min(fanouts)]
            + [us[by_fanout[f]] > 1.03 * us[by_fanout[200]] for f in (50, 800)],
            f"a cut in memory costs a binary search, so more cuts cost little and look at fewer "
            f"rows: {looked[by_fanout[50]]:.0f} a message at 50, "
            f"{looked[by_fanout[800]]:.0f} at 800",
        ),
        claim(
            AP_TREE, "9b", "leaf capacities up to 40 match about equally fast",
            f"5 to 40: {each(small, 'us')}; at 400 {leaves[-1]:.1f} us",
            max(small) <= 1.3 * min(small),
            f"rows looked at a message grow from {looked[by_leaf[5]]:.0f} to "
            f"{looked[by_leaf[40]]:.0f}",
        ),
        claim(
            AP_TREE, "10", "of the orders of terms Tf is fastest",
            ", ".join(f"{name} {value:.1f} us" for name, value in orders.items()),
            orders["Tf"] <= 1.03 * min(orders.values()),
            f"rows looked at: Tf {looked[by_order['Tf']]:.0f}, Idf {looked[by_order['Idf']]:.0f}, "
            f"Random {looked[by_order['Random']]:.0f}",
        ),
    ]  # fmt: skip
    more, others = _variants(lab)
    return [*figures, *more], [*claims, *others]


def _variants(lab: Lab) -> Findings:
    lab.begin("AP-Tree: variants")
    world = lab.world(lab.scale.subscriptions, **_VARIANT_AREA)
    built, runs = lab.measure(list(_VARIANTS.values()), world)
    us = {name: runs[label].us for name, label in _VARIANTS.items()}
    seconds = {name: built[label].seconds for name, label in _VARIANTS.items()}
    looked = {name: runs[label].candidates for name, label in _VARIANTS.items()}
    nodes = built[_VARIANTS["DP"]].made.stats()["k_nodes"]
    slower = {name: us[name] / us["HR"] for name in ("KFirst", "SFirst", "Trie-Qd")}
    return [
        figure(AP_TREE, "11a", "Variants of the AP-Tree: matching", "variant", list(us),
               {"ap-tree": list(us.values())}, bars=True),
        figure(AP_TREE, "11b", "Variants of the AP-Tree: construction", "variant", list(seconds),
               {"ap-tree": list(seconds.values())}, "seconds", bars=True),
    ], [
        claim(
            AP_TREE, "11a", "HR matches about as fast as the optimal DP",
            f"DP {us['DP']:.1f} us, HR {us['HR']:.1f} us", us["HR"] <= 1.2 * us["DP"],
            f"rows looked at: DP {looked['DP']:.0f}, HR {looked['HR']:.0f}",
        ),
        claim(
            AP_TREE, "11a", "KFirst, SFirst and Trie-Qd match much slower than HR",
            ", ".join(f"{name} {times:.2f} times its time" for name, times in slower.items()),
            [times >= 1.3 for times in slower.values()],
            "rows looked at a message: "
            + ", ".join(f"{name} {looked[name]:.0f}" for name in ("HR", *slower))
            + "; a variant that looks at as few is as fast",
        ),
        claim(
            AP_TREE, "11b", "HR builds much faster than DP",
            f"{times_faster(seconds['DP'], seconds['HR'])}: {seconds['DP']:.2f} and "
            f"{seconds['HR']:.2f} s", seconds["DP"] >= 2 * seconds["HR"],
            f"the tree has {nodes:,.0f} keyword nodes for {lab.scale.subscriptions:,} rows, and "
            "all but the uppermost have few terms, for which the dynamic programme is quick",
        ),
    ]  # fmt: skip
