"""Code such as `psconrl.solve` in the text links to the reference where there is an entry for it."""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref

NAME = re.compile(r"psconrl(\.\w+)+(?=(\(.*\))?$)")


def _link(app: Any, doctree: nodes.document) -> None:
    for literal in list(doctree.findall(nodes.literal)):
        found = NAME.match(literal.astext())
        if found and not isinstance(literal.parent, (nodes.reference, pending_xref)):
            target = found.group().removeprefix("psconrl.psconrl.")
            xref = pending_xref("", literal.deepcopy(), refdomain="py", reftype="obj", reftarget=target, refwarn=False)
            literal.replace_self(xref)


def _leave(app: Any, env: Any, node: pending_xref, content: nodes.Node) -> nodes.Node | None:
    """What has no entry stays as it is, without a warning."""
    return content if node.get("refwarn") is False and node.get("reftype") == "obj" else None


def setup(app: Any) -> dict[str, bool]:
    """Link after reading."""
    app.connect("doctree-read", _link)
    app.connect("missing-reference", _leave)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
