"""`/openapi.json` and `/docs`: the description of the API for programs and for people.

The page is rendered here from the description; it needs no script and no external files.
"""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from nearcast.server.bodies import json_response
from nearcast.server.describe import document

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 54rem; padding: 0 1rem;
  color: #1a2330; background: #fff }
@media (prefers-color-scheme: dark) { body { color: #dde4ee; background: #12161c }
  pre, code, summary { background: #1c232d !important } }
h2 { margin-top: 2.5rem; text-transform: capitalize }
summary { cursor: pointer; padding: .5rem .7rem; margin: .3rem 0; background: #f0f3f7;
  border-radius: .4rem }
summary b { display: inline-block; width: 4.5rem }
pre, code { background: #f0f3f7; border-radius: .3rem }
pre { padding: .7rem; overflow-x: auto } code { padding: 0 .2rem }
td, th { text-align: left; vertical-align: top; padding: .1rem 1rem .1rem 0 }
"""


def install_docs(app: FastAPI) -> None:
    """Add the routes of both descriptions."""

    async def openapi(request: Request) -> Response:
        del request
        return json_response(document(app))

    async def docs(request: Request) -> Response:
        del request
        return HTMLResponse(page(document(app)))

    app.router.add_route("/openapi.json", openapi, methods=["GET"])
    app.router.add_route("/docs", docs, methods=["GET"])


def page(api: dict[str, Any]) -> str:
    """Render the whole API as one HTML page."""
    schemas = api["components"]["schemas"]
    tags: dict[str, list[str]] = {}
    for path, operations in api["paths"].items():
        for method, operation in operations.items():
            shown = _operation(method, path, operation, schemas)
            tags.setdefault(operation["tags"][0], []).append(shown)
    parts = [f"<h2>{escape(tag)}</h2>{''.join(shown)}" for tag, shown in tags.items()]
    shapes = "".join(_schema(name, schema) for name, schema in schemas.items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Nearcast API</title>"
        "<meta name=viewport content='width=device-width'>"
        f"<style>{_STYLE}</style><h1>Nearcast API {escape(api['info']['version'])}</h1>"
        f"<p>{_text(api['info']['description'])}</p>"
        "<p>For programs: <a href='/openapi.json'>/openapi.json</a>. "
        "A key is sent as <code>Authorization: Bearer KEY</code>. "
        "Both directions over one connection: WebSocket at <code>/v1/updates/ws</code>.</p>"
        f"{''.join(parts)}<h2>schemas</h2>{shapes}</html>"
    )


def _text(text: str) -> str:
    pieces = escape(text).split("`")
    return "".join(
        f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces)
    )


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code><td>{each['in']}<td>"
        f"{_text(each['description'])}"
        for each in operation.get("parameters", ())
    )
    body = ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        body += f"<p>Body, <code>{escape(kind)}</code>:</p>{_example(content['schema'], schemas)}"
    answers = "".join(
        f"<tr><td>{status}<td>{_text(answer['description'])}"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f"{_text(operation['summary'])}</summary>"
        f"<p>{_text(operation.get('description', ''))}</p>"
        f"<p>Scope: <code>{escape(operation['x-scope'])}</code></p>"
        f"<table>{rows}</table>{body}<table>{answers}</table></details>"
    )


def _example(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    example = schemas.get(name, {}).get("example")
    if example is None:
        return f"<p>{_text(schema.get('description', name))}</p>"
    shown = msgspec.json.format(msgspec.json.encode(example)).decode()
    return f"<pre>{escape(shown)}</pre>"


def _schema(name: str, schema: dict[str, Any]) -> str:
    shown = msgspec.json.format(msgspec.json.encode(schema)).decode()
    return (
        f"<details><summary><code>{escape(name)}</code></summary>"
        f"<pre>{escape(shown)}</pre></details>"
    )
