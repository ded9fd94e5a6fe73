"""Docstrings as people write them, for a builder that expects markup.

Array types in signatures have the short names that the code gives them. A star is a star. Of a module's docstring,
all after the first paragraph is laid out by hand and shown as it is.
"""

import re
from typing import Any

ARRAYS = {
    "numpy.ndarray[tuple[~typing.Any, ...], numpy.dtype[numpy.float64]]": "Floats",
    "numpy.ndarray[tuple[~typing.Any, ...], numpy.dtype[numpy.int64]]": "Ints",
    "numpy.ndarray[tuple[~typing.Any, ...], numpy.dtype[numpy.bool]]": "Bools",
    "numpy.ndarray[tuple[~typing.Any, ...], numpy.dtype[numpy.void]]": "ndarray",
    "numpy.ndarray[tuple[~typing.Any, ...], numpy.dtype[~typing.Any]]": "ndarray",
}
STAR = re.compile(r"(?<![\\`*])\*(?![\s*`])")


def _short(text: str | None) -> str | None:
    for long, short in ARRAYS.items():
        text = text and text.replace("~" + long, short).replace(long, short)
    return text


def _signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    return _short(signature), _short(returns)


def _docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else STAR.sub(r"\*", line) for line in lines]
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment, or napoleon would take what is before a colon for a type
    if what == "module":
        first = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
        rest = [f"   {line}" if line else "" for line in lines[first:]]
        if any(line.strip() for line in rest):
            lines[first:] = ["", ".. code-block:: none", *rest, ""]


def setup(app: Any) -> dict[str, bool]:
    """Before napoleon reads the sections."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
