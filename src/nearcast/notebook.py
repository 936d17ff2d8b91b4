"""For notebooks: `%load_ext nearcast.notebook` shows lists of updates and results as tables.

An engine and a plan show themselves without it.
"""

from __future__ import annotations

from typing import Any

from nearcast.events.html import as_html


def load_ipython_extension(ipython: Any) -> None:
    """Show lists of our values as tables; other lists stay as they are."""
    ipython.display_formatter.formatters["text/html"].for_type(list, as_html)


def unload_ipython_extension(ipython: Any) -> None:
    """Show lists as they are."""
    ipython.display_formatter.formatters["text/html"].pop(list, None)
