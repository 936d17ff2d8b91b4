"""Examples in docstrings, as blocks of code in the documentation.

Markdown takes the `>>>` of a doctest for three quotations. The option `extensions` of mkdocstrings
names this file in `mkdocs.yml`.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .+(?:\n.+)*(?:\n\n>>> .+(?:\n.+)*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts fences around the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of one object, once it is loaded."""
        del kwargs
        if obj.docstring is not None and "```" not in obj.docstring.value:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
