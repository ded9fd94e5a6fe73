"""Docstrings as people write them, for a builder that expects markup.

Array types in signatures have the short names that the code gives them. Stars and bars are themselves. Parameters and
attributes have a line of their own each, also those that share one in the code. Of a module's docstring, all after
the first paragraph is laid out by hand and shown as it is.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[[^\]]*\], ~?numpy\.dtype\[~?[\w.]*?(?P<kind>\w+)\]\]")
KINDS = {"float64": "Floats", "int64": "Ints", "bool": "Bools"}
ARRAY_LIKE = re.compile(r"~?numpy\._typing\._array_like\._Buffer \|.*?_NestedSequence\[complex \| bytes \| str\]")
STAR = re.compile(r"(?<![\\`*])(\*(?![\s*`])|\|(?=\S))")
MADE = ("psconrl.agents.Plan", "psconrl.experiments.Cell")
"""What people make themselves, with the attributes as parameters."""
SECTIONS = ("Args:", "Attributes:")
NEXT = re.compile(r"(?<=[.;]) (?P<names>[a-zA-Z_]\w*(?: \([^()]*\))?(?:, [a-zA-Z_]\w*(?: \([^()]*\))?)*): ")
ENTRY = re.compile(r"(?P<names>[\w, ()]+?): (?P<text>.*)")


def _short(text: str | None) -> str | None:
    if text is None:
        return None
    return ARRAY_LIKE.sub("ArrayLike", ARRAY.sub(lambda found: KINDS.get(found["kind"], "ndarray"), text))


def _signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    if what == "class" and _is_result(name, obj):
        return "", None
    return _short(signature), _short(returns)


def _is_result(name: str, obj: Any) -> bool:
    """Whether a class is only ever given to people: its attributes are told, and no parameters."""
    said = inspect.getdoc(obj) or ""
    return "Attributes:" in said and "Args:" not in said and name not in MADE


def _docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else STAR.sub(r"\\\1", line) for line in lines]
    if what in ("class", "function", "method", "exception"):
        lines[:] = one_each(lines, _known(obj))
    lines[:] = _attributes(lines)
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment, or napoleon would take what is before a colon for a type
    if what == "module":
        first = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
        rest = [f"   {line}" if line else "" for line in lines[first:]]
        if any(line.strip() for line in rest):
            lines[first:] = ["", ".. code-block:: none", *rest, ""]


def _known(obj: Any) -> set[str]:
    """The names that a docstring may describe: parameters, fields, attributes."""
    try:
        parameters = set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        parameters = set()
    return parameters | set(dir(obj)) | set(getattr(obj, "__annotations__", {}))


def one_each(lines: list[str], known: set[str]) -> list[str]:
    """The lines, with one entry for each parameter or attribute: `a: this. b: that.` becomes two."""
    made: list[str] = []
    inside = False
    for line in lines:
        if line in SECTIONS:
            inside = True
        elif line.strip() and not line.startswith("    "):
            inside = False
        elif inside and line.startswith("    "):
            begins = ENTRY.fullmatch(line[4:]) is not None and not line.startswith("     ")
            if not begins and made and made[-1] not in (*SECTIONS, ""):
                # A sentence that goes on; what it begins is found in the whole of it.
                line = f"{made.pop()} {line.strip()}"
            made += _divided(line, known)
            continue
        made.append(line)
    return made


def _divided(line: str, known: set[str]) -> list[str]:
    for found in NEXT.finditer(line):
        names = re.sub(r" \([^()]*\)", "", found["names"]).split(", ")
        if set(names) <= known:
            return [line[: found.start()], *_divided("    " + line[found.start() + 1 :], known)]
    return [line]


def _attributes(lines: list[str]) -> Iterator[str]:
    """The lines, the section of attributes made a list."""
    inside = False
    for line in lines:
        if line == "Attributes:":
            inside = True
            yield from (".. rubric:: Attributes", "")
        elif inside and line.startswith("    "):
            entry = ENTRY.fullmatch(line[4:])
            if entry and not line.startswith("     "):
                yield f"- **{entry['names']}** – {entry['text']}"
            else:
                yield "  " + line.strip()
        else:
            inside = inside and not line.strip()
            yield line


def setup(app: Any) -> dict[str, bool]:
    """Before napoleon reads the sections."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
