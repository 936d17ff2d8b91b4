"""LFilter, section 6: short and long messages, at points and over boxes."""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.index import Index
from nearcast_lab.charts import Figure
from nearcast_lab.experiments.boolean.findings import LFILTER, OURS, Findings, each
from nearcast_lab.experiments.boolean.lab import BooleanWorld, IndexRun, Lab
from nearcast_lab.report import Claim, claim, figure

_PROBES = {
    "ProbeTokenSet": "mbr-trie:probe=token-set",
    "ProbeTrie": "mbr-trie:probe=trie",
    "CostBasedProbe": "mbr-trie",
}
_OWN = {"MBRTrie": "mbr-trie", "PT-Quadtree": "pt-quadtree", "LFilter": "lfilter"}
_EXISTING = {"LFilter": "lfilter", "Rt++-Tree": "rt-tree", "IR-Tree": "ir-tree"}
_USA: dict[str, Any] = {"max_keywords": 6, "vocabulary": 200_000, "cities": 2000, "space": "us"}
_AREA = 0.01
_FEWEST = 60


class MessageKind(NamedTuple):
    """Messages of one kind."""

    name: str
    lengths: tuple[int, ...]
    area: float
    share: float  # of the messages of a point that long ones get


GROUPS = (
    MessageKind("short, point", (6, 10, 15, 20), 0.0, 1.0),
    MessageKind("long, point", (100, 400, 700, 1000), 0.0, 0.2),
    MessageKind("short, range", (6, 10, 15, 20), _AREA, 1.0),
    MessageKind("long, range", (100, 400, 700, 1000), _AREA, 0.2),
)

Series = dict[str, dict[str, list[IndexRun]]]
"""By group and by name, a run for each length of messages."""


def _measure(
    lab: Lab, world: BooleanWorld, names: dict[str, str], options: dict[str, Any]
) -> tuple[Series, dict[str, float]]:
    built = lab.build_all(list(dict.fromkeys(names.values())), world)
    indexes: dict[str, Index] = {name: built[label].made for name, label in names.items()}
    series: Series = {}
    for group in GROUPS:
        series[group.name] = {name: [] for name in names}
        for length in group.lengths:
            count = max(_FEWEST, int(lab.scale.messages * group.share))
            varied = options | {"terms": length, "message_area": group.area}
            runs = lab.times(indexes, lab.messages(world, count, **varied))
            for name in names:
                series[group.name][name].append(runs[name])
    return series, {name: built[label].bytes / world.table.live for name, label in names.items()}


def _figures(number: str, title: str, series: Series, names: list[str]) -> list[Figure]:
    return [
        figure(
            LFILTER, f"{number}{'abcd'[at]}", f"{title}: {group.name} messages",
            "terms of a message", group.lengths,
            {name: [run.us for run in series[group.name][name]] for name in names},
        )
        for at, group in enumerate(GROUPS)
    ]  # fmt: skip


def _means(series: Series, name: str) -> list[float]:
    """The mean time of each group."""
    return [sum(run.us for run in lines[name]) / len(lines[name]) for lines in series.values()]


def _leads(series: Series, name: str, others: list[str]) -> tuple[str, list[bool]]:
    """Compare the times of each group with those of the best of others."""
    own = _means(series, name)
    best = [min(values) for values in zip(*(_means(series, one) for one in others), strict=True)]
    speeds = "; ".join(
        f"{group} {rival / mine:.2f}x" for group, rival, mine in zip(series, best, own, strict=True)
    )
    return speeds, [mine < rival for mine, rival in zip(own, best, strict=True)]


def lfilter(lab: Lab) -> Findings:
    """Figures 7 to 9 and table 1, on one population."""
    lab.begin("LFilter: messages")
    world = lab.world(lab.scale.subscriptions)
    names = _PROBES | _OWN | _EXISTING | {OURS: OURS}
    series, sizes = _measure(lab, world, names, {})
    own, existing = list(_OWN), list(_EXISTING)
    compared = list(dict.fromkeys([*own, *existing, OURS]))
    figures = [
        *_figures("7", "Probing strategies", series, list(_PROBES)),
        *_figures("8", "MBRTrie, PT-Quadtree, LFilter", series, [*own, OURS]),
        *_figures("9", "LFilter and earlier indexes", series, [*existing, OURS]),
        figure(LFILTER, "table 1", "Size without the shared table", "index", compared,
               {"bytes a subscription": [sizes[name] for name in compared]},
               "bytes a subscription", bars=True),
    ]  # fmt: skip
    return figures, [*_on_own(series), *_on_existing(series, "9", "Twitter")]


def _looked(series: Series, names: list[str]) -> str:
    return "Rows looked at by the longest messages: " + "; ".join(
        f"{group} " + ", ".join(f"{name} {lines[name][-1].candidates:,.0f}" for name in names)
        for group, lines in series.items()
    )


def _on_own(series: Series) -> list[Claim]:
    probing, probes_lead = _leads(series, "CostBasedProbe", ["ProbeTokenSet", "ProbeTrie"])
    speeds, leads = _leads(series, "LFilter", ["MBRTrie", "PT-Quadtree"])
    trie, quad = _means(series, "MBRTrie"), _means(series, "PT-Quadtree")
    mixture = {name: sum(_means(series, name)) for name in _OWN}
    points = [quad[0] < trie[0], quad[1] < trie[1]]
    ranges = [trie[2] < quad[2], trie[3] < quad[3]]
    return [
        claim(
            LFILTER, "7", "cost-based probing beats both fixed strategies on every group",
            "its speed against the better of them: " + probing, probes_lead,
            "where one fixed strategy is right nearly everywhere, choosing costs a little more "
            "than it saves",
        ),
        claim(
            LFILTER, "8", "LFilter beats MBRTrie and PT-Quadtree on every group",
            "its speed against the better of them: " + speeds + ". The four groups together: "
            + ", ".join(f"{name} {value:,.0f} us" for name, value in mixture.items()),
            [*leads, mixture["LFilter"] <= min(mixture.values())],
            "choosing per message and pruning lists cost time of their own; where one of the two "
            "is right for nearly all messages of a group it wins. " + _looked(series, list(_OWN)),
        ),
        claim(
            LFILTER, "8", "PT-Quadtree beats MBRTrie on point messages, MBRTrie on range messages",
            f"MBRTrie {each(trie)}, PT-Quadtree {each(quad)} us for short and long points, short "
            "and long ranges", [*points, *ranges],
            _looked(series, ["MBRTrie", "PT-Quadtree"]),
        ),
    ]  # fmt: skip


def _on_existing(series: Series, number: str, data: str) -> list[Claim]:
    speeds, leads = _leads(series, "LFilter", ["Rt++-Tree", "IR-Tree"])
    order, behind = _leads(series, "Rt++-Tree", ["IR-Tree"])
    return [
        claim(
            LFILTER, number, f"LFilter beats Rt++-Tree and IR-Tree on every group ({data})",
            "its speed against the better of them: " + speeds, leads,
            _looked(series, list(_EXISTING)),
        ),
        claim(
            LFILTER, number, f"Rt++-Tree beats IR-Tree ({data})",
            "its speed against IR-Tree: " + order, behind,
            _looked(series, ["Rt++-Tree", "IR-Tree"])
            + ": counting all terms in the leaf spares the IR-Tree verifications",
        ),
    ]  # fmt: skip


def usa(lab: Lab) -> Findings:
    """Figure 10: the same comparison on other data."""
    lab.begin("LFilter: USA")
    world = lab.world(lab.scale.subscriptions, **_USA)
    series, _ = _measure(lab, world, _EXISTING | {OURS: OURS}, dict(_USA))
    figures = _figures("10", "LFilter and earlier indexes (USA)", series, [*_EXISTING, OURS])
    return figures, _on_existing(series, "10", "USA")


def scalability(lab: Lab) -> Findings:
    """Figure 11: the number of subscriptions."""
    lab.begin("LFilter: number of subscriptions")
    most = lab.scale.populations[-1] // 2
    sizes = [max(1, most * part // 5) for part in (1, 2, 3, 4, 5)]
    lines: dict[str, list[float]] = {group.name: [] for group in GROUPS}
    ours: dict[str, list[float]] = {group.name: [] for group in GROUPS}
    for size in sizes:
        world = lab.world(size)
        built = lab.build_all(["lfilter", OURS], world)
        indexes = {label: one.made for label, one in built.items()}
        for group in GROUPS:
            count = max(_FEWEST, int(lab.scale.messages * group.share))
            batch = lab.messages(world, count, terms=group.lengths[2], message_area=group.area)
            runs = lab.times(indexes, batch)
            lines[group.name].append(runs["lfilter"].us)
            ours[group.name].append(runs[OURS].us)
    growth = {group: values[-1] / values[0] for group, values in lines.items()}
    points = [f"{size:,}" for size in sizes]
    return [
        figure(LFILTER, "11", "LFilter: number of subscriptions", "subscriptions", points, lines),
        figure(LFILTER, "11, ours", f"The same for {OURS}", "subscriptions", points, ours),
    ], [
        claim(
            LFILTER, "11", "time grows at most about linearly with the number of subscriptions",
            "fivefold subscriptions, time: "
            + ", ".join(f"{group} {value:.1f}x" for group, value in growth.items()),
            [value <= 5.5 for value in growth.values()],
        ),
    ]  # fmt: skip
