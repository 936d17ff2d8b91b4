"""`/v1/explain`: why a message matches a subscription, or does not."""

from __future__ import annotations

from starlette.responses import Response

from nearcast.engine import Engine
from nearcast.engine.explaining import explain_match
from nearcast.errors import InvalidValue
from nearcast.events import Message, Subscription
from nearcast.server.bodies import json_response
from nearcast.server.describe import describe, needed
from nearcast.server.messages import has_ended
from nearcast.server.problems import Problem
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.subscriptions import living

routes = Routes()


@routes.add(
    "GET",
    "/v1/explain",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "Which terms were found, whether the place fits, and what the score is made of.",
        answer="Explanation",
        parameters=(
            needed("message", "A message that is active or in the window."),
            needed("subscription", "A subscription."),
        ),
        problems=(404,),
    ),
)
async def explain(context: RequestContext) -> Response:
    """Explain why a message matches a subscription, or does not."""
    context.caller.pay()
    message_id, subscription_id = _needed(context, "message"), _needed(context, "subscription")

    now = context.state.config.clock()

    def read(engine: Engine) -> tuple[Subscription | None, Message | None, bool]:
        subscription = living(engine, subscription_id, now)
        message = engine.message(message_id)
        if message is not None and has_ended(message, now):
            message = None
        is_result = subscription is not None and any(
            result.message == message_id for result in engine.results(subscription_id)
        )
        return subscription, message, is_result

    subscription, message, is_result = await context.tenant.backend.ask(read)
    if subscription is None:
        raise Problem(404, "unknown-subscription", f"there is no subscription {subscription_id!r}")
    if message is None:
        raise Problem(
            404,
            "unknown-message",
            f"there is no message {message_id!r}: it is neither active nor in the window",
        )
    explained = explain_match(subscription, message, context.tenant.settings)
    return json_response(explained | {"result": is_result})


def _needed(context: RequestContext, name: str) -> str:
    given = context.request.query_params.get(name)
    if not given:
        raise InvalidValue(name, given, f"?message=ID&subscription=ID, with the id of a {name}")
    return given
