"""The package imports nothing that installing it would not bring along."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = {
    "pystemmer": "Stemmer",
    "opentelemetry-api": "opentelemetry",
}  # where the module is not called what the package is


def test_everything_imported_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = (
        project["dependencies"]
        + extras["spark"]
        + extras["stemming"]
        + extras["client"]
        + extras["lab"]
        + extras["places"]
        + extras["server"]
        + extras["otel"]
        + extras["kafka"]
    )
    names = [re.split(r"[^\w-]", requirement)[0].lower() for requirement in needed]
    allowed = {MODULES.get(name, name.replace("-", "_")) for name in names}
    undeclared = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / "src").rglob("*.py")
        for module in imports(path)
        if module not in sys.stdlib_module_names | allowed | {"nearcast", "nearcast_lab"}
    }
    assert undeclared == set()


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
