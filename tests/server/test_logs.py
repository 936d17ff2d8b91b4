"""Logs: what cannot be written is lost, and nothing else with it."""

import io

import pytest

from nearcast.server.logs import LossyStream


class FullDisk(io.StringIO):
    """A stream on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(28, f"No space left on device for {text!r}")


def test_a_line_that_cannot_be_written_is_lost() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, FullDisk()):
        LossyStream(stream).write("a line\n")
        LossyStream(stream).flush()


def test_other_lines_are_written() -> None:
    stream = io.StringIO()
    LossyStream(stream).write("a line\n")
    assert stream.getvalue() == "a line\n"


def test_only_troubles_of_the_stream_are_passed_over() -> None:
    with pytest.raises(TypeError):
        LossyStream(io.StringIO()).write(5)  # type: ignore[arg-type] # the wrong type is the test
