"""The description of the API holds: schemathesis finds nothing that is not in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from nearcast.server.app import NOUNS, create_app
from nearcast.server.config import Config
from nearcast.server.describe import document
from served import Served, serving


@schemathesis.serializer("application/x-ndjson")
def lines(context: schemathesis.SerializationContext, value: object) -> bytes:
    """What is generated for a body of lines is a string already."""
    del context
    return str(value).encode(errors="replace")


API = document(create_app(Config(index="scan")))
STREAMS = ("/v1/updates", "/v1/live")  # they have no end; tested by hand
schema = schemathesis.openapi.from_dict(API)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        served.http.put(
            "/v1/subscriptions/s1",
            json={"query": "a", "region": {"type": "Box", "bbox": [0, 0, 1, 1]}},
        )
        yield served


@schema.exclude(path=list(STREAMS)).parametrize()
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_nothing_that_is_not_described(case: schemathesis.Case[Any], server: Served) -> None:
    answer = case.call(base_url=server.url)
    case.validate_response(
        answer,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )


def test_every_route_is_described_with_its_scope() -> None:
    for noun in NOUNS:
        for route in noun.routes:
            operation = API["paths"][route.path][route.method.lower()]
            assert operation["x-scope"] == route.scope
            assert operation["summary"]
            assert {"401", "403", "429", "503"} <= operation["responses"].keys()


def test_every_schema_that_is_referred_to_exists() -> None:
    referred = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(API)))
    assert referred
    assert referred <= set(API["components"]["schemas"])


def test_examples_are_what_they_are_examples_of() -> None:
    schemas = API["components"]["schemas"]
    with serving() as server:
        put = server.http.put("/v1/subscriptions/s1", json=schemas["NewSubscription"]["example"])
        assert put.status_code == 201
        assert server.post("/v1/messages", schemas["NewMessage"]["example"]).json()["updates"] == 1
        assert server.post("/v1/queries", schemas["Query"]["example"]).json()["valid"]
        moved = server.http.patch("/v1/subscriptions/s1", json=schemas["Move"]["example"])
        assert moved.status_code == 200


def test_the_page_for_people_has_every_route_and_asks_for_nothing_outside(server: Served) -> None:
    page = server.http.get("/docs").text
    for path in API["paths"]:
        assert path in page
    assert "http://" not in page
    assert "https://" not in page.replace("https://example.org", "")
    assert "<script" not in page
