"""HTTPS with a certificate of one's own, renewed while the server runs."""

import shutil
import signal
import ssl
from pathlib import Path

import httpx
import pytest

from nearcast.cli.main import main
from patience import PATIENCE_S
from served import SALE
from server_process import running

PEM = Path(__file__).parents[1] / "helpers" / "certificates"


def install(folder: Path, name: str) -> list[str]:
    """Put a certificate in its place, and return the options that name it."""
    shutil.copy(PEM / f"{name}.pem", folder / "cert.pem")
    shutil.copy(PEM / f"{name}.key.pem", folder / "key.pem")
    return ["--certificate", str(folder / "cert.pem"), "--private-key", str(folder / "key.pem")]


def works(url: str, name: str) -> bool:
    """Whether a server shows a certificate."""
    try:
        with httpx.Client(verify=ssl.create_default_context(cafile=PEM / f"{name}.pem")) as client:
            return client.post(f"{url}/v1/messages", json=SALE).status_code == 200
    except httpx.ConnectError:
        return False


def test_a_certificate_is_renewed_without_a_restart(tmp_path: Path) -> None:
    with running(tmp_path, *install(tmp_path, "first"), scheme="https") as server:
        assert works(server.url, "first")
        assert not works(server.url, "second")
        (tmp_path / "key.pem").write_text("torn")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for_log("certificate is not renewed")
        assert works(server.url, "first")
        install(tmp_path, "second")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for_log("certificate is renewed")
        assert works(server.url, "second")
        assert not works(server.url, "first")
        assert server.terminate() == 0


def test_plain_requests_are_not_answered(tmp_path: Path) -> None:
    with running(tmp_path, *install(tmp_path, "first"), scheme="https") as server:
        with pytest.raises(httpx.TransportError):
            httpx.get(server.url.replace("https", "http"), timeout=PATIENCE_S)
        assert works(server.url, "first")


@pytest.mark.parametrize(("certificate", "key"), [("first", "second"), ("first", None)])
def test_a_certificate_needs_its_own_key(
    certificate: str, key: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--certificate", str(PEM / f"{certificate}.pem")]
    if key is not None:
        options += ["--private-key", str(PEM / f"{key}.key.pem")]
    assert main(["serve", *options]) == 2
    assert "--certificate" in capsys.readouterr().err
