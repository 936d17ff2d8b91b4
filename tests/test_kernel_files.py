"""Compiled kernels are found where they fit, never where they do not, and never stale."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast import _kernel_builder, _kernel_files

_PACKAGE = {
    "__init__.py": "",
    "constants.py": "FACTOR = 2\n",
    "kernels.py": (
        "from made.constants import FACTOR\n"
        "from nearcast._jit import kernel\n"
        "@kernel\n"
        "def scaled(values):\n"
        "    return values.sum() * FACTOR\n"
    ),
    "run.py": (
        "import json\n"
        "import numpy as np\n"
        "from made.kernels import scaled\n"
        "from nearcast import _jit\n"
        "print(json.dumps([scaled(np.ones(3)), _jit.compiled]))\n"
    ),
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one kernel, whose constant stands in another file."""
    folder = tmp_path / "made"
    folder.mkdir()
    for name, text in _PACKAGE.items():
        (folder / name).write_text(text)
    return folder


def run(package: Path, **environment: str) -> tuple[float, list[str]]:
    """Run it in a process of its own: the kernel's answer, and what had to be compiled."""
    paths = [str(package.parent), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-m", "made.run"],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(paths), "NEARCAST_KERNELS": str(kept(package))}
        | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answer, compiled = json.loads(done.stdout)
    return answer, compiled


def kept(package: Path) -> Path:
    return package.parent / "kept"


def files_of(package: Path) -> list[Path]:
    return sorted(kept(package).glob(f"*/*{_kernel_files.ENDING}"))


def test_a_kernel_is_compiled_once_and_then_found(package: Path) -> None:
    assert run(package) == (6.0, ["made.kernels.scaled"])
    assert run(package) == (6.0, [])
    head = json.loads(files_of(package)[0].read_bytes().partition(b"\n")[0])
    assert head["kernel"] == "made.kernels.scaled"
    assert head["cpu_s"] > 0


def test_another_source_of_the_package_makes_kernels_anew(package: Path) -> None:
    """The kernel's own file did not change, but what it was made of did."""
    run(package)
    (package / "constants.py").write_text("FACTOR = 1 + 2\n")  # or Python sees no change
    assert run(package) == (9.0, ["made.kernels.scaled"])


def test_the_stamp_is_of_all_that_modules_with_kernels_import() -> None:
    """So whatever can stand in a kernel changes it, and what cannot does not."""
    with_kernels = [name for name, each in _kernel_files._sources().items() if each.has_kernels]
    reached = _kernel_files._reached(with_kernels)
    for name in reached:
        for each in ast.walk(ast.parse(source_of(name))):
            if isinstance(each, ast.ImportFrom) and each.col_offset == 0:
                assert each.level == 0, f"{name} imports by a relative name"
                for part in each.names:
                    inside = f"{each.module}.{part.name}"
                    other = inside if is_ours(inside) else str(each.module)
                    assert other in reached or not is_ours(other), name
    assert {"nearcast._jit", "nearcast.geo.predicates", "nearcast.topk.kernels.layout"} <= reached
    assert not {"nearcast.server.run", "nearcast.cli.main", "nearcast.spark.io.sink"} & reached


def source_of(module: str) -> str:
    path = Path(_kernel_files.__file__).parent.parent.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def test_kernels_whose_sources_are_the_same_are_carried_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An edit compiles again what it can have changed, and nothing else."""
    monkeypatch.setattr(_kernel_files, "_SHIPPED", tmp_path)
    monkeypatch.setattr(_kernel_files, "home", lambda: tmp_path)
    before = tmp_path / "before"
    before.mkdir()
    modules = ["nearcast.geo.predicates"]
    same = {"modules": modules, "sources": _kernel_files.sources_of(*modules)}
    heads = {
        "same": same,
        "edited": {**same, "sources": "another"},
        "unknown": {"kernel": "of a function that is passed in"},
    }
    for name, head in heads.items():
        (before / f"{name}{_kernel_files.ENDING}").write_bytes(json.dumps(head).encode() + b"\n")
    (before / f"torn{_kernel_files.ENDING}").write_bytes(b"{")
    _kernel_files.carry_over()
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob(f"*{_kernel_files.ENDING}")] == [
        Path(_kernel_files.stamp(), f"same{_kernel_files.ENDING}")
    ]
    assert not before.exists()


def test_a_hash_of_sources_changes_with_whatever_they_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, sources = "nearcast.geo.kernels", _kernel_files._sources()
    before = _kernel_files.sources_of(module)

    def after_editing(edited: str) -> str:
        other = {**sources, edited: sources[edited]._replace(digest="edited")}
        monkeypatch.setattr(_kernel_files, "_sources", lambda: other)
        return _kernel_files._digest([module]).hexdigest()

    assert after_editing("nearcast._jit") != before
    assert after_editing("nearcast.text.analyser") == before


def is_ours(module: str) -> bool:
    """Whether a name is that of a module of ours, and not of something else in one."""
    path = Path(_kernel_files.__file__).parent.parent.joinpath(*module.split("."))
    return module.startswith("nearcast") and (path.is_dir() or path.with_suffix(".py").exists())


def test_a_torn_file_is_compiled_again(package: Path) -> None:
    run(package)
    (file,) = files_of(package)
    whole = file.read_bytes()
    for torn in (whole[: len(whole) // 2], b"", b"{}\n" + whole):
        file.write_bytes(torn)
        assert run(package) == (6.0, ["made.kernels.scaled"])
    assert run(package) == (6.0, [])


def test_what_is_built_for_a_level_runs_here(package: Path) -> None:
    """An ordinary process finds what one that compiles for any processor of a level made."""
    assert _kernel_files.levels(), "the processor of a test machine has a level"
    for level in _kernel_files.levels():
        for file in files_of(package):
            file.unlink()
        assert run(package, **level.environment) == (6.0, ["made.kernels.scaled"])
        assert run(package) == (6.0, [])
        (file,) = files_of(package)
        assert file.name.endswith(f".{level.name}{_kernel_files.ENDING}")


def test_whoever_compiles_for_a_level_uses_nothing_of_a_higher_one(package: Path) -> None:
    """What it compiles is for processors that could not run the rest."""
    for level in _kernel_files.levels():
        assert run(package, **level.environment) == (6.0, ["made.kernels.scaled"])
    assert run(package) == (6.0, [])
    assert len(files_of(package)) == len(_kernel_files.levels())


def test_what_was_made_for_another_processor_is_not_used(package: Path) -> None:
    """Machine code of a processor with more than this one has would end the process."""
    run(package)
    (file,) = files_of(package)
    name, target = file.name.removesuffix(_kernel_files.ENDING).rsplit(".", 1)
    assert target == _kernel_files.targets()[0]
    file.rename(file.with_name(f"{name}.another-1234{_kernel_files.ENDING}"))
    assert run(package) == (6.0, ["made.kernels.scaled"])


def test_a_package_that_cannot_be_written_uses_the_cache_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NEARCAST_KERNELS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    _kernel_files.home.cache_clear()
    try:
        assert _kernel_files.home() == tmp_path / "nearcast" / "kernels"
    finally:
        _kernel_files.home.cache_clear()


def test_a_misfit_says_what_differs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that somebody with another numba knows why a wheel's kernels are compiled again."""
    monkeypatch.setattr(_kernel_files, "_SHIPPED", tmp_path)
    assert _kernel_files.misfit() is None
    (tmp_path / "another").mkdir()
    there = _kernel_files.made_for() | {"numba": "0.1"}
    (tmp_path / "another" / _kernel_files.MADE_FOR).write_text(json.dumps(there))
    here = _kernel_files.made_for()["numba"]
    assert _kernel_files.misfit() == (f"the kernels at hand were made for numba 0.1, here {here}")


def test_a_part_is_at_hand_once_it_is_marked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And only for the processor that it was marked for."""
    monkeypatch.setattr(_kernel_files, "_SHIPPED", tmp_path)
    monkeypatch.setattr(_kernel_files, "home", lambda: tmp_path)
    assert not _kernel_files.at_hand("engine")
    _kernel_files.mark("engine", "another-processor")
    assert not _kernel_files.at_hand("engine")
    _kernel_files.mark("engine")
    assert _kernel_files.at_hand("engine")
    assert not _kernel_files.at_hand("spark")


def test_whoever_cannot_start_a_process_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kernels are then compiled by whoever uses them."""

    def refuse(_: str) -> None:
        raise PermissionError

    monkeypatch.setattr(_kernel_files, "at_hand", lambda _: False)
    monkeypatch.setattr(_kernel_builder, "start", refuse)
    monkeypatch.setattr(_kernel_builder, "_building", {})
    assert _kernel_builder.prepared("engine")
