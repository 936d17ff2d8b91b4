"""The bill of materials and the lock file: what the package contains, asks for, is tested with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import nearcast
import sbom

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_bill_names_what_is_contained_and_what_is_asked_for() -> None:
    bill = sbom.bill()
    assert bill["metadata"]["component"]["version"] == nearcast.__version__
    components = {each["bom-ref"]: each for each in bill["components"]}
    assert len(components) == len(bill["components"])
    web = ROOT / "src" / "nearcast" / "server" / "web"
    described = " ".join(each["description"] for each in sbom.contents())
    for path in [*(web / "vendor").glob("*.mjs"), *(web / "basemap").glob("*.json")]:
        assert path.name in described or "maplibre-gl*" in described, path.name
    assert all(each["licenses"] for each in sbom.contents())
    assert components["contained:maplibre-gl"]["purl"].startswith("pkg:npm/maplibre-gl@")
    for line in PROJECT["dependencies"]:
        found = components[f"pypi:{canonicalize_name(Requirement(line).name)}"]
        assert found["scope"] == "required"
        assert found["version"] in found["purl"]
    known = components.keys() | {bill["metadata"]["component"]["bom-ref"]}
    assert {each["ref"] for each in bill["dependencies"]} == known
    assert all(set(each["dependsOn"]) <= known for each in bill["dependencies"])


def test_the_lock_file_fits_what_is_declared() -> None:
    """If not: `make lock`."""
    text = (ROOT / "requirements-dev.lock").read_text("utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, flags=re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    lines = [line for name in extras if name != "otel" for line in extras[name]]
    for line in [*PROJECT["dependencies"], *lines]:
        requirement = Requirement(line)
        if requirement.name != "nearcast":
            version = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{line}: {version} is locked"
    pinned = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in each for each in pinned)
