"""Where compiled kernels are kept, and which of them fit this machine.

A kernel is machine code of one version of the sources that kernels are made of, one Python, one
numba and one platform; all four are in the *stamp* that names the folder of its file. A kernel also
says which modules it was made of, so that those which an edit leaves as they were are used again.
Wheels bring a folder with them. What a process compiles itself is kept beside those or, where the
package cannot be written, in the user's cache. `NEARCAST_KERNELS` names a folder to use instead of
both.

This module does not import numba, so a check whether kernels are there stays fast.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

_PACKAGE = Path(__file__).parent
_PACKAGES = (_PACKAGE, _PACKAGE.with_name("nearcast_lab"))
_SHIPPED = _PACKAGE / "_kernels"
_HAS_KERNELS = "from nearcast._jit import"
_IMPORT = re.compile(r"^(?:from|import) (nearcast[\w.]*)(?: import (?:\(([^)]*)\)|(.*)))?", re.M)
ENDING = ".kernel"
MARK = ".ready"
MADE_FOR = "made-for.json"

_X86_V4 = "avx512bw avx512cd avx512dq avx512f avx512vl"  # beside those of the level before
_X86_V3 = "avx avx2 bmi bmi2 cmov cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3 xsave"  # noqa: E501 - one list


class Target(NamedTuple):
    """A kind of processor: LLVM's name of it, and the features that it has."""

    name: str
    features: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The settings that make numba compile for it on any machine."""
        listed = ",".join(f"+{feature}" for feature in self.features)
        return {"NUMBA_CPU_NAME": self.name, "NUMBA_CPU_FEATURES": listed}


_LEVELS = {
    "x86_64": (
        Target("x86-64-v4", (*_X86_V3.split(), *_X86_V4.split())),
        Target("x86-64-v3", tuple(_X86_V3.split())),
    ),
    "aarch64": (Target("generic", ()),),
}


def machine() -> str:
    """The family of processors, by one name on all systems."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def made_for() -> dict[str, str]:
    """The versions and the platform that kernels depend on beside the sources."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}",
        "numba": _version("numba"),
        "llvmlite": _version("llvmlite"),
        "platform": f"{sysconfig.get_platform().split('-')[0]}-{machine()}",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # pragma: no cover - it is a dependency
        return "none"


def stamp(beside: Path | None = None) -> str:
    """A hash of all sources of kernels, and of what else they depend on.

    A kernel holds code of many files, so a change to any of them makes another stamp. `beside` is a
    source outside this distribution, or another package, that has kernels too.

    A process keeps the stamp of the sources that it started with: what it compiles is made of them.
    """
    return _stamp(beside)


@cache
def _stamp(beside: Path | None) -> str:
    digest = _digest(name for name, source in _sources().items() if source.has_kernels)
    if beside is not None:
        for path in sorted(beside.rglob("*.py")) if beside.is_dir() else [beside]:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def sources_of(*modules: str) -> str:
    """A hash of these modules and all that they import, and of what else kernels depend on."""
    return _digest(modules).hexdigest()


def _digest(modules: Iterable[str]) -> hashlib.blake2b:
    digest = hashlib.blake2b(json.dumps(made_for(), sort_keys=True).encode(), digest_size=8)
    for name in sorted(_reached(modules)):
        digest.update(f"{name} {_sources()[name].digest}".encode())
    return digest


class _Source(NamedTuple):
    """What the stamp has to know of a module."""

    digest: str
    imports: tuple[str, ...]
    has_kernels: bool


@cache
def _sources() -> dict[str, _Source]:
    """All modules of this distribution by their names, as this process found them."""
    paths = [path for package in _PACKAGES for path in package.rglob("*.py")]
    texts = {_module(path): path.read_text("utf-8") for path in paths}
    return {
        name: _Source(
            hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
            tuple(_imported(text, texts)),
            _HAS_KERNELS in text,
        )
        for name, text in texts.items()
    }


def _reached(modules: Iterable[str]) -> set[str]:
    """These modules and all that they import, directly or not."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in _sources() and name not in found:
            found.add(name)
            waiting += _sources()[name].imports
    return found


def _module(path: Path) -> str:
    parts = path.relative_to(_PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(text: str, modules: Container[str]) -> Iterator[str]:
    """The modules that a source imports names from, or as names from their package."""
    for module, several, one in _IMPORT.findall(text):
        for name in re.findall(r"\w+", several or one) or [""]:
            inside = f"{module}.{name}"
            yield inside if inside in modules else module


def source_outside(file: str) -> Path | None:
    """The sources that the stamp of a kernel of this file needs beside this package, if any."""
    path = Path(file)
    if any(path.is_relative_to(package) for package in _PACKAGES):
        return None
    if not (path.parent / "__init__.py").exists():
        return path
    root = path.parent
    while (root.parent / "__init__.py").exists():
        root = root.parent
    return root


@cache
def home() -> Path:
    """The folder in which this process keeps what it compiles."""
    named = os.environ.get("NEARCAST_KERNELS")
    if named:
        return Path(named)
    place = _SHIPPED if _SHIPPED.exists() else _PACKAGE
    if os.access(place, os.W_OK):
        return _SHIPPED
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "nearcast" / "kernels"


def folders(name: str | None = None) -> list[Path]:
    """The folders that may hold kernels of a stamp, by default this package's; best first."""
    name = stamp() if name is None else name
    places = [home()] if os.environ.get("NEARCAST_KERNELS") else [home(), _SHIPPED]
    return [place / name for place in dict.fromkeys(places)]


@cache
def targets() -> tuple[str, ...]:
    """The processors whose kernels run here: the one that numba compiles for, then its levels."""
    return tuple(dict.fromkeys([_own_target(), *(level.name for level in levels())]))


def _own_target() -> str:
    named = os.environ.get("NUMBA_CPU_NAME")
    if named is not None and named in [level.name for level in levels()]:
        return named
    from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

    name, features = get_host_cpu_name(), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = get_host_cpu_features().flatten()
    digest = hashlib.blake2b(features.encode(), digest_size=4).hexdigest()
    return f"{named or name}-{digest}"


def _runs(target: Target) -> bool:
    from llvmlite.binding import get_host_cpu_features

    try:
        here = get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this processor
        return not target.features
    return all(here.get(feature, False) for feature in target.features)


@cache
def levels() -> tuple[Target, ...]:
    """The kinds of processors that kernels are built for ahead of time, if they run here.

    The best comes first. Where numba was made to compile for one of them, better ones do not count.
    """
    running = [level for level in _LEVELS.get(machine(), ()) if _runs(level)]
    names = [level.name for level in running]
    named = os.environ.get("NUMBA_CPU_NAME")
    return tuple(running[names.index(named) :] if named in names else running)


def built_for() -> str:
    """The processor that kernels which are built on this machine are for."""
    return levels()[0].name if levels() else targets()[0]


def at_hand(part: str, target: str | None = None) -> bool:
    """Whether all kernels of a part of the package are compiled for this machine.

    With a `target`, only those for that processor count.
    """
    marks = [f"{part}.{each}{MARK}" for each in ([target] if target else targets())]
    return any((folder / name).exists() for folder in folders() for name in marks)


def mark(part: str, target: str | None = None) -> None:
    """Note that all kernels of a part are in this process's folder."""
    folder = home() / stamp()
    folder.mkdir(parents=True, exist_ok=True)
    keep({MADE_FOR: json.dumps(made_for()).encode()})
    (folder / f"{part}.{target or targets()[0]}{MARK}").touch()


def keep(files: Mapping[str, bytes]) -> None:
    """Copy files into this process's folder, each atomically."""
    folder = home() / stamp()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        passing = folder / f"{uuid4().hex}.passing"
        passing.write_bytes(content)
        passing.replace(folder / Path(name).name)


def carry_over() -> None:
    """Keep those kernels of other versions of the package whose sources are the same in this one.

    The others are removed from the package's own folder: they are unused now.
    """
    for folder in _SHIPPED.glob("*") if home() == _SHIPPED else ():
        if folder.name != stamp():
            for path in folder.glob(f"*{ENDING}"):
                if _fits(path):
                    (home() / stamp()).mkdir(exist_ok=True)
                    path.replace(home() / stamp() / path.name)
            shutil.rmtree(folder, ignore_errors=True)


def _fits(path: Path) -> bool:
    """Whether a kernel's file is of the same sources, Python, numba and platform as these."""
    with path.open("rb") as file:
        head = _decoded(file.readline())
    modules: list[str] = head.get("modules", [])
    return bool(modules) and head.get("sources") == sources_of(*modules)


def kernel_files() -> list[Path]:
    """The files of all kernels that fit the sources and this machine."""
    return [
        path
        for folder in folders()
        for target in targets()
        for path in sorted(folder.glob(f"*.{target}{ENDING}"))
    ]


def misfit() -> str | None:
    """Why shipped kernels do not fit this machine; None if they do, or if there are none."""
    shipped = [path for path in _SHIPPED.glob(f"*/{MADE_FOR}") if path.parent.name != stamp()]
    if (_SHIPPED / stamp() / MADE_FOR).exists():
        names = [path.name for path in (_SHIPPED / stamp()).glob(f"*{MARK}")]
        if not names or any(name.endswith(f"{t}{MARK}") for name in names for t in targets()):
            return None
        return f"the kernels that were shipped are not for this processor ({targets()[0]})"
    if not shipped:
        return None
    there, here = _read(shipped[0]), made_for()
    differing = [f"{name} {there.get(name)}, here {here[name]}" for name in here
                 if there.get(name) != here[name]]  # fmt: skip
    return "the kernels at hand were made for " + (", ".join(differing) or "other sources")


def _read(path: Path) -> dict[str, Any]:
    try:
        return _decoded(path.read_bytes())
    except OSError:
        return {}


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
