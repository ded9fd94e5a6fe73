"""Blocks whose numbers vary say so on the page, not only in the source.

    <!-- numbers vary -->
    ```text

The comment is what `docs/blocks.py` goes by; here it becomes a class of the block, and the style sheet has the words.
"""

from typing import Any

MARKED = {"<!-- numbers vary -->\n```text\n": "numbers-vary", "<!-- layout varies -->\n```text\n": "numbers-vary"}


def _read(app: Any, name: str, source: list[str]) -> None:
    for written, kind in MARKED.items():
        source[0] = source[0].replace(written, f"```{{code-block}} text\n:class: {kind}\n\n")


def setup(app: Any) -> dict[str, bool]:
    """Change pages when they are read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
