"""What was saved and has been damaged since is refused, with what to do."""

from pathlib import Path

import numpy as np
import pytest

from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.errors import SourceError


@pytest.mark.parametrize(
    "description",
    [
        "",
        "[1]",
        '{"kind": "k", "version": 1}',
        '{"kind": "k", "version": 1, "arrays": ["numbers"]}',
        '{"kind": "k", "version": 1, "arrays": 5, "about": {}}',
        '{"kind": "k", "version": 1, "arrays": ["others"], "about": {}}',
        '{"kind": "k", "version": 2, "arrays": ["numbers"], "about": {}}',
    ],
)
def test_a_damaged_description_is_refused(description: str, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    save_arrays(folder, "k", 1, {}, {"numbers": np.arange(3)})
    assert load_arrays(folder, "k", 1)[1]["numbers"].tolist() == [0, 1, 2]
    (folder / "about.json").write_text(description)
    with pytest.raises(SourceError, match="rebuild it|save it again"):
        load_arrays(folder, "k", 1)
