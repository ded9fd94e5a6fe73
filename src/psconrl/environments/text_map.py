"""Gridworld maps as text: reading them, drawing random ones, and the maps of Marsrover and Box.

One letter per cell, with or without blanks in between::

    W wall    S start    G goal    P risky    X box    . free

Whatever lies outside of the map counts as wall, so a border may be left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from psconrl._core import checks
from psconrl._core.checks import Bools, Floats, Ints, short_repr
from psconrl.errors import MapError, UnknownNameError
from psconrl.io import reading

LARGEST_SIDE = 5000
"""The most rows or columns of a random map."""

LETTERS = {"W": "wall", "S": "start", "G": "goal", "P": "risky", "X": "box", ".": "free"}

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Rows and columns gone by the actions up, down, left, right."""

ATTEMPTS = 100
"""How often a random map is drawn anew in search of one where risk pays."""

MapSource = str | Path | Sequence[str]
"""A map as text, as a list of lines, or as a file: a Path, or a string that ends in .txt."""


Letters = NDArray[np.str_]


@dataclass(frozen=True)
class TextMap:
    """A map that has been read: `rows` of letters without blanks, and where each letter stood in the text."""

    rows: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    first_line: int = 1
    file: str = ""

    def where(self, letter: str) -> Ints:
        """Row and column (from 0) of every cell with this letter, (n, 2)."""
        return np.argwhere(self.letters == letter)

    @cached_property
    def letters(self) -> Letters:
        """The cells as an array (rows, columns) of single letters."""
        return np.array([list(row) for row in self.rows])

    def error(self, row: int, column: int, message: str) -> MapError:
        """What is wrong with one cell, at its place in the text."""
        return _error(self.file, self.first_line + row, self.columns[row][column], message)


def read_map(source: MapSource) -> TextMap:
    """Read a map; MapError gives the line and column, counted from 1, of the first mistake."""
    lines, file = _lines(source)
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        raise MapError(f"{file}the map is empty; write one letter per cell: {_legend()}")
    first, last = filled[0], filled[-1]
    rows: list[str] = []
    columns: list[tuple[int, ...]] = []
    for number in range(first, last + 1):
        cells = [(column, letter) for column, letter in enumerate(lines[number], 1) if not letter.isspace()]
        for column, letter in cells:
            if letter not in LETTERS:
                raise _error(file, number + 1, column, f"unknown letter {letter!r}; use {_legend()}")
        columns.append(tuple(column for column, _ in cells))
        rows.append("".join(letter for _, letter in cells))
        _check_width(file, number + 1, columns)
    found = TextMap(tuple(rows), tuple(columns), first + 1, file)
    for letter in "SG":
        if not any(letter in row for row in rows):
            raise MapError(
                f"{file}lines {first + 1} to {last + 1}: the map has no {LETTERS[letter]}; "
                f"write {letter} into at least one cell"
            )
    boxes = found.where("X")
    if len(boxes) > 1:
        row, column = boxes[1]
        raise found.error(row, column, "this is a second box; a map may hold one: write . instead of X")
    return found


def named_map(name: str) -> TextMap:
    """A map that comes with the package: "marsrover-4x4", "marsrover-8x8" or "box"."""
    folder = resources.files(__package__).joinpath("maps")
    known = [file.name.removesuffix(".txt") for file in folder.iterdir() if file.name.endswith(".txt")]
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError("map", name if isinstance(name, str) else short_repr(name), known)
    return read_map(folder.joinpath(f"{name}.txt").read_text(encoding="utf-8"))


def random_map(rows: int, columns: int, risky: float = 0.3, seed: int | np.random.SeedSequence = 0) -> str:
    """A Marsrover-like map of rows x columns cells inside a border of walls.

    The start lies in the lowest row and the goal in the topmost one. A winding way from start to goal, the shortest
    for random lengths of the steps, stays free of risk; elsewhere cells are made risky until their share of all cells
    is `risky`, or none is left. So a policy without any risk exists. Maps are drawn, at most `ATTEMPTS` times, until
    the shortest way without risk is a detour, so that risk pays.

    Args:
        rows, columns: the size, two cells at least.
        risky: the share of risky cells.
        seed: of the map.

    Returns:
        The map as text.

    Raises:
        InvalidArgumentError: an argument is out of its range.
    """
    rows = checks.whole(rows, "rows", 1, LARGEST_SIDE)
    columns = checks.whole(columns, "columns", 1 if rows > 1 else 2, LARGEST_SIDE)
    risky = checks.fraction(risky, "risky")
    rng = np.random.default_rng(seed if isinstance(seed, np.random.SeedSequence) else checks.seed_sequence(seed))
    for _ in range(ATTEMPTS):
        letters, detour = _draw(rows, columns, risky, rng)
        if detour or risky == 0:
            break
    return "\n".join(" ".join(row) for row in letters) + "\n"


def _draw(rows: int, columns: int, risky: float, rng: np.random.Generator) -> tuple[Letters, bool]:
    """One random map, and whether its safe ways from start to goal are longer than the shortest."""
    rng.random((rows, columns))  # so that seeds give the maps that they always gave
    n = rows * columns
    if rows == 1:
        start, goal = n - 1, 0
    else:
        start, goal = n - columns + int(rng.integers(columns)), int(rng.integers(columns))
    free = np.ones((rows, columns), dtype=np.bool_)
    way = _winding_way(free, start, goal, rng)
    dangerous = rng.permutation(np.setdiff1d(np.arange(n), way))[: round(risky * n)]
    cells = np.full(n, ".")
    cells[dangerous], cells[start], cells[goal] = "P", "S", "G"
    penalty = np.ones(n)
    penalty[dangerous] = 2 * n
    lengths = [csgraph.dijkstra(_graph(free, weight), indices=[start])[0, goal] for weight in (np.ones(n), penalty)]
    return np.pad(cells.reshape(rows, columns), 1, constant_values="W"), bool(lengths[0] < lengths[1])


def neighbours(free: Bools) -> Ints:
    """The cells reached by the four moves from each free cell, (n, 4): itself where a wall is in the way.

    Free cells are numbered row by row.
    """
    number = np.full((free.shape[0] + 2, free.shape[1] + 2), -1, dtype=np.int64)
    cells = np.argwhere(free) + 1
    own = np.arange(len(cells))
    number[tuple(cells.T)] = own
    to = np.stack([number[tuple((cells + move).T)] for move in MOVES], axis=1)
    return np.where(to >= 0, to, own[:, np.newaxis])


def _lines(source: MapSource) -> tuple[list[str], str]:
    """The lines of the map, and the name of its file for messages."""
    if isinstance(source, Path) or (isinstance(source, str) and source.endswith(".txt")):
        path = Path(source)
        return reading.read_text(path, MapError, reading.MAX_SETTINGS).splitlines(), f"{path}: "
    if isinstance(source, str):
        return source.splitlines(), ""
    if not isinstance(source, Sequence) or not all(isinstance(line, str) for line in source):
        raise MapError(f"a map must be text, a list of lines or a path; not {type(source).__name__}")
    return list(source), ""


def _check_width(file: str, line: int, columns: list[tuple[int, ...]]) -> None:
    found, wanted = len(columns[-1]), len(columns[0])
    if found == wanted:
        return
    at = columns[-1][wanted] if found > wanted else (columns[-1][-1] + 1 if found else 1)
    raise _error(
        file,
        line,
        at,
        f"this line has {found} cells, the first has {wanted}; all must have the same number: "
        "write . for a free cell and W for a wall",
    )


def _error(file: str, line: int, column: int, message: str) -> MapError:
    return MapError(f"{file}line {line}, column {column}: {message}")


def _legend() -> str:
    return ", ".join(f"{letter} {meaning}" for letter, meaning in LETTERS.items())


def _graph(free: Bools, lengths: Floats) -> sparse.csr_array:
    """The neighbourhood graph of the free cells; stepping onto a cell costs its length."""
    to = neighbours(free)
    n = len(to)
    origin = np.repeat(np.arange(n), 4)
    weight = lengths[to.ravel()]
    moved = to.ravel() != origin
    return sparse.csr_array((weight[moved], (origin[moved], to.ravel()[moved])), shape=(n, n))


def _winding_way(free: Bools, start: int, goal: int, rng: np.random.Generator) -> Ints:
    """The cells of a way from start to goal, shortest for heavy-tailed random lengths."""
    graph = _graph(free, np.exp(4 * rng.standard_normal(free.sum())))
    _, before = csgraph.dijkstra(graph, indices=[start], return_predecessors=True)
    way = [goal]
    while way[-1] != start:
        way.append(int(before[0, way[-1]]))
    return np.array(way)
