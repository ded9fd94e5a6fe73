"""Every command as a person sees it, in terminals of three widths, into docs/transcript.md.

    python docs/transcript.py

Each line is run in a pseudo-terminal, in one folder, from top to bottom; what it prints is kept without colours and
without what progress bars have drawn over.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from pathlib import Path

PAGE = Path(__file__).with_name("transcript.md")
SOURCE = Path(__file__).resolve().parents[1] / "src"
WIDTHS = (60, 80, 120)

COMMANDS = {
    "Help": [
        "psconrl",
        "psconrl --version",
        "psconrl solve --help",
        "psconrl run --help",
        "psconrl slove toy",
        "psconrl --hlep",
    ],
    "What there is": ["psconrl envs", "psconrl agents", "psconrl envs --jsn", "psconrl agents all"],
    "Known models": [
        "psconrl solve marsrover-4x4",
        "psconrl solve riverswim --horizon 20000",
        "psconrl solve hospital --limit overtime=0.05 --limit readmissions=0.001",
        "psconrl solve queue --limit service=0",
        "psconrl solve marsrover",
        "psconrl solve marsrover-4x4 --set slipp=0.1",
        "psconrl solve marsrover-4x4 --limit risky=0.1",
        "psconrl solve marsrover-4x4 --limit risk",
        "psconrl solve model.jsn",
        "psconrl solve",
    ],
    "A model of one's own": [
        "psconrl init first-steps",
        "psconrl init first-steps",
        "psconrl solve first-steps/model.json",
        "psconrl convert first-steps/model.json machine.drn",
        "psconrl convert first-steps/model.json missing/machine.json",
        "psconrl convert first-steps/model.json machine.xml",
        "psconrl init",
    ],
    "Runs": [
        "psconrl run --env first-steps/model.json --agent recommended --agent conrl --horizon 500 --seeds 2 --out s",
        "psconrl run --env hospital --horizon 500 --seeds 2 --out ward",
        "psconrl run --env toy --set toy.tau=0.1 --horizon 100 --seeds 2 --out impossible",
        "psconrl run --env toy --agnet psconrl",
        "psconrl run --env toy --agent psconlr --horizon 100 --seeds 2",
        "psconrl run --env toy --horizon 100",
        "psconrl run --env toy --horizon 100 --seeds 100000000",
        "psconrl run --env toy --set psconrl.prio=0.1 --agent psconrl --horizon 100 --seeds 2",
        "psconrl run --env toy --horizon ten --seeds 2",
        "psconrl run first-steps/experiment.toml --out first-steps/results",
        "psconrl run first-steps/experiment.tml",
    ],
    "Reports and tables": [
        "psconrl report s",
        "psconrl report results",
        "psconrl export s curves.csv",
        "psconrl export s curves.txt",
        "psconrl export s missing/curves.csv",
        "psconrl reproduce environments --out paper",
        "psconrl reproduce figure1",
        "psconrl reproduce --help",
    ],
}
"""Right and wrong, by heading."""

HEAD = """# A transcript

Every command with right and wrong arguments, as it looks in terminals that are 60, 80 and 120 columns wide. The page is
written by `docs/transcript.py`, which runs the commands in a pseudo-terminal; numbers and times are those of one
machine. [](cli.md) explains the commands.
"""

_PIECES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])|\r|\n|[^\x1b\r\n]+")
_UP = re.compile(r"\x1b\[(\d*)A")
_ERASE = "\x1b[2K"


def in_terminal(command: str, columns: int, folder: Path) -> tuple[str, int]:
    """What a command leaves on a terminal of so many columns, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    words = shlex.split(command)
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "psconrl", *words[1:]],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment | {"TERM": "xterm-256color", "PYTHONUTF8": "1", "PYTHONPATH": str(SOURCE)},
    )
    os.close(theirs)
    read: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(ours, read))
    reader.start()
    code = process.wait()
    reader.join()
    os.close(ours)
    return left_on_screen(b"".join(read).decode("utf-8", "replace")), code


def _drain(descriptor: int, read: list[bytes]) -> None:
    while True:
        try:
            chunk = os.read(descriptor, 65_536)
        except OSError:  # the other end is closed
            return
        if not chunk:
            return
        read.append(chunk)


def left_on_screen(text: str) -> str:
    """The lines that are left when all is drawn: what was erased or overwritten is gone, and so are colours."""
    lines, row = [""], 0
    for piece in _PIECES.findall(text):
        move = _UP.fullmatch(piece)
        if move:
            row = max(row - int(move[1] or 1), 0)
        elif piece == _ERASE or piece == "\r":
            lines[row] = "" if piece == _ERASE else lines[row]
        elif piece == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif not piece.startswith("\x1b"):
            lines[row] += piece
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def page(widths: tuple[int, ...] = WIDTHS) -> str:
    """The page, by running everything."""
    parts = [HEAD]
    for columns in widths:
        parts.append(f"\n## {columns} columns\n")
        with tempfile.TemporaryDirectory() as folder:
            for heading, commands in COMMANDS.items():
                parts.append(f"\n### {heading}, {columns} columns\n")
                for command in commands:
                    printed, code = in_terminal(command, columns, Path(folder))
                    ended = f"\n[exit code {code}]" if code else ""
                    parts.append(f"\n```console\n$ {command}\n{printed}{ended}\n```\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(tuple(int(word) for word in sys.argv[1:]) or WIDTHS), encoding="utf-8")
