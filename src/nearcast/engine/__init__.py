"""The embedded engine: the order of events, the reference, replay of a log."""

from nearcast.engine.engine import Engine, history_from
from nearcast.engine.names import RANKING_NAMES, check_index
from nearcast.engine.outcome import EventOutcome
from nearcast.engine.replay import Quarantine, replay, stop_at, update_line
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.engine.update_log import Entry, UpdateLog
from nearcast.index_names import INDEX_NAMES

__all__ = [
    "INDEX_NAMES",
    "RANKING_NAMES",
    "Engine",
    "Entry",
    "EventOutcome",
    "Quarantine",
    "Scan",
    "Settings",
    "UpdateLog",
    "check_index",
    "history_from",
    "replay",
    "stop_at",
    "update_line",
]
