"""The progress of an experiment: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from psconrl._core.compiling import COMPILING
from psconrl.experiments.spec import Cell

Start = Sequence[tuple[Cell, int, int]]
"""Cells with the number of their runs, and how many of these are there already."""


class Progress:
    """Counts runs and measures their speed; shows nothing itself.

    The clock starts when the first run is done, and again after runs that had to wait for kernels to be compiled.
    """

    @contextmanager
    def showing(self, cells: Start) -> Iterator[None]:
        """Show it as long as the context lasts."""
        self.left = {cell: total - done for cell, total, done in cells}
        self.total, self.done, self.failed = sum(total for _, total, _ in cells), sum(done for *_, done in cells), 0
        self._steps = self._untimed = sum(cell.horizon * runs for cell, runs in self.left.items())
        self._slow, self._start = True, time.monotonic()
        yield

    def compiling(self) -> None:
        """Something is compiled before runs go on: the next one will have taken longer than the others."""
        self._slow = True

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        """One run of a cell is done."""
        self.left[cell] -= 1
        self.done += 1
        self.failed += failed
        self._steps -= cell.horizon
        if self._slow:
            self._slow, self._untimed, self._start = False, self._steps, time.monotonic()

    @property
    def speed(self) -> str:
        """Steps per second, and how long the rest will take; nothing while that is not known."""
        rate = (self._untimed - self._steps) / max(time.monotonic() - self._start, 1e-9)
        if rate == 0:
            return ""
        return f"{rate:,.0f} steps/s" + (f", {_clock(self._steps / rate)} left" if self._steps else "")


class Lines(Progress):
    """A line every few seconds, and one when a cell is finished."""

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self.stream, self.every = stream or sys.stderr, every
        self._last, self._told = time.monotonic(), False

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    @contextmanager
    def showing(self, cells: Start) -> Iterator[None]:
        """Say how many runs are there already."""
        with super().showing(cells):
            if self.done:
                self._print(f"{self.done} of {self.total} runs are already done")
            yield

    def compiling(self) -> None:
        """A line, the first time."""
        super().compiling()
        if not self._told:
            self._print(COMPILING)
        self._told = True

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        """Count, and perhaps print."""
        super().advance(cell, failed=failed)
        now = time.monotonic()
        if self.left[cell] and now - self._last < self.every:
            return
        self._last = now
        failures = f"{self.failed} failed" if self.failed else ""
        finished = "" if self.left[cell] else f"{cell.label} finished"
        self._print(", ".join(filter(None, [f"{self.done}/{self.total} runs", self.speed, failures, finished])))


class Bar(Progress):
    """A bar on a terminal, with the speed beside it."""

    @contextmanager
    def showing(self, cells: Start) -> Iterator[None]:
        """Draw the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            *("runs", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}")),
            console=Console(file=getattr(sys.stderr, "stream", sys.stderr)),  # it moves the cursor
            transient=True,
        )
        with super().showing(cells), self._bar:
            self._task = self._bar.add_task("runs", total=self.total, completed=self.done, state="")
            yield

    def compiling(self) -> None:
        """Say so, until the first run is done."""
        super().compiling()
        self._bar.update(self._task, state=COMPILING)

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        """Move the bar."""
        super().advance(cell, failed=failed)
        state = self.speed + (f", [red]{self.failed} failed[/]" if self.failed else "")
        self._bar.update(self._task, advance=1, state=state)


def for_terminal() -> Progress:
    """The progress display that suits the error stream.

    Returns:
        A bar if the error stream is a terminal, else lines.
    """
    return Bar() if sys.stderr.isatty() else Lines()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
