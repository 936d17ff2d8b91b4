"""Checks for optional dependencies."""

from __future__ import annotations

from importlib.util import find_spec

from nearcast.errors import SetupError


def need(module: str, extra: str) -> None:
    """Raise an error that says how to install an extra if its module is missing."""
    if find_spec(module) is None:
        raise SetupError(
            f"{module}: is not installed; this command needs: pip install 'nearcast[{extra}]'"
        )
