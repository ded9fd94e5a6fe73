"""The progress of an experiment: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from psconrl._core.compiling import COMPILING
from psconrl.experiments.spec import Cell

Start = Sequence[tuple[Cell, int, int]]
"""Cells with the number of their runs, and how many of these are there already."""


class Progress(Protocol):
    """Something that shows progress."""

    def showing(self, cells: Start) -> AbstractContextManager[None]:
        """Show it as long as the context lasts."""

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        """One run of a cell is done."""

    def compiling(self) -> None:
        """Something is compiled before runs go on."""


class Silent:
    """Shows nothing."""

    @contextmanager
    def showing(self, cells: Start) -> Iterator[None]:
        """Nothing to show."""
        yield

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        """Nothing to show."""

    def compiling(self) -> None:
        """Nothing to show."""


class _Speed:
    """How many steps are done in a second, and how long the rest will take.

    The clock starts when the first run is done, and again after runs that had to wait for kernels to be compiled.
    """

    def __init__(self, cells: Start) -> None:
        self.left = self.unknown = sum(cell.horizon * (total - done) for cell, total, done in cells)
        self.start = time.monotonic()
        self.compiled, self._slow = False, True

    def compiling(self) -> None:
        """The next run will have taken longer than the others."""
        self.compiled = self._slow = True

    def advance(self, steps: int) -> None:
        """So many steps more are done."""
        self.left -= steps
        if self._slow:
            self._slow, self.unknown, self.start = False, self.left, time.monotonic()

    def __str__(self) -> str:
        rate = (self.unknown - self.left) / max(time.monotonic() - self.start, 1e-9)
        if rate == 0:
            return ""
        left = f", {_clock(self.left / rate)} left" if self.left else ""
        return f"{rate:,.0f} steps/s{left}"


class Lines:
    """A line every few seconds, and one when a cell is finished."""

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self.stream, self.every = stream or sys.stderr, every

    @contextmanager
    def showing(self, cells: Start) -> Iterator[None]:
        """Start the clock."""
        self.left = {cell: total - done for cell, total, done in cells}
        self.total, self.done = sum(total for _, total, _ in cells), sum(done for *_, done in cells)
        self.failed, self.speed, self.last = 0, _Speed(cells), time.monotonic()
        if self.done:
            print(f"{self.done} of {self.total} runs are already done", file=self.stream, flush=True)
        yield

    def compiling(self) -> None:
        """A line, the first time."""
        if not self.speed.compiled:
            print(COMPILING, file=self.stream, flush=True)
        self.speed.compiling()

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        """Count, and perhaps print."""
        self.left[cell] -= 1
        self.done += 1
        self.failed += failed
        self.speed.advance(cell.horizon)
        now = time.monotonic()
        if self.left[cell] and now - self.last < self.every:
            return
        self.last = now
        parts = [f"{self.done}/{self.total} runs", str(self.speed)]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if not self.left[cell]:
            parts.append(f"{cell.label} finished")
        print(", ".join(filter(None, parts)), file=self.stream, flush=True)


class Bar:
    """A bar on a terminal, with the speed beside it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            console=Console(file=getattr(sys.stderr, "stream", sys.stderr)),  # it moves the cursor
            transient=True,
        )

    @contextmanager
    def showing(self, cells: Start) -> Iterator[None]:
        """Draw the bar."""
        total, done = sum(n for _, n, _ in cells), sum(n for *_, n in cells)
        self.task = self.bars.add_task("runs", total=total, completed=done, state="")
        self.failed, self.speed = 0, _Speed(cells)
        with self.bars:
            yield

    def compiling(self) -> None:
        """Say so, until the first run is done."""
        self.speed.compiling()
        self.bars.update(self.task, state=COMPILING)

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        """Move the bar."""
        self.failed += failed
        self.speed.advance(cell.horizon)
        state = f"{self.speed}" + (f", [red]{self.failed} failed[/]" if self.failed else "")
        self.bars.update(self.task, advance=1, state=state)


def for_terminal() -> Progress:
    """What shows progress here.

    Returns:
        A bar if the error stream is a terminal, else lines.
    """
    return Bar() if sys.stderr.isatty() else Lines()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
