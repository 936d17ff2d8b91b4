"""Errors are one line that says where, what and what else."""

from nearcast.errors import InvalidValue, MissingField, QueryError, show


def test_a_value_is_shown_on_one_line_and_not_at_length() -> None:
    assert show("a\nb") == r"'a\nb'"
    assert len(show("x" * 1000)) == 80
    assert show(10**5000) == "int too large to write out"
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert show(deep) == "list nested too deeply to write out"


def test_an_error_inside_a_field_names_both() -> None:
    assert str(InvalidValue("bbox[1]", 5, "less").inside("region")) == (
        "region.bbox[1]: 5 given; expected less"
    )
    assert str(InvalidValue("[2]", 5, "less").inside("point")).startswith("point[2]: ")
    assert str(MissingField("k", "a number").inside("top")) == "top.k: missing; expected a number"


def test_a_query_error_draws_a_caret_under_the_place() -> None:
    error = QueryError("ipad AND (", 9, "unclosed parenthesis", "close it")
    assert "\n" not in str(error)
    assert error.caret().splitlines() == ["    ipad AND (", "             ^"]
    long = QueryError("x" * 500 + "(", 500, "unclosed parenthesis", "close it")
    line, caret = long.caret().splitlines()
    assert line[caret.index("^")] == "("
    assert error.__notes__ == [error.caret()]


def test_a_long_query_is_cut_around_the_place() -> None:
    for position in (0, 30, 500, 970, 999):
        query = "".join(chr(ord("a") + number % 26) for number in range(position))
        query += "(" + "x" * (999 - position)
        error = QueryError(query, position, "trouble", "remedy")
        assert len(str(error)) < 150
        assert "(" in str(error)
        line, caret = error.caret().splitlines()
        assert line[caret.index("^")] == "("
        assert len(line) == 84


def test_a_caret_stands_under_wide_letters_and_passes_over_marks_and_control_characters() -> None:
    assert QueryError("東京 (", 3, "trouble", "remedy").caret() == "    東京 (\n         ^"
    assert QueryError("q\u0301 (", 3, "trouble", "remedy").caret() == "    q\u0301 (\n      ^"
    assert QueryError("\x1b\r\n(", 3, "trouble", "remedy").caret() == "       (\n       ^"
