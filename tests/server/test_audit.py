"""The audit log: administrative acts, with who did them."""

import json
from pathlib import Path
from typing import Any

from nearcast.cli.main import main
from nearcast.server.keys import KeyStore
from served import IPAD, SALE, serving


def acts(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data / "audit.jsonl").read_text().splitlines()]


def test_acts_are_noted_with_the_key(tmp_path: Path) -> None:
    book = KeyStore(tmp_path / "keys.db")
    key = book.add("boss", scopes=["admin"])
    book.close()
    headers = {"authorization": f"Bearer {key}"}
    with serving(tmp_path, open=False) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD, headers=headers)
        server.post("/v1/messages", SALE, headers=headers)
        server.http.post("/v1/backups", headers=headers)
        server.http.delete("/v1/subscriptions/s1/webhook", headers=headers)
        server.http.get("/v1/dead-letters", headers=headers)
        server.http.post("/v1/backups")
    found = [(each["act"], each["by"], each["tenant"], each["status"]) for each in acts(tmp_path)]
    assert found == [
        ("POST /v1/backups", "boss", "default", 201),
        ("DELETE /v1/subscriptions/{id}/webhook", "boss", "default", 404),
    ]
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o077 == 0
    assert key not in (tmp_path / "audit.jsonl").read_text()


def test_changes_of_keys_are_noted(tmp_path: Path) -> None:
    for command in (["add", "phone", "--tenant", "acme"], ["rotate", "phone"], ["remove", "phone"]):
        assert main(["keys", *command, "--data", str(tmp_path)]) == 0
    assert main(["keys", "remove", "nobody", "--data", str(tmp_path)]) == 2
    found = [(each["act"], each["key"], each["tenant"]) for each in acts(tmp_path)]
    assert found == [(f"keys {act}", "phone", "acme") for act in ("add", "rotate", "remove")]
