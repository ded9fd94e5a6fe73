"""Formulas as MathML, which browsers draw themselves: no script, no network."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

log = logging.getLogger(__name__)


def _mathml(source: str, node: nodes.Node, as_block: bool = False) -> str:
    try:
        return tex2mathml(source, as_block=as_block)
    except MathError as error:
        log.warning("%s in the formula %s", error, source, location=node)
        return f"<code>{source}</code>"


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node.astext(), node))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    source = node.astext().strip()
    if "\\\\" in source and not source.startswith("\\begin"):
        source = f"\\begin{{aligned}}{source}\\end{{aligned}}"
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(_mathml(source, node, as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
