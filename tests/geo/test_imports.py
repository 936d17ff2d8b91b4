"""What importing the package costs."""

from __future__ import annotations

import subprocess
import sys


def test_geo_alone_loads_neither_numba_nor_shapely() -> None:
    """Both come only when asked for: shapely with the first polygon, numba with the kernels."""
    program = (
        "import sys; from nearcast.geo import Box, Circle, Polygon\n"
        "Box(0, 0, 1, 1).meets(Box(1, 1, 2, 2)); Circle((0, 0), 1).bounds()\n"
        "assert not {'numba', 'shapely'} & set(sys.modules)\n"
        "Polygon([[(0, 0), (1, 0), (0, 1), (0, 0)]])\n"
        "assert 'shapely' in sys.modules and 'numba' not in sys.modules\n"
        "import nearcast.geo.kernels\n"
        "assert 'numba' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
