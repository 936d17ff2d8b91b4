"""Checks of webhook addresses: private networks are refused unless they are allowed.

A host name is resolved once, and the address that was checked is the one that is called: a name
that resolves differently a moment later cannot get around the check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from nearcast.errors import InvalidValue

Resolve = Callable[[str, int], Awaitable[list[str]]]
_EXPECTED = "an address such as https://example.org/hook"
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # all other IPv6 addresses mean something local
_NAT64 = IPv6Network("64:ff9b::/96")


class ForbiddenAddress(Exception):  # noqa: N818 - named after the address, not the failure
    """An address that must not be called."""


def check_url(url: object, *, private: bool) -> str:
    """Return the address of a webhook if it is valid, without resolving its host name."""
    if not isinstance(url, str) or len(url) > 2000:
        raise InvalidValue("url", url, _EXPECTED)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidValue("url", url, _EXPECTED) from None
    odd = not url.isascii() or any(ord(letter) <= 32 for letter in url)
    if odd or parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidValue("url", url, _EXPECTED)
    if parts.username is not None or parts.fragment:
        raise InvalidValue("url", url, f"{_EXPECTED}, without a user or a fragment")
    if not private and _is_inside(parts.hostname):
        raise InvalidValue(
            "url",
            url,
            "a public address, or a server started with --allow-private-webhooks",
        )
    return url


def _is_inside(host: str) -> bool:
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not is_public(host)
    except ValueError:
        return False  # a name: decided once it is resolved


def is_public(address: str) -> bool:
    """Whether an IP address is reachable on the public internet."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        inner = _inside_of(ip)
        if inner is None:
            return ip in _GLOBAL_UNICAST and ip.is_global
        ip = inner
    return ip.is_global and not ip.is_multicast


def _inside_of(ip: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to an IPv6 address end up at, where there is one."""
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)


async def _look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
    return [str(address[4][0]) for address in found]


async def checked_addresses(
    host: str, port: int, *, private: bool, resolve: Resolve | None = None
) -> list[str]:
    """Look a host up, and return its IP addresses if all of them may be called."""
    try:
        addresses = await (resolve or _look_up)(host, port)
    except OSError as error:
        raise ForbiddenAddress(f"{host}: cannot be found ({error})") from None
    if not addresses:
        raise ForbiddenAddress(f"{host}: has no address")
    if not private and not all(is_public(address) for address in addresses):
        raise ForbiddenAddress(
            f"{host}: leads to a private address, which the server does not allow"
        )
    return addresses
