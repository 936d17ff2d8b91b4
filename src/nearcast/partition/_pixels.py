"""A small canvas that is written as PNG, for pictures where no drawing library is at hand."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

Colour = tuple[int, int, int]

INK: Colour = (34, 34, 34)
_BAND = 4

# Letters of 3 x 5 dots: five lines from the top, each the three dots of a line as one digit.
_LETTERS = dict(
    pair.split("=", 1)
    for pair in (  # noqa: SIM905 - a list would take one line a letter
        "0=75557 1=26227 2=71747 3=71717 4=55711 5=74717 6=74757 7=71122 8=75757 9=75717 A=25755 "
        "B=65656 C=34443 D=65556 E=74647 F=74644 G=34553 H=55755 I=72227 J=11152 K=55655 L=44447 "
        "M=57755 N=75555 O=25552 P=65644 Q=25563 R=65655 S=34216 T=72222 U=55557 V=55552 W=55775 "
        "X=55255 Y=55222 Z=71247 -=00700 .=00002 ,=00024 /=11244 :=02020 ;=02024 (=12221 )=42224 "
        "+=02720 _=00007"
    ).split()
)


class Canvas:
    """Pixels on white; x runs to the right and y down. What falls outside is cut off."""

    def __init__(self, width: int, height: int) -> None:
        self.pixels = np.full((height, width, 3), 255, np.uint8)

    def striped(
        self, x: int, y: int, width: int, height: int, colours: Sequence[Colour], title: str = ""
    ) -> None:
        """Fill a rectangle with a colour, or with slanting stripes of several and of ink."""
        del title  # which pages show
        area = self.pixels[y : y + height, x : x + width]
        if len(colours) == 1:
            area[:] = colours[0]
            return
        down, across = np.indices(area.shape[:2])
        bands = np.repeat(np.array([*colours, INK], np.uint8), [_BAND] * len(colours) + [1], axis=0)
        area[:] = bands[(x + across + y + down) % len(bands)]

    def text(self, x: int, y: int, text: str, size: int) -> None:
        """Write in capitals; letters are 3 x 5 dots of `size` pixels."""
        for at, letter in enumerate(text.upper()):
            for line, dots in enumerate(_LETTERS.get(letter, "00000")):
                for dot in range(3):
                    if int(dots) >> (2 - dot) & 1:
                        left, top = x + (4 * at + dot) * size, y + line * size
                        self.striped(left, top, size, size, [INK])

    def png(self) -> bytes:
        """Give the canvas as a PNG image."""
        height, width, _ = self.pixels.shape
        lines = np.zeros((height, 1 + 3 * width), np.uint8)
        lines[:, 1:] = self.pixels.reshape(height, -1)
        head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in (
                (b"IHDR", head),
                (b"IDAT", zlib.compress(lines.tobytes(), 9)),
                (b"IEND", b""),
            )
        )
