"""Run the code in the documentation; with --write, put what it prints into the pages, numbers that vary included.

A page's blocks run in their order, in one namespace and one empty folder:

    ```python                                run
    ```sh                                    run, line by line
    ```text                                  right after one of these: what it printed
    ```{code-block} toml + :caption: NAME    written to the file NAME
    ```console                               shown, not run

A comment before a block changes that:

    <!-- numbers vary -->      of a ```text block only the words are compared
    <!-- layout varies -->     it is not compared at all
    <!-- fails -->             the command must end with an error
    <!-- needs PACKAGE -->     skipped where the package is not installed
    <!-- not run -->           shown, not run
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

DOCS = Path(__file__).parent
FENCE = re.compile(r"^```(?P<kind>.*?)\s*$")
COMMENT = re.compile(r"^<!-- (?P<text>.*) -->$")
NUMBER = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}\b|-?\d+(,\d{3})*(\.\d*)?(e[+-]?\d+)?")
BARS = re.compile(r"[─━═╌┄-]{2,}")
PADDING = re.compile(r"(?<=\[)\s+|\s+(?=\])")
WIDTH = "100"


@dataclass(frozen=True)
class Block:
    """A fenced block: kind, lines [first, last) of the page inside the fence, and the comment before it."""

    kind: str
    first: int
    last: int
    comment: str
    follows: bool
    """Whether nothing but blank lines and a comment lies between the block before and this one."""


@dataclass(frozen=True)
class Difference:
    """A block that printed something else than its page says."""

    line: int
    said: str
    printed: str


def pages() -> list[Path]:
    """All pages, and the README."""
    return [DOCS.parent / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]


def blocks(lines: list[str]) -> Iterator[Block]:
    """The fenced blocks of a page."""
    comment, follows, i = "", False, 0
    while i < len(lines):
        fence = FENCE.match(lines[i])
        if fence:
            last = next((k for k in range(i + 1, len(lines)) if lines[k].rstrip() == "```"), len(lines))
            yield Block(fence["kind"], i + 1, last, comment, follows)
            comment, follows, i = "", True, last + 1
            continue
        found = COMMENT.match(lines[i].strip())
        if found:
            comment = found["text"]
        elif lines[i].strip():
            comment, follows = "", False
        i += 1


def run_page(path: Path, folder: Path) -> tuple[list[Difference], str]:
    """Run the blocks of a page in a folder: what differs, and the page as it should read.

    Of the README, whose commands take their time, only the Python.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    written = list(lines)
    shift = 0
    differences: list[Difference] = []
    namespace: dict[str, Any] = {"__name__": path.stem}
    printed: str | None = None
    with contextlib.chdir(folder):
        for block in blocks(lines):
            body = lines[block.first : block.last]
            if block.kind == "text" and block.follows and printed is not None:
                now = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
                if not _same(body, now, block.comment):
                    differences.append(Difference(block.first, "\n".join(body), "\n".join(now)))
                written[block.first + shift : block.last + shift] = now
                shift += len(now) - len(body)
                printed = None
            elif _skipped(block.comment) or (block.kind == "sh" and path.name == "README.md"):
                printed = None
            else:
                printed = _run(block, body, namespace, f"{path.name}:{block.first + 1}")
    return differences, "\n".join(written) + "\n"


def _same(said: list[str], printed: list[str], comment: str) -> bool:
    if comment == "layout varies" and said:
        return True
    if comment == "numbers vary":
        said, printed = _words(said), _words(printed)
    return "\n".join(line.rstrip() for line in said).rstrip() == "\n".join(printed)


def _words(lines: list[str]) -> list[str]:
    """Lines without their numbers, and without how wide those made them."""
    shapes = (" ".join(BARS.sub("-", PADDING.sub("", NUMBER.sub("#", line))).split()) for line in lines)
    return [shape for shape in shapes if shape]


def _skipped(comment: str) -> bool:
    needed = comment.removeprefix("needs ") if comment.startswith("needs ") else None
    return comment == "not run" or (needed is not None and importlib.util.find_spec(needed) is None)


def _run(block: Block, body: list[str], namespace: dict[str, Any], where: str) -> str | None:
    """Run a block: what it printed, None if it is of no kind that runs."""
    if block.kind.startswith("{code-block}"):
        _write_file(body)
        return None
    if block.kind not in ("python", "sh"):
        return None
    said = io.StringIO()
    # Progress and warnings go to the error stream; a page shows what a pipe would get, and errors if it asks for them.
    errors = said if block.comment == "fails" else io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        if block.kind == "python":
            exec(compile("\n".join(body), where, "exec", dont_inherit=True), namespace)
        else:
            for line in body:
                _command(line, block.comment == "fails", said, errors, where)
    return said.getvalue()


def _write_file(body: list[str]) -> None:
    options = [line for line in body if line.startswith(":")]
    for option in options:
        if option.startswith(":caption:"):
            name = option.removeprefix(":caption:").strip().strip("`")
            Path(name).write_text("\n".join(body[len(options) :]).strip("\n") + "\n", encoding="utf-8")


def _command(line: str, fails: bool, said: io.StringIO, errors: io.StringIO, where: str) -> None:
    if line.startswith("psconrl "):
        code = _psconrl(shlex.split(line, comments=True)[1:])
    else:
        done = subprocess.run(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        said.write(done.stdout)
        code = done.returncode
    if (code != 0) != fails:
        raise RuntimeError(f"{where}: {line!r} ended with {code}:\n{said.getvalue()}{errors.getvalue()}")


def _psconrl(words: list[str]) -> int:
    """The command in this process, as on a machine with one core and a terminal of a fixed width."""
    from psconrl.cli import main

    surroundings = {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    with mock.patch.dict(os.environ, surroundings), mock.patch("os.sched_getaffinity", return_value={0}, create=True):
        try:
            main(words)
        except SystemExit as stopped:
            return stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)


def main(arguments: list[str]) -> int:
    """Check pages, all of them by default, or rewrite what they print."""
    write = "--write" in arguments
    chosen = [Path(word).resolve() for word in arguments if word != "--write"] or pages()
    bad = 0
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder:
            differences, text = run_page(page, Path(folder))
        for difference in differences:
            print(f"{page.name}:{difference.line}: says\n{difference.said}\nprinted\n{difference.printed}\n")
        if write:
            page.write_text(text, encoding="utf-8")
        bad += len(differences)
    return 0 if write or not bad else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
