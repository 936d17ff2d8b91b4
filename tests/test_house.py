"""Names are unique, files are short, and modules that are marked private stay private."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
LONGEST = 500


def sources() -> Iterator[tuple[str, Path]]:
    """All modules of the product and the laboratory, by name."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield ".".join(path.relative_to(SOURCE).with_suffix("").parts), path


def test_no_class_name_is_used_twice() -> None:
    places = defaultdict(list)
    for module, path in sources():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_file_is_too_long() -> None:
    lines = {module: len(path.read_text("utf-8").splitlines()) for module, path in sources()}
    assert {module: count for module, count in lines.items() if count > LONGEST} == {}


def test_nothing_imports_a_private_module_of_another_package() -> None:
    """A module whose name begins with an underscore is for its own package."""
    assert [
        f"{module} imports {name}"
        for module, path in sources()
        for name in imported(path)
        if name.startswith("nearcast") and is_private_to_others(name, module)
    ] == []


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private_to_others(name: str, module: str) -> bool:
    """Whether `name` has a private module in it that does not belong to the package of `module`."""
    parts, own = name.split("."), module.split(".")
    for place, part in enumerate(parts):
        path = SOURCE.joinpath(*parts[: place + 1])
        is_module = path.is_dir() or path.with_suffix(".py").exists()
        if place > 1 and is_module and part.startswith("_") and own[:place] != parts[:place]:
            return True
    return False


def test_importing_the_package_loads_nothing_large() -> None:
    """Whoever only wants a box or a client does not wait for numba, Arrow or the laboratory."""
    loaded = packages(modules_after("import nearcast"))
    assert "nearcast" in loaded
    assert not {"numba", "numpy", "pyarrow", "shapely", "pyspark", "nearcast_lab"} & loaded


def test_a_server_starts_without_numba_and_spark() -> None:
    loaded = packages(modules_after("import nearcast.server.run"))
    assert "nearcast" in loaded
    assert not {"numba", "pyspark", "nearcast_lab"} & loaded


def test_an_engine_loads_no_index_that_it_does_not_use() -> None:
    loaded = modules_after(
        "from nearcast import Box, Engine; e = Engine(index='rarest-term');"
        "e.subscribe('s', 'a', Box(0, 0, 1, 1))"
    )
    assert "nearcast.index.rarest_term" in loaded
    assert not {"nearcast.index.lfilter", "nearcast.index.rtree", "nearcast_lab"} & loaded


def modules_after(code: str) -> set[str]:
    """What a fresh process has loaded after it ran the code."""
    return set(
        subprocess.run(
            [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}
