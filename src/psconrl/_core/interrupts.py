"""Ctrl-C that always ends the command line: in an orderly way if that is quick, at once if not.

The first interrupt raises KeyboardInterrupt, as ever. But Python raises it only between two of its own steps, what is
raised amid a clean-up may be lost, and amid the import of a library it may come out as another error. So it is
remembered, and a thread hears of every interrupt, too: if the command has not ended some
seconds after the first one, or as soon as there is a second one, it ends the process. Files are written whole or not at
all, and worker processes end with their parent, so nothing is lost by that.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
PATIENCE = 2.0
"""Seconds that an orderly end may take."""

_heard = False


def interrupted() -> bool:
    """Whether an interrupt was heard, whatever has become of it."""
    return _heard


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _heard
    if not _heard:  # the second one is the thread's, and would only disturb the end
        _heard = True
        raise KeyboardInterrupt


def end_on_interrupts() -> None:
    """Listen from now on, if this is the main thread and nobody else handles interrupts."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(ours, theirs), daemon=True).start()
    signal.signal(signal.SIGINT, _interrupt)


def end_at_once(message: str = "") -> NoReturn:
    """End as interrupted, without the clean-up of the interpreter, which may take long."""
    try:
        if message:
            print(message, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError, KeyboardInterrupt):
        pass
    finally:
        os._exit(INTERRUPTED)


def let_end() -> None:
    """What was to be done is done: let interrupts no longer disturb the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _listen(ours: socket.socket, theirs: socket.socket) -> None:
    # The other end is kept here, so that it lives as long as the thread.
    while signal.SIGINT not in ours.recv(64):
        pass
    ours.settimeout(PATIENCE)
    try:
        while signal.SIGINT not in ours.recv(64):
            pass
    except TimeoutError:
        pass
    try:
        os.write(2, b"psconrl: interrupted\n")
    finally:
        os._exit(INTERRUPTED)
