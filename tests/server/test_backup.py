"""`nearcast backup`: a copy that was taken while a server was busy has all it had acknowledged."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import failing_calls
import nearcast
from nearcast.cli.main import main
from nearcast.errors import StoreError
from nearcast.server.keys import KeyStore
from patience import wait_until
from served import IPAD, SALE, serving

KILLED = """
import os, signal, sys
from nearcast.cli.main import main
from nearcast.store import copies
real, copied = copies.copy_file, []
def copy_file(source, target):
    if len(copied) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    copied.append(target)
    real(source, target)
copies.copy_file = copy_file
main(["backup", "--data", sys.argv[1], "--output", sys.argv[2]])
"""


def made_data(folder: Path) -> Path:
    """The data of a server with two tenants and keys."""
    keys = KeyStore(folder / "keys.db")
    token = keys.add("acme", tenant="acme")
    keys.close()
    with serving(folder, open=False) as server:
        key = {"authorization": f"Bearer {token}"}
        assert server.http.put("/v1/subscriptions/s1", json=IPAD, headers=key).status_code == 201
    return folder


def test_a_copy_taken_while_messages_come_in_is_consistent(tmp_path: Path) -> None:
    """Every update before the copy began, none in parts, and the ids go on from there."""
    with serving(tmp_path / "data") as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        done = threading.Event()
        acknowledged: list[str] = []

        def post() -> None:
            while not done.is_set():
                number = len(acknowledged)
                server.post("/v1/messages", SALE | {"id": f"m{number}", "ttl": 1e9})
                acknowledged.append(f"m{number}")

        thread = threading.Thread(target=post)
        thread.start()
        wait_until(lambda: len(acknowledged) >= 5 or not thread.is_alive(), "five messages")
        assert thread.is_alive()
        before = list(acknowledged)
        copy = str(tmp_path / "copy")
        assert main(["backup", "--data", str(tmp_path / "data"), "--output", copy]) == 0
        done.set()
        thread.join()
    with serving(tmp_path / "copy") as server:
        kept = [update["message"] for update in server.updates()]
        assert kept[: len(before)] == before
        assert kept == [f"m{number}" for number in range(len(kept))]
        results = server.http.get("/v1/subscriptions/s1/results").json()["results"]
        assert {result["message"] for result in results} == set(kept)
        server.post("/v1/messages", SALE | {"id": "later"})
        assert [update["id"] for update in server.updates()] == list(range(1, len(kept) + 2))


def test_where_nothing_is_to_be_copied_that_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "--data", str(tmp_path), "--output", str(tmp_path / "copy")]) == 2
    assert "expected the folder that `nearcast serve --data` was given" in capfd.readouterr().err


@pytest.mark.parametrize("copied", [0, 1, 2])
def test_a_backup_that_was_killed_is_not_served_from(copied: int, tmp_path: Path) -> None:
    data, copy = made_data(tmp_path / "data"), tmp_path / "copy"
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(data), str(copy), str(copied)],
        env=os.environ | {"PYTHONPATH": str(Path(nearcast.__file__).parents[1])},
        check=False,
    )
    assert run.returncode == -signal.SIGKILL
    assert not copy.exists()
    with pytest.raises(StoreError, match="was not finished"), serving(copy):
        pass
    with pytest.raises(StoreError, match="was not finished"), serving(tmp_path / "copy.unfinished"):
        pass
    assert main(["backup", "--data", str(data), "--output", str(copy)]) == 0
    assert not (tmp_path / "copy.unfinished").exists()
    with serving(copy, open=False) as server:
        assert server.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing", "manifest"])
def test_a_copy_that_is_not_whole_is_refused(
    harm: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, copy = made_data(tmp_path / "data"), tmp_path / "copy"
    assert main(["backup", "--data", str(data), "--output", str(copy)]) == 0
    path = copy / "tenants" / "acme.nearcast"
    content = bytearray(path.read_bytes())
    match harm:
        case "truncated":
            path.write_bytes(content[:-1])
        case "flipped":
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        case "missing":
            path.unlink()
        case "manifest":
            (copy / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="use another backup"), serving(copy):
        pass
    restored = tmp_path / "restored"
    assert main(["restore", "--backup", str(copy), "--data", str(restored)]) == 2
    assert "use another backup" in capfd.readouterr().err
    assert not restored.exists()


def test_a_backup_is_restored_as_often_as_one_likes(tmp_path: Path) -> None:
    data, copy = made_data(tmp_path / "data"), tmp_path / "copy"
    assert main(["backup", "--data", str(data), "--output", str(copy)]) == 0
    for name in ("one", "two"):
        restored = tmp_path / name
        assert main(["restore", "--backup", str(copy), "--data", str(restored)]) == 0
        assert main(["restore", "--backup", str(copy), "--data", str(restored)]) == 2
        with serving(restored, open=False) as server:
            assert server.http.get("/readyz").status_code == 200
        assert main(["keys", "add", "more", "--data", str(restored)]) == 0
    assert main(["keys", "add", "more", "--data", str(copy)]) == 0  # it is put to use with that
    with serving(copy, open=False) as server:
        assert server.http.get("/readyz").status_code == 200


def test_only_the_user_of_a_server_may_read_its_data(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        data = made_data(tmp_path / "data")
        assert main(["backup", "--data", str(data), "--output", str(tmp_path / "copy")]) == 0
    finally:
        os.umask(before)
    for folder in (data, tmp_path / "copy"):
        assert {path.stat().st_mode & 0o077 for path in (folder, folder / "tenants")} == {0}
        assert {path.stat().st_mode & 0o077 for path in folder.rglob("*.nearcast")} == {0}
        assert (folder / "keys.db").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not failing_calls.SUPPORTED, reason="no filters for system calls here")
def test_on_a_full_disk_no_key_is_made_and_that_is_said(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "keys.db")
    for change in (lambda: keys.add("phone"), lambda: keys.remove("phone")):
        with pytest.raises(StoreError, match=r"keys\.db: .*(disk is full|input/output error)"):
            failing_calls.while_failing(("pwrite64", "write"), change, errno.ENOSPC)
        if len(keys) == 0:
            keys.add("phone")
    assert len(keys) == 1
    keys.close()
