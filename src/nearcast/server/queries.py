"""`/v1/queries`: checks a query, for example while it is being typed."""

from __future__ import annotations

from starlette.responses import Response

from nearcast.errors import QueryError
from nearcast.events import as_top
from nearcast.events.values import check_text
from nearcast.server.bodies import json_body, json_response
from nearcast.server.checks import check_query
from nearcast.server.describe import describe
from nearcast.server.routes import RequestContext, Routes
from nearcast.text import parse_bag, parse_query

routes = Routes()


@routes.add(
    "POST",
    "/v1/queries",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "Its terms, or what is wrong and where.",
        answer="CheckedQuery",
        body="Query",
    ),
)
async def check(context: RequestContext) -> Response:
    """Check a query, and list its terms and, in words, what else it asks for."""
    fields = await json_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    query = check_text(fields.get("query"), "query")
    check_query(query, context.limits)
    analyser = context.tenant.settings.analyser
    top, operands = fields.get("top"), dict[str, str]()
    try:
        if top is not None:
            as_top(top)
            terms = set(parse_bag(query, analyser))
        else:
            conjuncts = parse_query(query, analyser).conjuncts
            terms = {term for each in conjuncts for term in each.required | each.excluded}
            operands = {
                operand.to_text(): operand.in_words()
                for each in conjuncts
                for operand in (*each.having, *each.lacking)
            }
    except QueryError as error:
        answer = {"valid": False, "error": str(error), "position": error.position}
        return json_response(answer)
    answer = {"valid": True, "terms": sorted(terms)}
    return json_response(answer | ({"operands": operands} if operands else {}))
