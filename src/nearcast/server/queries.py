"""`/v1/queries`: checks a query, for example while it is being typed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from nearcast.errors import QueryError
from nearcast.events import as_top
from nearcast.events.values import check_text
from nearcast.server.bodies import json_body, json_response
from nearcast.server.checks import check_query
from nearcast.server.describe import describe
from nearcast.server.routes import RequestContext, Routes
from nearcast.text import Conjunct, hints, parse_bag, parse_expression, parse_query

routes = Routes()


@routes.add(
    "POST",
    "/v1/queries",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "How it is read, its terms and other operands; or what is wrong and where.",
        answer="CheckedQuery",
        body="Query",
    ),
)
async def check(context: RequestContext) -> Response:
    """Check a query, show how it is read (`reads`), and list its terms and other operands."""
    fields = await json_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    query = check_text(fields.get("query"), "query")
    check_query(query, context.limits)
    analyser = context.tenant.settings.analyser
    top = fields.get("top")
    answer: dict[str, Any]
    try:
        if top is not None:
            as_top(top)
            terms = list(parse_bag(query, analyser))
            asked: dict[str, Any] = {"terms": terms, "operands": [], "reads": " ".join(terms)}
            answer = {"valid": True, **asked, "hints": []}
        else:
            asked = _asked(parse_query(query, analyser).conjuncts)
            asked["reads"] = parse_expression(query, analyser).to_text()
            answer = {"valid": True, **asked, "hints": list(hints(query))}
    except QueryError as error:
        answer = {"valid": False, "error": str(error), "position": error.position}
    return json_response(answer)


def _asked(conjuncts: Iterable[Conjunct]) -> dict[str, Any]:
    """What a query asks for, or asks not to be there: terms, and other operands in words."""
    terms, operands = set[str](), dict[str, str]()
    for each in conjuncts:
        terms |= each.required | each.excluded
        operands |= {one.to_text(): one.in_words() for one in (*each.having, *each.lacking)}
    said = [{"operand": text, "means": operands[text]} for text in sorted(operands)]
    return {"terms": sorted(terms), "operands": said}
