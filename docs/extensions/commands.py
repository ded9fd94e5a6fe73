"""`{commands}`: the help of every command, from the command line itself, so that the page is never out of date."""

from typing import Any

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Commands(SphinxDirective):
    """One section per command."""

    def run(self) -> list[nodes.Node]:
        """Ask the command line."""
        from psconrl.cli import app

        top = typer.main.get_command(app)
        return list(_sections(top, ["psconrl"], None))


def _sections(command: Any, words: list[str], parent: Any) -> list[nodes.Node]:
    context = type(command).context_class(command, info_name=words[-1], parent=parent, terminal_width=88)
    text = command.get_help(context)
    name = " ".join(words)
    section = nodes.section(ids=[nodes.make_id(name)], names=[name])
    section += nodes.title(name, name)
    section += nodes.literal_block(text, text, language="none")
    children = {key: child for key, child in getattr(command, "commands", {}).items() if not child.hidden}
    return [section, *(node for key in children for node in _sections(children[key], [*words, key], context))]


def setup(app: Any) -> dict[str, bool]:
    """Register it."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
