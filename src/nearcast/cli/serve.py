"""`nearcast serve`: the server."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli import options
from nearcast.cli.need import need
from nearcast.cli.remote import read_key
from nearcast.errors import InvalidValue

if TYPE_CHECKING:
    from nearcast.server.telemetry import Telemetry

_CONFIRMED_WITHIN_S = 5.0  # then a change that no standby has confirmed is answered with 503


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("serve", context_settings={"auto_envvar_prefix": "NEARCAST_SERVE"})(serve_command)


def serve_command(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default="in memory", help="The folder of all data; made if new."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Where to listen; a key is needed off loopback."),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="The port to listen on; 0 picks a free one."
        ),
    ] = 8080,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="What does the matching: embedded or spark.")
    ] = "embedded",
    index: options.IndexOption = "auto",
    workers: options.WorkersOption = None,
    partitioner: options.PartitionerOption = "auto",
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="The cluster that the pipeline runs on.")
    ] = None,
    require_key: Annotated[
        bool,
        typer.Option("--require-key", help="Ask for a key on loopback too, as behind a proxy."),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another host name for a server without keys."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Web pages of this origin may use the API (CORS)."),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Serve HTTPS with this certificate, in PEM."),
    ] = None,
    private_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The key of the certificate. SIGHUP reads both again."),
    ] = None,
    map_style: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            show_default="the shipped basemap",
            help="A MapLibre style with streets, for the live map; its host sees who opens it.",
        ),
    ] = None,
    allow_private_webhooks: Annotated[
        bool, typer.Option("--allow-private-webhooks", help="Webhooks may go to private addresses.")
    ] = False,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TENANT:]NAME=N",
            show_default="none",
            help="The most that each tenant, or one, may have: subscriptions, messages, "
            "listeners, webhooks, bytes, events (a second).",
        ),
    ] = None,
    max_lead: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="How far the time of an event may be ahead of the clock; inf for no limit.",
        ),
    ] = 300.0,
    max_waiting: Annotated[
        float,
        typer.Option(
            metavar="BYTES",
            min=0.0,
            help="How many bytes of requests of a tenant may wait; more are answered with 503.",
        ),
    ] = 256e6,
    retain_hours: Annotated[
        float | None,
        typer.Option(metavar="H", min=0.0, show_default="a week", help="Keep updates this long."),
    ] = None,
    retain_updates: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default="10 million", help="Keep at most N updates."),
    ] = None,
    window_count: options.WindowCountOption = None,
    window_seconds: options.WindowSecondsOption = None,
    space: options.SpaceOption = None,
    history: options.HistoryOption = None,
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    cjk: options.CjkOption = False,
    follow: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Be a standby of the server at this address; needs --data."
        ),
    ] = None,
    follow_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with a key of scope admin for that server; or NEARCAST_SERVE_FOLLOW_KEY.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            show_default="where it listens",
            help="Where the other server of a pair reaches this one.",
        ),
    ] = None,
    ack: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="Answer changes when they are on the disk here (local), or on that of the "
            "standby too (replicated).",
        ),
    ] = "local",
    resync: Annotated[
        bool,
        typer.Option("--resync", help="Set data aside that the server to follow does not have."),
    ] = False,
    archive: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Copy every commit to this folder, here or such as s3://..., to restore to a "
            "time; needs --data.",
        ),
    ] = None,
    archive_seconds: Annotated[
        float, typer.Option(metavar="N", min=0.01, help="How often commits are copied.")
    ] = 5.0,
    archive_full_hours: Annotated[
        float, typer.Option(metavar="N", min=0.0, help="How often all data is copied.")
    ] = 24.0,
    archive_days: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=0.0,
            show_default="for ever",
            help="To which time back the archive is kept.",
        ),
    ] = None,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
    ] = "info",
) -> None:
    """Serve subscriptions, messages and updates over HTTP, with a live map at /.

    On a loopback address no key is needed. On any other, make one first:
    nearcast keys add phone --data DIR. What was acknowledged is in DIR, whatever happens then.

    [bold]Example[/bold]

      nearcast serve --data deals --port 8080

      nearcast replay sample.jsonl --engine http=http://127.0.0.1:8080

      NEARCAST_SERVE_PORT=8080 nearcast serve

      nearcast serve --data copy --port 8081 --follow http://127.0.0.1:8080
    """
    need("fastapi", "server")
    from nearcast.engine import check_index, history_from
    from nearcast.engine.settings import GivenSettings
    from nearcast.server.config import LOOPBACK_NAMES, Config, is_loopback
    from nearcast.server.keys import KeyStore
    from nearcast.server.logs import LEVELS, set_up_logs
    from nearcast.server.quotas import read_quotas
    from nearcast.server.run import address_of, bound, serve
    from nearcast.server.tls import TlsFiles

    if engine not in ("embedded", "spark"):
        raise InvalidValue("--engine", engine, "embedded or spark")
    check_index(index, "--index")
    if index != "auto" and engine != "embedded":
        raise InvalidValue("--engine", engine, "embedded, as --index is given")
    if engine == "spark":
        _check_spark(data, partitioner)
    if log_level not in LEVELS:
        raise InvalidValue("--log-level", log_level, f"one of {', '.join(LEVELS)}")
    quotas = read_quotas(quota or ())
    _check_archive(data, engine, archive)
    key = _check_pair(data, engine, follow, follow_key_file, ack)
    options.check_window(window_count, window_seconds)
    if data is not None and data.exists() and not data.is_dir():
        raise InvalidValue("--data", str(data), "a folder, or the name of a new one")
    is_open = is_loopback(host) and not require_key
    if not is_open and (data is None or not len(KeyStore(data / "keys.db"))):
        raise InvalidValue(
            "--host",
            host,
            "a loopback address, or --data DIR with a key in it: "
            f"nearcast keys add NAME --data {data or 'DIR'}",
        )
    tls = None
    if certificate is not None and private_key is not None:
        tls = TlsFiles(certificate, private_key)
        tls.check()
    elif certificate is not None or private_key is not None:
        raise InvalidValue("--certificate", certificate, "both --certificate and --private-key")
    if map_style is not None and not re.fullmatch(r"https?://[^\s'\";,]+", map_style):
        raise InvalidValue("--map-style", map_style, "the address of a style: https://HOST/PATH")
    given = options.given_text(stem, stop_words, cjk)
    analyser = options.analyser(stem, stop_words, cjk)
    config = Config(
        data=data,
        open=is_open,
        hosts=frozenset((*LOOPBACK_NAMES, host, *(allow_host or ()))),
        origins=frozenset(allow_origin or ()),
        engine=engine,
        index=index,
        workers=workers,
        partitioner=partitioner,
        master=master,
        given=GivenSettings(
            window_count,
            window_seconds,
            None if space is None else options.box(space, "--space"),
            None if history is None else history_from(history, analyser),
            given,
        ),
        private_webhooks=allow_private_webhooks,
        lead_s=max_lead,
        waiting_bytes=max_waiting,
        quotas=quotas,
        tls=tls,
        map_style=map_style,
        retain_seconds=None if retain_hours is None else retain_hours * 3600.0,
        retain_updates=retain_updates,
        follow=None if follow is None else follow.rstrip("/"),
        follow_key=key,
        resync=resync,
        telemetry=_telemetry(),
        archive=archive,
        archive_s=archive_seconds,
        archive_full_s=archive_full_hours * 3600.0,
        archive_days=archive_days,
        confirmed_within_s=_CONFIRMED_WITHIN_S if ack == "replicated" else None,
    )
    set_up_logs(log_level)
    with bound(host, port) as listening:
        address = address_of(listening, host, "http" if tls is None else "https")
        config = replace(config, advertise=(advertise or address).rstrip("/"))

        def started() -> None:
            kept = "in memory" if data is None else f"in {data}"
            about = "" if follow is None else f", a standby of {follow} unless it was promoted"
            sys.stderr.write(f"nearcast: {address} (everything is kept {kept}{about})\n")

        serve(config, listening, started)


def _check_pair(
    data: Path | None, engine: str, follow: str | None, key_file: Path | None, ack: str
) -> str | None:
    """Check the options of a pair of servers, and return the key for the other one."""
    if ack not in ("local", "replicated"):
        raise InvalidValue("--ack", ack, "local or replicated")
    if (follow is not None or ack == "replicated") and (data is None or engine != "embedded"):
        given = "--follow" if follow is not None else "--ack"
        raise InvalidValue(given, follow or ack, "--data DIR, and --engine embedded, beside it")
    if follow is not None and not follow.startswith(("http://", "https://")):
        raise InvalidValue("--follow", follow, "the address of a server: http://HOST:PORT")
    if key_file is None:
        return os.environ.get("NEARCAST_SERVE_FOLLOW_KEY")
    return read_key(key_file, "--follow-key-file")


def _telemetry() -> Telemetry:
    """What the variables of OpenTelemetry ask for: usually nothing."""
    from nearcast.server.telemetry import Telemetry, is_configured

    if not is_configured(os.environ):
        return Telemetry()
    need("opentelemetry.sdk", "otel")
    from nearcast.server.otel import telemetry_from

    return telemetry_from(os.environ)


def _check_archive(data: Path | None, engine: str, archive: str | None) -> None:
    """Check that there is something to archive, and a place for it."""
    if archive is None:
        return
    if data is None or engine != "embedded":
        raise InvalidValue("--archive", archive, "--data DIR, and --engine embedded, beside it")
    from nearcast.server.archive.chains import ServerArchive

    ServerArchive(archive).check()


def _check_spark(data: Path | None, partitioner: str) -> None:
    """Check the settings of the pipeline now, before it starts."""
    from nearcast.cli.spark_replay import check_partitioner
    from nearcast.cli.spark_setup import need_spark

    if data is None:
        raise InvalidValue("--data", None, "a folder, in which server and pipeline on Spark meet")
    need_spark()
    check_partitioner(partitioner)
