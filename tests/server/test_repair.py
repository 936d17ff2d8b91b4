"""The repair of a file whose time is wrong."""

from pathlib import Path

from nearcast.cli.main import main
from served import IPAD, SALE, serving


def test_a_file_whose_time_is_wrong_can_be_repaired(tmp_path: Path) -> None:
    """Export, import, and put the new file in its place: all is there but its time."""
    data = tmp_path / "tenants" / "default.nearcast"
    with serving(tmp_path, lead_s=float("inf"), clock=lambda: 1000.0) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.post("/v1/messages", SALE | {"id": "m1", "at": 1e12, "ttl": 60})
        server.post("/v1/messages", SALE | {"id": "m2", "ttl": 60})
        assert server.post("/v1/messages", SALE | {"at": 1000.0}).status_code == 409
    log, repaired = str(tmp_path / "log.parquet"), tmp_path / "repaired.nearcast"
    assert main(["export", str(data), "--latest", "soon", "--output", log]) == 2
    assert main(["export", str(data), "--latest", "1000", "--output", log]) == 0
    assert main(["import", str(repaired), log]) == 0
    for beside in data.parent.glob("default.nearcast?*"):
        if beside.is_file():
            beside.unlink()
    repaired.replace(data)
    with serving(tmp_path, clock=lambda: 1001.0) as server:
        assert server.post("/v1/messages", SALE | {"at": 1001.0}).json()["updates"] == 1
        results = server.http.get("/v1/subscriptions/s1/results").json()["results"]
        assert {each["message"] for each in results} == {"m1", "m2"}
