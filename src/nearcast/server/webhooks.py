"""`/v1/subscriptions/{id}/webhook` and `/v1/dead-letters`."""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from typing import Any

import msgspec
from starlette.responses import Response

from nearcast.engine import Engine
from nearcast.errors import InvalidValue
from nearcast.server.addresses import check_url
from nearcast.server.bodies import json_body, json_response, size_of, whole_number
from nearcast.server.describe import ID, describe, limit, parameter
from nearcast.server.problems import Problem
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.subscriptions import living
from nearcast.store.webhooks import Webhook

routes = Routes()
_PREFIX = "whsec_"
_PATH = "/v1/subscriptions/{id}/webhook"
_LETTER = parameter(
    "letter",
    {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
    "The number of the dead letter.",
    where="path",
)


def _secret(given: object) -> str:
    if given is None:
        return _PREFIX + b64encode(secrets.token_bytes(32)).decode()
    expected = f"{_PREFIX} and 24 to 64 bytes in base64, or none to get a new one"
    try:
        if isinstance(given, str) and given.startswith(_PREFIX):
            size = len(b64decode(given.removeprefix(_PREFIX), validate=True))
            if 24 <= size <= 64:
                return given
    except ValueError:
        pass
    raise InvalidValue("secret", "***", expected)


def _shown(context: RequestContext, hook: Webhook) -> dict[str, Any]:
    failures, error = context.state.dispatcher.failures.get(
        (context.tenant.name, hook.subscription), (0, None)
    )
    return {
        "subscription": hook.subscription,
        "url": hook.url,
        "after": context.state.dispatcher.place(context.tenant, hook),
        "failures": failures,
        "error": error,
    }


@routes.add(
    "PUT",
    _PATH,
    "subscribe",
    describe(
        "webhooks",
        200,
        "The webhook, with its secret, which is shown this once.",
        answer="MadeWebhook",
        body="NewWebhook",
        parameters=(ID,),
        problems=(404, 507),
    ),
)
async def put_webhook(context: RequestContext) -> Response:
    """Post the updates of a subscription to an address.

    Each post is signed as the Standard Webhooks specification says. One that keeps failing is
    retried and finally stored as a dead letter. `after` starts with older updates, as far as
    they are still kept.
    """
    fields = await json_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    id = context.path_id()
    url = check_url(fields.get("url"), private=context.state.config.private_webhooks)
    place = fields.get("after")
    if place is None:
        place = context.tenant.hub.last
    elif isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < 2**63:
        raise InvalidValue("after", place, "the id of an update, or 0 for all that are kept")
    hook = Webhook(id, url, _secret(fields.get("secret")), place)
    quotas, now = context.tenant.quotas, context.state.config.clock()

    def put(engine: Engine) -> bool:
        if living(engine, id, now) is None:
            return False
        if engine.webhooks.find(id) is None:
            quotas.check("webhooks", engine.webhooks.count())
            quotas.check("bytes", engine.stored_bytes())
        engine.webhooks.put(hook)
        return True

    def begin(found: bool) -> None:
        if found and context.state.role.is_primary:  # or it was fenced meanwhile
            context.state.dispatcher.begin(context.tenant, hook)

    size = size_of(context.request)
    if not await context.tenant.backend.change(put, begin, size=size):
        raise Problem(404, "unknown-subscription", f"there is no subscription {id!r}")
    return json_response(_shown(context, hook) | {"secret": hook.secret})


@routes.add(
    "GET",
    _PATH,
    "subscribe",
    describe("webhooks", 200, "The webhook.", answer="Webhook", parameters=(ID,), problems=(404,)),
)
async def show_webhook(context: RequestContext) -> Response:
    """Show the webhook of a subscription, and its latest failures."""
    context.caller.pay()
    id = context.path_id()
    hook = await context.tenant.backend.ask(lambda engine: engine.webhooks.find(id))
    if hook is None:
        raise Problem(404, "unknown-webhook", "this subscription has no webhook")
    return json_response(_shown(context, hook))


@routes.add(
    "DELETE",
    _PATH,
    "subscribe",
    describe("webhooks", 204, "It is gone.", parameters=(ID,), problems=(404, 507)),
)
async def remove_webhook(context: RequestContext) -> Response:
    """Remove the webhook of a subscription."""
    context.caller.pay()
    id = context.path_id()

    def end(found: bool) -> None:
        if found:
            context.state.dispatcher.end(context.tenant, id)

    if not await context.tenant.backend.change(lambda engine: engine.webhooks.remove(id), end):
        raise Problem(404, "unknown-webhook", "this subscription has no webhook")
    return Response(status_code=204)


@routes.add(
    "GET",
    "/v1/dead-letters",
    "subscribe",
    describe(
        "webhooks",
        200,
        "A page of them.",
        answer="DeadLetters",
        parameters=(
            limit(1000),
            parameter(
                "after",
                {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
                "`next` of the page before.",
            ),
        ),
    ),
)
async def list_dead_letters(context: RequestContext) -> Response:
    """List updates that could not be delivered to their webhooks."""
    context.caller.pay()
    most = whole_number(context.request, "limit", 100, 1, context.limits.page)
    after = whole_number(context.request, "after", 0, 0, 2**63 - 1)
    letters = await context.tenant.backend.ask(
        lambda engine: engine.webhooks.letters(after, most + 1)
    )
    page = letters[:most]
    shown = [
        {
            "id": letter.id,
            "subscription": letter.subscription,
            "update": letter.update_id,
            "body": msgspec.Raw(letter.body),
            "error": letter.error,
            "at": letter.at,
        }
        for letter in page
    ]
    return json_response({"letters": shown, "next": page[-1].id if letters[most:] else None})


@routes.add(
    "POST",
    "/v1/dead-letters/replay",
    "subscribe",
    describe("webhooks", 200, "How many went out this time.", answer="Replayed", problems=(507,)),
)
async def replay_dead_letters(context: RequestContext) -> Response:
    """Post all dead letters once more; those that are delivered are deleted."""
    context.caller.pay()
    tenant, replayed, last = context.tenant, 0, 0
    while True:
        after = last
        letters = await tenant.backend.ask(lambda engine: engine.webhooks.letters(after, 100))  # noqa: B023 - asked before the next turn
        if not letters:
            break
        for letter in letters:
            last = letter.id
            if await context.state.dispatcher.retry(tenant, letter):
                await tenant.backend.change(lambda engine: engine.webhooks.discard(last))  # noqa: B023 - asked before the next turn
                replayed += 1
    return json_response({"replayed": replayed})


@routes.add(
    "DELETE",
    "/v1/dead-letters/{letter}",
    "subscribe",
    describe("webhooks", 204, "It is gone.", parameters=(_LETTER,), problems=(404, 507)),
)
async def discard_dead_letter(context: RequestContext) -> Response:
    """Delete a dead letter."""
    context.caller.pay()
    given = context.request.path_params["letter"]
    number = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else 0
    if not await context.tenant.backend.change(lambda engine: engine.webhooks.discard(number)):
        raise Problem(404, "unknown-letter", f"there is no dead letter {given!r}")
    return Response(status_code=204)
