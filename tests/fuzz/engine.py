"""Inputs made of good ones by random changes: bits, bytes, pieces, words; whatever reaches new lines is kept.

Lines of psconrl's readers are watched while an input is new to them, so that inputs lead further and further in.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from tests.fuzz.targets import TARGETS, fed

WATCHED = ("io", "experiments", "cmdp.py", "checks.py", "text_map.py", "saved.py", "files.py")
MOST = 4096
SLOW = 2.0
"""Seconds that an input of this size may take."""


class SlowError(AssertionError):
    """An input that takes too long."""


def changed(rng: random.Random, content: bytes, others: list[bytes], words: tuple[bytes, ...]) -> bytes:
    """One random change after another."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = rng.randrange(256)
            case 2:
                del data[at : at + rng.choice((1, 2, 8, 64))]
            case 3:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4))))
            case 4:
                start = rng.randrange(len(data) + 1)
                data[at:at] = data[start : start + rng.choice((4, 32, 256))]
            case 5:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                data[at : at + rng.choice((0, 16, 128))] = other[start : start + rng.choice((16, 128))]
            case _ if words:
                word = rng.choice(words)
                data[at : at + rng.choice((0, len(word), 3))] = word
    return bytes(data[:MOST]) if len(content) <= MOST else bytes(data)


class Coverage:
    """The lines of psconrl that inputs have reached."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, name: str, content: bytes) -> bool:
        """Feed an input; whether it reached a new line."""
        before = len(self.seen)

        def line(frame: FrameType, event: str, _: Any) -> Any:
            self.seen.add((frame.f_code.co_filename, frame.f_lineno))
            return line

        def call(frame: FrameType, event: str, _: Any) -> Any:
            file = frame.f_code.co_filename
            return line if "psconrl" in file and any(part in file for part in WATCHED) else None

        sys.settrace(call)
        try:
            fed(name, content)
        finally:
            sys.settrace(None)
        return len(self.seen) > before


def fuzz(name: str, count: int, seed: int = 0, watch_every: int = 20) -> Iterator[tuple[int, int]]:
    """Feed so many inputs to a target; numbers of inputs fed and lines reached, now and then.

    An error that is not psconrl's own, and an input that takes too long, is raised with the input in its notes.
    """
    rng, target, coverage = random.Random(f"{name} {seed}"), TARGETS[name], Coverage()
    pool = target.examples()
    for content in pool:
        coverage(name, content)
    for number in range(1, count + 1):
        content = changed(rng, rng.choice(pool), pool, target.words)
        start = time.monotonic()
        try:
            if number % watch_every:
                fed(name, content)
            elif coverage(name, content):
                pool.append(content)
        except BaseException as error:
            error.add_note(f"target {name}, input {content!r}")
            raise
        if time.monotonic() - start > SLOW and name != "command":  # commands may have work to do
            raise SlowError(f"target {name}: {time.monotonic() - start:.1f} s for {content!r}")
        if number % 1000 == 0 or number == count:
            yield number, len(coverage.seen)
