"""`{measured} AGENT`: what learning.md measured of one agent, beside the optimal policy, as one table.

Numbers live in learning.md alone; a page that asks for an agent without a row there does not build.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

SECTION = re.compile(r"^## (?P<env>\S+), T = (?P<horizon>[\d,]+)$")


def rows(text: str, agent: str) -> tuple[list[str], list[list[str]]]:
    """The columns of the tables in learning.md, and the rows of one agent, environment and horizon first."""
    header: list[str] = []
    found: list[list[str]] = []
    where: tuple[str, str] | None = None
    for line in text.splitlines():
        section = SECTION.match(line)
        if line.startswith("## "):
            where = (section["env"], section["horizon"]) if section else None
        if where is None or not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "agent":
            header = ["environment", "T", *cells[1:]]
        elif cells[0] == agent:
            found.append([*where, *cells[1:]])
    return header, found


class Measured(SphinxDirective):
    """The table of one agent."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Read learning.md and make a table."""
        path = Path(str(self.env.srcdir)) / "learning.md"
        self.env.note_dependency(str(path))
        header, found = rows(path.read_text(encoding="utf-8"), self.arguments[0])
        if not found:
            raise self.error(f"learning.md has no row for {self.arguments[0]}")
        lines = [header, ["---"] * len(header), *found]
        table = ["| " + " | ".join(cells) + " |" for cells in lines]
        container = nodes.container()
        self.state.nested_parse(StringList(table, source=str(path)), self.content_offset, container)
        return container.children


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
