"""Formulas as drawings, made when the pages are built: no script, no network, no font that a reader must have.

matplotlib sets the formula and gives the outlines of its glyphs; they become one SVG in the colour of the text,
lowered by the depth of the formula so that its baseline is that of the line. The source is there for screen readers.
"""

import re
from functools import cache
from html import escape
from logging import WARNING, getLogger
from typing import Any

from docutils import nodes
from matplotlib import rc_context
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from sphinx.util import logging

log = logging.getLogger(__name__)
getLogger("matplotlib").setLevel(WARNING)  # it tells which fonts it takes letters from

LONE = re.compile(r"([_^])([*+])")
"""A star or plus as an index is no operator: no space around it."""

LARGE = re.compile(r"\\(sum|min|max|limsup)(?![a-z])")
"""In a line of text, what is summed over stands beside the sign, not below it."""

SIZE = 100.0  # in which outlines are drawn; an em of the page
MARGIN = 2.0
COMMANDS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


@cache
def drawn(source: str, scale: float) -> str:
    """The formula as an SVG element; ValueError if matplotlib cannot set it."""
    text = f"${source}$"
    with rc_context({"mathtext.fontset": "cm", "text.usetex": False}):
        font = FontProperties(size=SIZE)
        width, height, depth, *_ = MathTextParser("path").parse(text, dpi=72, prop=font)
        path = TextPath((0, 0), text, prop=font)
    outline = "".join(
        _stroke(points, code, height - depth) for points, code in path.iter_segments(simplify=False, curves=True)
    )
    # Outlines may reach a little beyond the box of their formula.
    width, height, depth = width + 2 * MARGIN, height + 2 * MARGIN, depth + MARGIN
    box = f"{-MARGIN:g} {-MARGIN:g} {width:.4g} {height:.4g}"
    width, height, depth = (scale * length / SIZE for length in (width, height, depth))
    style = f"width:{width:.3f}em;height:{height:.3f}em;vertical-align:{-depth:.3f}em"
    return (
        f'<svg class="formula" role="img" aria-label="{escape(source)}" viewBox="{box}" style="{style}">'
        f'<path fill="currentColor" d="{outline}"/></svg>'
    )


def _stroke(points: Any, code: Any, baseline: float) -> str:
    """One piece of an outline; y points down in SVG."""
    if code == Path.CLOSEPOLY:
        return "Z"
    pairs = zip(points[::2], points[1::2], strict=True)
    return COMMANDS[code] + " ".join(f"{x:.4g} {baseline - y:.4g}" for x, y in pairs)


def _svg(node: nodes.Element, scale: float, inline: bool = False) -> str:
    source = LONE.sub(r"\1{\2}", " ".join(node.astext().split()))
    if inline:
        source = LARGE.sub(r"{\\\1}", source)
    try:
        return drawn(source, scale)
    except ValueError as error:
        log.warning("%s in the formula %s", str(error).splitlines()[-1], source, location=node)
        return f"<code>{escape(source)}</code>"


def _inline(self: Any, node: nodes.math) -> None:
    # The word joiner keeps a full stop on the line of its formula.
    self.body.append(_svg(node, 1.0, inline=True) + "&#8288;")
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    # A line of its own for each line that ends in \\.
    lines = [line for line in node.astext().split("\\\\") if line.strip()]
    drawings = "".join(f"<div>{_svg(nodes.math(line, line), 1.1)}</div>" for line in lines)
    self.body.append(self.starttag(node, "div", CLASS="formula") + drawings + "</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer under the name "drawn"."""
    app.add_html_math_renderer("drawn", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
