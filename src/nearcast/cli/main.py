"""The `nearcast` command: exit codes and errors as the contract has them.

0 is success; 2 is bad usage or bad input, with one line on standard error; 1 is an internal
failure.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from nearcast._version import __version__
from nearcast.cli.plain_help import leave_out_types
from nearcast.errors import NearcastError

_MODULES = {
    "replay": "replay", "match": "match", "explain": "explain", "sample": "sample",
    "generate": "generate", "export": "export", "import": "export", "demo": "demo",
    "bench": "bench", "experiment": "experiment", "spark": "spark", "kernels": "kernels",
    "serve": "serve", "sub": "sub", "publish": "publish", "retract": "publish", "listen": "listen",
    "keys": "keys", "backup": "backup", "restore": "backup", "promote": "promote",
    "config": "config",
}  # fmt: skip
"""The commands in the order of the help, each with its module."""
_LABORATORY = {"generate", "bench", "experiment"}
"""Those that are part of `nearcast_lab`."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nearcast {__version__}")
        raise typer.Exit


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None and not context.resilient_parsing:
        from nearcast.cli.config_file import read_config, settings_for

        context.default_map = settings_for(path, read_config(path), context.command)
    return path


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=_read_config,
            envvar="NEARCAST_CONFIG",
            help="Settings of serve and spark run, in TOML; see 'nearcast config'.",
        ),
    ] = None,
) -> None:
    """Location-aware publish/subscribe: every message to exactly the people it concerns."""


def app_for(arguments: list[str]) -> typer.Typer:
    """The command line with the requested command, or with all of them if there is none.

    Some commands are slow to import; the others should not wait for them.
    """
    leave_out_types()
    app = typer.Typer(
        name="nearcast",
        help="Location-aware publish/subscribe: every message to exactly the people it concerns.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_options)
    after = arguments[2:] if arguments[:1] == ["--config"] else arguments
    wanted = after[:1] if after and after[0] in _MODULES else list(_MODULES)
    if wanted == ["config"]:
        wanted = ["config", "serve", "spark"]  # it shows their settings
    if arguments[:1] == ["--version"]:
        wanted = ["kernels"]  # no command is needed, but typer wants one
    for module in dict.fromkeys(_MODULES[name] for name in wanted):
        package = "nearcast_lab" if module in _LABORATORY else "nearcast"
        import_module(f"{package}.cli.{module}").add_to(app)
    return app


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _complain(text: str, notes: tuple[str, ...] = ()) -> None:
    sys.stderr.write(f"nearcast: {_one_line(text)}\n")
    if sys.stderr.isatty():
        for note in notes:
            sys.stderr.write(f"{note}\n")


def _usage_problem(error: Exception) -> str | None:
    """Return what is wrong with the arguments, or None if the error is about something else.

    The class of these errors belongs to click or, in later releases, to typer itself, which does
    not show it. Both know how to put themselves in words.
    """
    in_words = getattr(error, "format_message", None)
    if in_words is None:
        return None
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "nearcast"
    return f"{(in_words() or 'Missing command').rstrip('.')}; try '{path} --help'"


def _had_enough() -> int:
    """End successfully after the reader of the output has closed the pipe."""
    # keeps Python from complaining, at exit, about what it can no longer write
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        outcome = app_for(arguments)(arguments, prog_name="nearcast", standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    except typer.Exit as error:
        return error.exit_code
    except typer.Abort:
        return 130
    except NearcastError as error:
        _complain(str(error), tuple(getattr(error, "__notes__", ())))
        return 2
    except BrokenPipeError:
        return _had_enough()
    except SystemExit as error:
        # what typer makes of a broken pipe, before we see it
        if isinstance(error.__context__, BrokenPipeError):
            return _had_enough()
        raise
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        place = error.filename or "input or output"
        _complain(f"{place}: {error.strerror or error}; make room or choose another place")
        return 1
    except Exception as error:
        usage = _usage_problem(error)
        if usage is not None:
            _complain(usage)
            return 2
        if os.environ.get("NEARCAST_DEBUG"):
            raise
        _complain(
            f"internal error: {type(error).__name__}: {error}; "
            "run again with NEARCAST_DEBUG=1 to see where, and please report it"
        )
        return 1


def run() -> None:
    """Run the command line and end the process; the console script."""
    sys.exit(main())
