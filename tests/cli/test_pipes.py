"""Replay behaves in a pipe: fed from one, and with a reader that stops early."""

import subprocess
import sys
from pathlib import Path

SUBSCRIBE = (
    b'{"op": "subscribe", "id": "s", "query": "a", '
    b'"region": {"type": "Box", "bbox": [-180, -90, 180, 90]}}\n'
)


def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    message = b'{"op": "publish", "id": "m%d", "text": "a", "point": [0, 0]}\n'
    log.write_bytes(SUBSCRIBE + b"".join(message % n for n in range(5000)))
    command = [sys.executable, "-m", "nearcast", "replay", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b'{"event": 1, ')
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 0


def test_updates_come_out_while_the_log_still_comes_in() -> None:
    command = [sys.executable, "-m", "nearcast", "replay", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(SUBSCRIBE)
        running.stdin.write(b'{"op": "publish", "id": "m", "text": "a", "point": [0, 0]}\n')
        running.stdin.flush()
        answered = running.stdout.readline()
        running.stdin.close()
        assert answered == b'{"event": 1, "op": "add", "subscription": "s", "message": "m"}\n'
        assert running.wait() == 0
