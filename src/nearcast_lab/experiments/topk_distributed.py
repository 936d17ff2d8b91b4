"""Section 8.2 of Skype (VLDB J.), DSkype: what its figures claim, and what is simulated here.

Workers are simulated (`partition.topk.simulate`): a bound is the messages a second that the busiest
worker allows by what matching costs on this machine. What it costs to send and receive a message,
which weighs much in Storm, is not in it; `break even` says how much it would have to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from nearcast.errors import SourceError
from nearcast.partition.topk.mechanisms import hashing
from nearcast_lab.bench.distribution import (
    TEXTS,
    DistributionSetup,
    Row,
    SpreadWorld,
    compare,
    make_world,
    row_of,
    run,
    run_hybrid,
)
from nearcast_lab.charts import Figure
from nearcast_lab.experiments.claims import SKYPE_PAPER, claim_of, listed
from nearcast_lab.progress import Progress
from nearcast_lab.report import Claim, figure
from nearcast_lab.simulators.topk import TopkCosts
from nearcast_lab.tables import short_text

WORKERS = (4, 8, 16, 32)
MOST = WORKERS[-1]
_FOUR = ("hashing", "location", "keyword", "prefix")
_LONGER = ("prefix-any", "prefix-sum")
_COPIED = ("keyword", "prefix", *_LONGER)
_LEVELS = ((1, 32), (2, 16), (4, 8), (8, 4), (16, 2), (32, 1))
_PRINTED = " of 1 to 5 terms"
_ENTRIES = "gazetteer"
_LEAST_WINDOW = 10_000  # for real texts, which take a while to be read
_SHORT = ("tweets", "gn")
_VARIED = ("tweets", "yelp")  # short texts and long ones
_COMM = "what a message costs to send is not in the bound, and that is what prefixes save"


class Findings(NamedTuple):
    """Claims, and all that was simulated for them."""

    claims: list[Claim]
    rows: list[Row]


class _Rows:
    """Simulated spreads, found again by what they are."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def get(self, texts: str, mechanism: str, workers: int = MOST) -> Row:
        return next(
            row
            for row in self.rows
            if (row["texts"], row["simulated"]["mechanism"]) == (texts, mechanism)
            and row["simulated"]["workers"] == workers
        )

    def rate(self, texts: str, mechanism: str, workers: int = MOST) -> float:
        return self.get(texts, mechanism, workers)["simulated"]["messages_per_s"]

    def copies(self, texts: str, mechanism: str) -> float:
        return self.get(texts, mechanism)["simulated"]["replication"]

    def sent(self, texts: str, mechanism: str, workers: int = MOST) -> float:
        return self.get(texts, mechanism, workers)["simulated"]["workers_per_message"]


def measure(arrangement: DistributionSetup, progress: Progress) -> Findings:
    """Simulate everything."""
    found = _Rows()
    claims: list[Claim] = []
    hybrids: list[Claim] = []
    alone: dict[str, float] = {}
    costs: dict[str, TopkCosts] = {}
    for texts in TEXTS:
        world = make_world(arrangement, texts, progress)
        for workers in WORKERS:
            names = (*_FOUR, *_LONGER) if workers == MOST else _FOUR
            found.rows += compare(world, texts, workers, names, progress)
        costs[texts] = world.costs
        alone[texts] = run(world, hashing, 1).simulation.report["messages_per_s"]
        rows, claim = _hybrids(world, texts, found, progress)
        found.rows += rows
        hybrids += claim
        del world
        printed = make_world(arrangement._replace(keywords=(1, 5)), texts, progress)
        found.rows += compare(printed, texts + _PRINTED, MOST, _COPIED, progress)
    if arrangement.window >= _LEAST_WINDOW:
        with suppress(SourceError):  # the package that has the entries is not installed
            world = make_world(arrangement, _ENTRIES, progress)
            found.rows += compare(world, _ENTRIES, MOST, _COPIED, progress)
    claims += [_table_5(found), *_figure_21(found, alone), *_figure_22(found)]
    claims += _effects(arrangement, found, costs, progress)
    return Findings([*claims, *hybrids], found.rows)


def figures_of(rows: Sequence[Row]) -> Iterator[Figure]:
    """Show throughput by the number of workers, by the levels of hybrids, and by mechanism."""
    unit = "messages a second"
    levels = [f"{outer} x {inner}" for outer, inner in _LEVELS]
    for texts in dict.fromkeys(row["texts"] for row in rows):
        lines: dict[str, list[float]] = {}
        for row in rows:
            if row["texts"] == texts:
                rate = row["simulated"]["messages_per_s"]
                lines.setdefault(row["simulated"]["mechanism"], []).append(rate)
        grown = {name: rates for name, rates in lines.items() if len(rates) == len(WORKERS)}
        hybrid = {name: rates for name, rates in lines.items() if len(rates) == len(levels)}
        last = {name: rates[-1] for name, rates in lines.items() if name not in hybrid}
        if grown:
            yield figure(SKYPE_PAPER, "22", f"Workers: {texts}", "workers", WORKERS, grown, unit)
        if hybrid:
            yield figure(SKYPE_PAPER, "25", f"Hybrids: {texts}", "levels", levels, hybrid, unit)
        yield figure(
            SKYPE_PAPER, "21a", f"{MOST} workers: {texts}", "mechanism", list(last),
            {"bound": list(last.values())}, unit, bars=True,
        )  # fmt: skip


def _table_5(found: _Rows) -> Claim:
    def copies(texts: str) -> str:
        return listed([found.copies(texts, mechanism) for mechanism in _COPIED])

    found_copies = [f"{name} {copies(name)} and {copies(name + _PRINTED)}" for name in TEXTS]
    real = [row for row in found.rows if row["texts"] == _ENTRIES]
    if real:
        found_copies.append(f"entries of a gazetteer {copies(_ENTRIES)}")
    keyword, prefix, cut = (
        [found.copies(t, name) for t in TEXTS] for name in ("keyword", "prefix", "prefix-any")
    )
    return claim_of(
        "table 5", "copies of a subscription (tweets, gn, yelp): keyword 3.2, 3.3, 3.3; "
        "prefix 1.9, 1.9, 2.1",
        f"{', '.join(_COPIED)}, of 2 to 5 and of 1 to 5 terms: " + "; ".join(found_copies),
        {
            "keyword at least 3": min(keyword) >= 3,
            "prefix at most 2.2": max(prefix) <= 2.2,
            "prefix as cut in the paper at most 2.2": max(cut) <= 2.2,
        },
        "1 to 5 terms, as section 8.1.1 has it, are 3 on average, so keyword cannot have more than "
        "3 copies; of 2 to 5 it has what the paper says. Where words are independent of each other "
        "prefixes save little; here prefix has fewer copies because rare terms go to the "
        "workers of terms they occur with, which gains less the more subscriptions ask for each, "
        "and because of steep messages, which gain less in a window below the paper's million",
    )  # fmt: skip


def _figure_21(found: _Rows, alone: dict[str, float]) -> list[Claim]:
    gain = {
        (texts, name): found.get(texts, name)["of_hashing"] for texts in TEXTS for name in _FOUR
    }
    posted = {key: found.get(*key)["finders_of_hashing"] for key in gain}
    saved = {(texts, name): 1 - found.sent(texts, name) / MOST for texts, name in gain}
    speedup = [
        found.rate(texts, name) / alone[texts] for texts in TEXTS for name in ("hashing", "prefix")
    ]
    return [
        claim_of(
            "21a", "location is 15 % faster than hashing, by better bounds for places near by",
            listed([gain[texts, "location"] for texts in TEXTS]) + " times hashing",
            {texts: gain[texts, "location"] >= 1.05 for texts in _SHORT},
            "every posting carries its own place and threshold, so nothing is saved by near ones "
            "being together",
        ),
        claim_of(
            "21a", "keyword is the slowest on short texts",
            listed([gain[texts, "keyword"] for texts in TEXTS]) + " times hashing",
            {t: gain[t, "keyword"] == min(gain[t, n] for n in _FOUR) for t in _SHORT},
            "a worker posts a copy under its own terms only, so copies are not read twice",
        ),
        claim_of(
            "21a", "prefix is the fastest on short texts, 1.56 times hashing on tweets",
            listed([gain[texts, "prefix"] for texts in TEXTS]) + " times hashing" + _even(found)
            + "; as finders on Spark post, under all terms, "
            + listed([posted[texts, "prefix"] for texts in TEXTS]) + " times, and look at "
            + listed([_looked(found, texts) for texts in TEXTS]) + " times as many postings",
            {t: gain[t, "prefix"] == max(gain[t, n] for n in _FOUR) for t in _SHORT}
            | {"tweets, 1.5 times": gain["tweets", "prefix"] >= 1.5}
            | {
                f"{t}, on Spark": posted[t, "prefix"] == max(posted[t, n] for n in _FOUR)
                for t in _SHORT
            },
            _COMM,
        ),
        claim_of(
            "21a", "on long texts (yelp) prefix is slower than hashing and location, and faster "
            "than keyword", listed([gain["yelp", name] for name in _FOUR])
            + " times hashing (hashing, location, keyword, prefix)",
            {
                "faster than keyword": gain["yelp", "keyword"] < gain["yelp", "prefix"],
                "slower than hashing": gain["yelp", "prefix"] < gain["yelp", "hashing"],
                "slower than location": gain["yelp", "prefix"] < gain["yelp", "location"],
            },
            "handling a long message costs as much as reading thousands of postings, so a third "
            "fewer of them count for more than copies do; none of these is read twice",
        ),
        claim_of(
            "21a", "32 workers are 26 to 49 times as fast as one",
            f"{min(speedup):.1f} to {max(speedup):.1f} times",
            {"all": min(speedup) >= 26, "the best": max(speedup) >= 26},
            "with so few subscriptions, handling a message is most of what one worker does, and is "
            "not divided",
        ),
        claim_of(
            "21b", "keyword and prefix send a message to 80 % fewer workers on tweets, about 50 % "
            "fewer on yelp", "; ".join(
                f"{texts} {100 * saved[texts, 'keyword']:.0f} % and "
                f"{100 * saved[texts, 'prefix']:.0f} %" for texts in TEXTS
            ), {
                "tweets, keyword, 70 %": saved["tweets", "keyword"] >= 0.7,
                "tweets, prefix, 70 %": saved["tweets", "prefix"] >= 0.7,
                "yelp, prefix, 40 to 60 %": 0.4 <= saved["yelp", "prefix"] <= 0.6,
            },
            "many of 37 independent words are rare ones, which are spread over most workers",
        ),
        claim_of(
            "none", "(not in the paper) keyword and prefix send a message of short text to at most "
            "half of 32 workers", "; ".join(
                f"{texts} {found.sent(texts, 'keyword'):.1f} and {found.sent(texts, 'prefix'):.1f}"
                for texts in _SHORT
            ), {f"{t}, {n}": saved[t, n] >= 0.5 for t in _SHORT for n in ("keyword", "prefix")},
            "",
        ),
    ]  # fmt: skip


def _looked(found: _Rows, texts: str) -> float:
    """What finders look at with `prefix`, by what the paper's lists would hold."""
    report = found.get(texts, "prefix")["simulated"]
    return report["finders_visited"] / max(report["visited"], 1e-9)


def _figure_22(found: _Rows) -> list[Claim]:
    grows = {
        (texts, name): found.rate(texts, name) / found.rate(texts, name, WORKERS[0])
        for texts in TEXTS
        for name in ("hashing", "location", "prefix")
    }
    by = {
        texts: [found.get(texts, "prefix", workers)["of_hashing"] for workers in WORKERS]
        for texts in TEXTS
    }
    return [
        claim_of(
            "22", "hashing, location and prefix scale well from 4 to 32 workers", "; ".join(
                f"{texts} {listed([grows[texts, n] for n in ('hashing', 'location', 'prefix')])}"
                for texts in TEXTS
            ) + " times", {f"{texts}, {name}": by >= 4 for (texts, name), by in grows.items()},
            "a term that is in many messages and queries is not divided, nor is what reading a "
            "message costs every worker that gets it",
        ),
        claim_of(
            "22", "prefix is slower than hashing with 4 and 8 workers, faster with 16 and 32, on "
            "short texts", "; ".join(f"{texts} {listed(by[texts])}" for texts in TEXTS),
            {f"{t}, slower with 4 and 8": max(by[t][:2]) < 1 for t in _SHORT}
            | {f"{t}, faster with 16 and 32": min(by[t][2:]) > 1 for t in _SHORT},
            "workers are even here, with 4 and 8 of them too, because terms are not only cut by "
            "their frequency",
        ),
        claim_of(
            "22", "on yelp prefix saves about half of the messages sent, and is slower",
            f"{100 * (1 - found.sent('yelp', 'prefix') / MOST):.0f} % saved with {MOST} workers, "
            f"{by['yelp'][-1]:.2f} times hashing",
            {
                "slower": by["yelp"][-1] < 1,
                "40 to 60 %": 0.4 <= 1 - found.sent("yelp", "prefix") / MOST <= 0.6,
            },
            "as for figures 21a and 21b",
        ),
    ]  # fmt: skip


def _effects(
    arrangement: DistributionSetup, found: _Rows, costs: dict[str, TopkCosts], progress: Progress
) -> list[Claim]:
    """Figures 23 and 24: k, and the number of subscriptions."""
    by_k: list[str] = []
    by_size: list[str] = []
    slow: dict[str, bool] = {}
    linear: dict[str, bool] = {}
    for texts in _VARIED:
        rates = {20: found.rate(texts, "prefix")}
        for k in (10, 50):
            row = _varied(arrangement._replace(k=k), texts, f"k = {k}", costs, progress)
            found.rows.append(row)
            rates[k] = row["simulated"]["messages_per_s"]
        by_k.append(f"{texts} " + " -> ".join(short_text(rates[k]) for k in (10, 20, 50)))
        slow[texts] = 0.4 <= rates[50] / rates[10] <= 1.05
        sizes = {arrangement.subscriptions: found.rate(texts, "prefix")}
        for part in (4, 2):
            count = max(arrangement.subscriptions // part, 100)
            varied = arrangement._replace(subscriptions=count)
            row = _varied(varied, texts, f"{count:,} subscriptions", costs, progress)
            found.rows.append(row)
            sizes[count] = row["simulated"]["messages_per_s"]
        few, many = min(sizes), max(sizes)
        by_count = (short_text(sizes[count]) for count in sorted(sizes))
        by_size.append(f"{texts} " + " -> ".join(by_count))
        linear[texts] = sizes[few] / sizes[many] <= 1.2 * many / few
    return [
        claim_of(
            "23", "the rate falls slowly with k (10, 20, 50)",
            "prefix: " + "; ".join(by_k) + " messages a second", slow,
            "lower thresholds make prefixes longer and let more postings pass",
        ),
        claim_of(
            "24", "a message costs in proportion to the number of subscriptions, or less "
            "(a quarter, a half, all)",
            "prefix: " + "; ".join(by_size) + " messages a second", linear, "",
        ),
    ]  # fmt: skip


def _varied(
    arrangement: DistributionSetup,
    texts: str,
    varied: str,
    costs: dict[str, TopkCosts],
    progress: Progress,
) -> Row:
    """Simulate `prefix` with something varied, at the same costs: new ones would differ."""
    world = make_world(arrangement, texts, progress)._replace(costs=costs[texts])
    row = compare(world, texts, MOST, ("prefix",), progress)[0]
    row["texts"] = f"{texts}, {varied}"
    return row


def _hybrids(
    world: SpreadWorld, texts: str, found: _Rows, progress: Progress
) -> tuple[list[Row], list[Claim]]:
    """Figures 25 and 26."""
    plain = run(world, hashing, MOST)
    rows: dict[str, list[Row]] = {}
    for name in ("spatial-first", "keyword-first"):
        rows[name] = []
        for levels in _LEVELS:
            progress(f"{texts}, {name} {levels[0]} x {levels[1]}")
            done = run_hybrid(world, name, levels)
            rows[name].append(row_of(texts, done, plain, world.costs))
    best = max(found.rate(texts, "location"), found.rate(texts, "prefix"))
    rates = {
        name: [row["simulated"]["messages_per_s"] for row in each] for name, each in rows.items()
    }
    sent = {
        name: [row["simulated"]["workers_per_message"] for row in each]
        for name, each in rows.items()
    }
    low, high = found.sent(texts, "prefix"), found.sent(texts, "location")
    highest = max(max(each) for each in rates.values())
    return [row for each in rows.values() for row in each], [
        claim_of(
            f"25, {texts}", "hybrids are not much faster than location and prefix",
            f"the best of them {highest / best:.2f} times the better of the two; "
            + "; ".join(f"{name} {_rates(each)}" for name, each in rates.items()),
            {"at most 1.15 times": highest <= 1.15 * best},
            "space divides what the terms of one worker leave uneven",
        ),
        claim_of(
            f"26, {texts}", "hybrids send to more workers than prefix, to fewer than location",
            "; ".join(f"{name} {listed(each)}" for name, each in sent.items()),
            {
                name: all(low * 0.98 <= one <= high * 1.001 for one in each)
                for name, each in sent.items()
            },
            "",
        ),
    ]  # fmt: skip


def _even(found: _Rows) -> str:
    """Where `prefix` is slower than `hashing`, what a message must cost for it to be as fast."""
    costs = []
    for texts in TEXTS:
        value = found.get(texts, "prefix")["break_even_us"]
        if value is None or value > 0:
            costs.append(f"{texts} " + ("never" if value is None else f"at {value:.1f} us"))
    more = ", ".join(costs)
    return f"; as fast if sending a message costs a worker enough: {more}" if costs else ""


def _rates(values: Sequence[float]) -> str:
    return ", ".join(short_text(value) for value in values)
