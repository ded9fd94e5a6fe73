"""Ctrl-C ends the command line at once, whatever it is doing.

Python looks at interrupts only between two of its own steps, and compiled code may take minutes. So a thread listens
for them and ends the process. Files are written whole or not at all, and worker processes end with their parent, so
nothing is lost by that.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

INTERRUPTED = 130
"""The exit code."""

message = "interrupted"
"""What is printed; a command may have more to say."""


def end_on_interrupts() -> None:
    """Listen from now on, unless this is no main thread, or somebody else handles interrupts."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(ours, theirs), daemon=True).start()
    signal.signal(signal.SIGINT, lambda *_: None)


def _listen(ours: socket.socket, theirs: socket.socket) -> None:
    # The other end is kept here, so that it lives as long as the thread.
    while signal.SIGINT not in ours.recv(64):
        pass
    show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # progress bars hide it
    try:
        sys.stdout.flush()
        os.write(2, f"{show_cursor}psconrl: {message}\n".encode())
    finally:
        os._exit(INTERRUPTED)
