"""Extras: what is not installed with the package itself, and how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from nearcast.errors import SetupError


def need(module: str, extra: str) -> None:
    """Say how to install an extra, if it is not there."""
    if find_spec(module) is None:
        raise SetupError(
            f"{module}: is not installed; this command needs: pip install 'nearcast[{extra}]'"
        )
