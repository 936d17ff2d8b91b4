"""Pictures of plans show every cell, mark the split ones, and need nothing else."""

import re
import struct
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from nearcast.errors import InvalidValue, SourceError
from nearcast.partition._pixels import Canvas
from nearcast.partition.draw import (
    cells_by_worker,
    change_html,
    change_png,
    plan_html,
    plan_png,
    save_picture,
    worker_colours,
)
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan, TextMap

NO_TERMS = np.zeros(0, np.uint64)
SPLIT = TextMap(NO_TERMS, np.zeros(0, np.int32), np.array([0, 2], np.int32))


def made(**changes: Any) -> Plan:
    cells = np.array([0, 0, 1, -1, 2, 2], np.int32)
    fields: dict[str, Any] = {
        "scheme": "<hybrid>",
        "workers": 3,
        "kind": "grid",
        "grid": Grid(0.0, 0.0, 3.0, 2.0, 3, 2),
        "cell_worker": cells,
        "maps": [SPLIT],
    }
    return Plan(**fields | changes)


def widths(page: str) -> dict[str, float]:
    """How wide what has a title is, from left to right and from the top down."""
    (found,) = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    drawn = ElementTree.fromstring(found)  # noqa: S314 - it is our own
    space = "{http://www.w3.org/2000/svg}"
    titled = ((each.find(f"{space}title"), each) for each in drawn.iter(f"{space}rect"))
    return {
        str(title.text): float(each.get("width", 0)) for title, each in titled if title is not None
    }


def pixels(data: bytes) -> Any:
    """Read a PNG as `_pixels` writes it, checking its sums."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    parts, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (given,) = struct.unpack_from(">I", data, at + 8 + length)
        assert zlib.crc32(kind + body) == given
        parts[kind] = body
        at += 12 + length
    width, height = struct.unpack_from(">II", parts[b"IHDR"])
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_the_page_shows_every_cell_and_bar() -> None:
    """Cells in runs of one worker, the split one by a pattern, and a bar for each worker."""
    page = plan_html(made(), [1.0, 4.0, 1.0])
    assert "&lt;hybrid&gt;, 3 workers" in page
    assert "<hybrid>" not in page
    assert "1 of them split by text" in page
    assert "load: highest by mean 2.00" in page
    assert not re.findall(r'(?:src|href)="|url\((?!#)', page)
    wide = widths(page)
    assert [*wide] == [
        *("split by text map 0", "worker 2", "worker 0", "worker 1"),
        *("worker 0: 1", "worker 1: 4", "worker 2: 1"),
    ]
    assert wide["worker 0"] == wide["worker 2"] == 2 * wide["worker 1"]
    assert wide["worker 1: 4"] == 250
    assert wide["worker 0: 1"] == wide["worker 2: 1"] == pytest.approx(250 / 4, abs=0.5)


def test_the_image_has_the_colours_in_their_places() -> None:
    """North is up; a whole cell has the colour of its worker, a split one several colours."""
    image = pixels(plan_png(made()))
    colours = worker_colours(3)
    side = 768 // 3
    middle = side // 2
    south, north = 52 + side + middle, 52 + middle
    assert tuple(image[south, 20 + middle]) == colours[0]
    assert tuple(image[south, 20 + side + middle]) == colours[0]
    assert tuple(image[south, 20 + 2 * side + middle]) == colours[1]
    assert tuple(image[north, 20 + 2 * side + middle]) == colours[2]
    striped = {tuple(each) for each in image[north, 20 : 20 + side].tolist()}
    assert striped == {colours[0], colours[2], (34, 34, 34)}


@pytest.mark.parametrize("kind", ["hash", "shared"])
def test_plans_without_places_say_so(kind: str) -> None:
    """Where no place belongs to a worker, words take the place of the map."""
    plan = made(kind=kind)
    assert [*widths(plan_html(plan))] == ["worker 0: 6", "worker 1: 6", "worker 2: 6"]
    assert "every" in plan_html(plan).lower()
    assert pixels(plan_png(plan)).shape[1] > 768


def test_many_workers_have_different_colours_and_fit() -> None:
    """Colours of 128 workers differ, and as many bars are drawn."""
    assert len(set(worker_colours(128))) == 128
    plan = made(workers=128)
    assert len([name for name in widths(plan_html(plan)) if ":" in name]) == 128
    assert pixels(plan_png(plan)).shape[0] >= 52 + 3 * 128


def test_bars_are_loads_of_the_plan_or_else_cells() -> None:
    """Given loads come first, then those of the plan; a split cell counts for all who share it."""
    assert cells_by_worker(made()) == [3, 1, 3]
    assert cells_by_worker(made(kind="hash")) == [6, 6, 6]
    assert "cells: highest by mean 1.29" in plan_html(made())
    kept = made(about={"loads": [2, 1, 3]})
    assert "load: highest by mean 1.50" in plan_html(kept)
    assert "load: highest by mean 3.00" in plan_html(kept, [0, 0, 1])
    assert "load: highest by mean 1.00" in plan_html(kept, [0, 0, 0])
    for loads in ([1.0], [1.0, -1.0, 1.0], [1.0, float("nan"), 1.0]):
        with pytest.raises(InvalidValue, match="expected a number from 0 for each of 3 workers"):
            plan_png(made(), loads)


def test_pictures_are_saved_by_the_end_of_their_names(tmp_path: Path) -> None:
    """.html and .png are written, anything else is refused, and so is a missing folder."""
    save_picture(made(), tmp_path / "plan.html")
    save_picture(made(), tmp_path / "plan.PNG")
    assert (tmp_path / "plan.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "plan.PNG").read_bytes() == plan_png(made())
    with pytest.raises(InvalidValue, match="picture: .* given; expected a file name that"):
        save_picture(made(), tmp_path / "plan.gif")
    with pytest.raises(SourceError, match="the picture cannot be written"):
        save_picture(made(), tmp_path / "none" / "plan.png")


def test_letters_are_drawn_where_they_stand() -> None:
    """An I is three dots over a stem over three dots, and an unknown letter is a gap."""
    canvas = Canvas(8, 5)
    canvas.text(0, 0, "i?", 1)
    dark = (canvas.pixels[:, :, 0] < 255).astype(int)
    assert dark[:, :3].tolist() == [[1, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 1, 1]]
    assert not dark[:, 3:].any()


def test_a_change_is_drawn_before_and_after() -> None:
    """As a page and as an image, in which exactly the cells that change hands are marked."""
    before, cells = made(), np.array([0, 3], np.int32)
    after = made(cell_worker=np.array([1, 0, 1, 2, 2, 2], np.int32), maps=[])
    loads = [0.5, 0.3, 0.2], [0.4, 0.3, 0.3]
    page = change_html(before, after, cells, loads, ["2 cells"])
    assert "worker 0: 0.5" in widths(page)
    assert "worker 0: 0.4" in widths(page)
    assert page.count('fill="#c0392b"') == 2
    drawn = pixels(change_png(before, after, cells, loads, ["2 cells"]))
    moving = (drawn == (192, 57, 43)).all(axis=2)
    still = (drawn == (232, 232, 232)).all(axis=2)
    assert moving.sum() * 2 == still.sum() > 0
    rows, columns = np.nonzero(moving)
    assert rows.min() < np.median(rows) < rows.max()  # one in each line of cells
    assert columns.max() - columns.min() < 640 // 2
