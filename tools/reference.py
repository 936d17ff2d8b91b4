"""Pages of the documentation that are read off the code: commands, HTTP, settings, metrics.

MkDocs calls `on_files` (see `mkdocs.yml`); the tests call `pages`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from nearcast.cli.main import app_for
from nearcast.server.app import create_app
from nearcast.server.config import Config
from nearcast.server.describe import document

Command = Any  # the class belongs to click, or to typer in later releases
Operation = dict[str, Any]

VARIABLES = {
    "NEARCAST_CACHE": "where a node of a Spark cluster keeps its shards as mapped files; "
    "`/dev/shm`, or a temporary folder, unless set",
    "NEARCAST_KERNELS": "where compiled kernels are kept; in the package, or in the cache folder "
    "of the user, unless set",
    "NEARCAST_KEY": "the key with which commands open a server; or their `--key-file`",
    "NEARCAST_SERVE_FOLLOW_KEY": "the key with which a standby opens its primary; or "
    "`--follow-key-file` of `nearcast serve`",
    "NEARCAST_DEBUG": "if set, an internal failure of a command shows its traceback",
}
"""Environment variables that are no option of a command."""


def pages() -> dict[str, str]:
    """The text of each page by its path."""
    return {
        "reference/commands.md": commands_page(),
        "reference/http.md": http_page(),
        "reference/settings.md": settings_page(),
        "reference/metrics.md": metrics_page(),
    }


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those that MkDocs found in the folder."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def every_command() -> Iterator[tuple[str, Command]]:
    """All commands that do something, with their full names, in the order of the help."""
    waiting = [("nearcast", typer.main.get_command(app_for([])))]
    while waiting:
        name, command = waiting.pop(0)
        below = getattr(command, "commands", None)
        if below is None:
            yield name, command
        else:
            waiting = [(f"{name} {each}", found) for each, found in below.items()] + waiting


def commands_page() -> str:
    """Every command with its help, arguments and options."""
    parts = [
        "# Commands\n\nExit codes: 0 is success, 2 is bad usage or bad input, with one line on "
        "standard error that says what to change, 1 is an internal failure.\n"
    ]
    group = ""
    for name, command in every_command():
        words = name.split()
        if len(words) > 2 and words[1] != group:
            group = words[1]
            parts.append(f"## {' '.join(words[:2])}\n")
        parts.append(f"{'#' * min(len(words), 3)} {name}\n\n{in_markdown(command.help or '')}\n")
        parts.append(parameters_table(command))
    return "\n".join(parts)


def in_markdown(help: str) -> str:
    """The help of a command, with its examples as blocks."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", help.replace("\b", "").strip()):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if re.match(r"(NEARCAST_\w+=\S+ )?nearcast ", lines[0]) and not lines[0].endswith("."):
            paragraphs.append("\n".join(["```sh", *lines, "```"]))
        else:
            text = " ".join(lines)
            paragraphs.append("" if text.strip("[]/bold ") == "Example" else escaped(text))
    return "\n\n".join(filter(None, paragraphs))


def parameters_table(command: Command) -> str:
    """What a command takes, as a table."""
    rows = []
    for each in command.params:
        if each.name == "help":
            continue
        names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        if each.param_type_name == "argument":
            names = f"`{(each.metavar or each.name).strip('{}[]').upper()}`"
        value = "" if getattr(each, "is_flag", False) else each.metavar or ""
        if each.param_type_name == "argument":
            value = "required" if each.required else "optional"
        cells = (names, escaped(value), default_of(each), escaped(each.help or ""))
        rows.append(f"| {' | '.join(cells)} |")
    if not rows:
        return ""
    return "\n".join(["| | value | default | |", "|---|---|---|---|", *rows, ""])


def default_of(parameter: Any) -> str:
    """The default of a parameter in words; nothing where there is none worth saying."""
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return escaped(shown)
    value = parameter.default
    if value is None or callable(value) or value in (False, "", ()) or "Sentinel" in repr(value):
        return ""
    return f"`{value}`"


def http_page() -> str:
    """Every route of the server with its parameters and answers."""
    described = document(create_app(Config()))
    parts = [
        "# HTTP\n\nA running server describes the same at `/docs`, and for programs at "
        "`/openapi.json`. [The server](server.md) says how they work together.\n"
    ]
    schemas = described["components"]["schemas"]
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            parts.append(operation_text(f"{method.upper()} {path}", operation))
    parts.append("## Schemas\n")
    for name, schema in sorted(schemas.items()):
        parts.append(f"### {name}\n\n{escaped(schema.get('description', ''))}\n")
        parts.append(members_table(schema))
    return "\n".join(parts)


def operation_text(title: str, operation: Operation) -> str:
    """One route."""
    lines = [f"## {title}\n", escaped(operation.get("description") or operation["summary"]), ""]
    scope = operation.get("x-scope")
    if scope:
        lines += [f"Scope: `{scope}`.", ""]
    rows = [
        f"| `{each['name']}` | {each['in']} | {escaped(each.get('description', ''))} |"
        for each in operation.get("parameters", ())
    ]
    if rows:
        lines += ["| parameter | in | |", "|---|---|---|", *rows, ""]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        lines += [f"Body, `{media}`: {schema_name(content.get('schema', {}))}.", ""]
    lines += ["| status | |", "|---|---|"]
    for status, answer in operation["responses"].items():
        kinds = [schema_name(each.get("schema", {})) for each in answer.get("content", {}).values()]
        named = f" ({', '.join(dict.fromkeys(kinds))})" if any(kinds) else ""
        lines.append(f"| {status} | {escaped(answer['description'])}{named} |")
    return "\n".join([*lines, ""])


def schema_name(schema: dict[str, Any]) -> str:
    """A schema, linked where it has a name."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return f"[{name}](#{name.lower()})" if name else str(schema.get("type", "text"))


def members_table(schema: dict[str, Any]) -> str:
    """The members of an object, or nothing."""
    required = schema.get("required", ())
    rows = [
        f"| `{name}` | {schema_name(each)} | {'yes' if name in required else ''} "
        f"| {escaped(each.get('description', ''))} |"
        for name, each in schema.get("properties", {}).items()
    ]
    return "\n".join(["| member | | required | |", "|---|---|---|---|", *rows, ""]) if rows else ""


def settings_page() -> str:
    """Every environment variable."""
    rows = [("NEARCAST_CONFIG", "`--config` of every command: the file of settings")]
    for name, command in every_command():
        prefix = command.context_settings.get("auto_envvar_prefix")
        for each in command.params:
            given = getattr(each, "envvar", None)
            if given is None and prefix and each.name != "help":
                given = f"{prefix}_{each.name.upper()}"
            if given:
                option = each.opts[0]
                rows.append((given, f"`{option}` of `{name}`: {escaped(each.help or '')}"))
    named: dict[str, str] = {}
    for variable, text in rows:
        named.setdefault(variable, text)
    named |= VARIABLES
    lines = [f"| `{variable}` | {text} |" for variable, text in named.items()]
    return "\n".join(
        [
            "# Settings",
            "",
            "An option on the command line comes first, then the environment, then a file in "
            "TOML that `nearcast --config FILE` or `NEARCAST_CONFIG` names. `nearcast config` "
            "shows what all of them together say, and where each value comes from.",
            "",
            "```toml",
            "[serve]  # the options of `nearcast serve`, without their dashes",
            'data = "/var/lib/nearcast"',
            "port = 8080",
            'allow-host = ["deals.example"]',
            "",
            "[spark.run]  # those of `nearcast spark run`",
            "workers = 8",
            "```",
            "",
            "In the environment, a value that is a list has blanks between its parts. A "
            "key belongs there or in a file, never on a command line, where other users of the "
            "machine can read it.",
            "",
            "| variable | |",
            "|---|---|",
            *lines,
            "",
        ]
    )


def metrics_page() -> str:
    """Every metric of the server."""
    state = create_app(Config()).state.server_state
    rows = [
        f"| `{family.name}` | {family.type} | {escaped(family.documentation)} |"
        for family in state.metrics.registry.collect()
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "Of a server, at `/metrics`. Counters end in `_total` there, histograms in `_bucket`, "
            "`_sum` and `_count`. Those of a pipeline are on "
            "[its page](../explanation/spark.md#monitoring).",
            "",
            "| metric | type | |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def escaped(text: str) -> str:
    """Text for a cell of a table, without the markup of the terminal."""
    text = re.sub(r"\[/?bold\]", "", text)
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
