"""Encrypted connections: a certificate with its key, read again when they are renewed."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from nearcast.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate, with the ones that it was signed by, and its private key, in PEM."""

    certificate: Path
    private_key: Path

    def load_into(self, context: ssl.SSLContext) -> None:
        """Use the files for connections from now on; bad ones change nothing."""
        try:
            for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
                each.load_cert_chain(self.certificate, self.private_key, password=_no_password)
        except (OSError, ValueError) as error:
            raise InvalidValue(
                "--certificate",
                f"{self.certificate} with {self.private_key}",
                f"a certificate and its private key without a password, in PEM ({error})",
            ) from None

    def check(self) -> None:
        """Raise an error if the files cannot be used."""
        self.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def _no_password() -> str:
    raise ValueError("the private key has a password")
