"""The page of the live map as it is served."""

from __future__ import annotations

import pytest

from nearcast.cli.main import main
from served import serving

STYLE = "https://tiles.example/style.json?a=1&b=2"


def test_without_a_style_nothing_is_loaded_from_elsewhere() -> None:
    with serving() as site:
        answer = site.http.get("/")
    assert "map-style" not in answer.text
    assert "https:" not in answer.headers["content-security-policy"]


def test_a_style_is_named_in_the_page_and_allowed() -> None:
    with serving(map_style=STYLE) as site:
        pages = [site.http.get(path) for path in ("/", "/index.html")]
        script = site.http.get("/js/app.js")
    for answer in pages:
        assert answer.headers["content-type"].startswith("text/html")
        assert '<meta name="map-style" content="https://tiles.example/style.json?a=1&amp;b=2">' in (
            answer.text
        )
        policy = answer.headers["content-security-policy"]
        assert "connect-src 'self' https:;" in policy
        assert "default-src 'self';" in policy
    assert script.status_code == 200


@pytest.mark.parametrize("style", ["style.json", "ftp://x/s", "https://x/a'b", "https://x/ y"])
def test_what_is_no_address_of_a_style_is_refused(
    style: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--map-style", style]) == 2
    said = capfd.readouterr().err
    assert "--map-style" in said
    assert said.count("\n") == 1
