"""Java is found where it usually is, or the error says how to get it."""

from pathlib import Path

import pytest

from nearcast.errors import SetupError
from nearcast.spark.java import find_java, main, use_java


def install(home: Path, version: str, *, release: bool = True) -> Path:
    """Make a folder that looks like an installation of Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    named = install(tmp_path / "named", "21.0.2")
    other = install(tmp_path / "other", "17.0.15")
    found = find_java({"JAVA_HOME": str(named), "PATH": str(other / "bin")}, ())
    assert found == (named, 21)


@pytest.mark.parametrize("release", [True, False])
def test_the_version_is_read_from_its_file_or_asked_for(tmp_path: Path, release: bool) -> None:
    home = install(tmp_path / "java", "17.0.15", release=release)
    assert find_java({"PATH": f"{home / 'bin'}:/usr/bin:/bin"}, ()) == (home, 17)


def test_a_java_on_the_path_is_found_through_its_links(tmp_path: Path) -> None:
    home = install(tmp_path / "jvm" / "java-17", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, ()).home == home


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = install(tmp_path / "old", "1.8.0_292")
    install(tmp_path / "jvm" / "a", "11.0.1")
    new = install(tmp_path / "jvm" / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(old), "PATH": ""}, (f"{tmp_path}/jvm/*",))
    assert found == (new, 17)


def test_of_several_in_the_usual_places_the_long_tried_come_first(tmp_path: Path) -> None:
    install(tmp_path / "a", "25.0.1")
    tried = install(tmp_path / "b", "21.0.2")
    assert find_java({"PATH": ""}, (f"{tmp_path}/*",)) == (tried, 21)


def test_a_folder_without_java_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SetupError, match="found none .*apt install .*brew install .*sdk install"):
        find_java({"JAVA_HOME": str(tmp_path / "empty"), "PATH": ""}, (f"{tmp_path}/*",))


def test_the_error_names_what_is_too_old(tmp_path: Path) -> None:
    old = install(tmp_path / "old", "1.8.0_292")
    with pytest.raises(SetupError, match=f"found only Java 8 in {old} "):
        find_java({"JAVA_HOME": str(old), "PATH": str(old / "bin")}, ())


def test_what_is_found_is_what_spark_will_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = install(tmp_path / "java", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert use_java().home == home
    monkeypatch.setenv("PATH", "")
    assert main() == 0
    assert str(home) in capsys.readouterr().out


def test_where_there_is_none_the_check_fails_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("nearcast.spark.java.find_java.__defaults__", (None, ()))
    assert main() == 2
    assert "apt install" in capsys.readouterr().err
