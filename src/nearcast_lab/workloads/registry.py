"""All workloads by name, and the one function that makes their logs."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from nearcast.errors import InvalidValue
from nearcast_lab.workloads.arrays import KINDS, ArrayOptions, ArrayWorkload, CityArrays
from nearcast_lab.workloads.base import Event, Workload, WorkloadOptions, WorkloadRequest
from nearcast_lab.workloads.local_tweets import LocalArrays, LocalTweetsOptions
from nearcast_lab.workloads.moving import MOVING
from nearcast_lab.workloads.places import PlacesOptions, TownsWorkload
from nearcast_lab.workloads.ranges import RANGE
from nearcast_lab.workloads.sts import STS_Q1, STS_Q2, STS_Q3
from nearcast_lab.workloads.topk import TOPK
from nearcast_lab.workloads.tweets import SMALL, TWEETS

T = TypeVar("T", bound=WorkloadOptions)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (TWEETS, SMALL, STS_Q1, STS_Q2, STS_Q3, MOVING, TOPK, RANGE)
}


def workload_named(kind: str) -> Workload:
    """Give the workload of that name."""
    if kind not in WORKLOADS:
        raise InvalidValue("kind", kind, f"one of {', '.join(WORKLOADS)}")
    return WORKLOADS[kind]


def read_options(kind: str, given: dict[str, Any]) -> WorkloadOptions:
    """Check the options of a workload; values may also be given as text."""
    return convert_options(kind, workload_named(kind).options, given)


def convert_options(kind: str, options: type[T], given: dict[str, Any]) -> T:
    """Read the options of something of that kind, as its class describes them."""
    for name in given:
        if name not in options.__struct_fields__:
            known = ", ".join(options.__struct_fields__)
            raise InvalidValue("option", name, f"one of the options of {kind}: {known}")
    for name, value in given.items():
        _check_option(options, name, value)
    return msgspec.convert(given, options, strict=False)


def _check_option(options: type[msgspec.Struct], name: str, value: Any) -> None:
    try:
        read = getattr(msgspec.convert({name: value}, options, strict=False), name)
    except msgspec.ValidationError as error:
        choices = get_args(get_type_hints(options)[name])
        expected = str(error).removeprefix("Expected ").partition(" - at")[0].replace("`", "")
        expected = expected.partition(", got")[0]
        raise InvalidValue(
            name, value, f"one of {', '.join(map(str, choices))}" if choices else expected
        ) from None
    if isinstance(read, float) and not isfinite(read):
        raise InvalidValue(name, value, "a finite number")


def generate(
    kind: str, *, subscriptions: int, messages: int, seed: int, **options: Any
) -> Iterator[Event]:
    """Yield the events of a workload, ready for JSON, in the order of the log.

    The same arguments give the same log on every machine. What is wrong with them is said at once,
    before the first event.

    >>> log = generate("tweets", subscriptions=2, messages=1, seed=7)
    >>> [event["op"] for event in log]
    ['subscribe', 'subscribe', 'publish']
    """
    for name, value in (("subscriptions", subscriptions), ("messages", messages)):
        if value < 0:
            raise InvalidValue(name, value, "0 or more")
    request = WorkloadRequest(subscriptions, messages, seed)
    return workload_named(kind).events(request, read_options(kind, options))


ARRAY_WORKLOADS = (*KINDS, "local-tweets", "places")
"""The names that `array_workload` knows."""


def array_workload(kind: str, *, seed: int, **options: Any) -> ArrayWorkload:
    """Make a workload whose subscriptions and messages are arrays, for benchmarks."""
    if kind == "places":
        return TownsWorkload(seed, convert_options(kind, PlacesOptions, options))
    if kind == "local-tweets":
        return LocalArrays(seed, convert_options(kind, LocalTweetsOptions, options))
    if kind not in KINDS:
        raise InvalidValue("workload", kind, f"one of {', '.join(ARRAY_WORKLOADS)}")
    return CityArrays(seed, convert_options(kind, ArrayOptions, KINDS[kind] | options))
