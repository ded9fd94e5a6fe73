"""A PostgreSQL server of our own for tests: in a temporary folder, on a socket and loopback only."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def binaries() -> Path | None:
    """Where PostgreSQL's programs are; `make postgresql` installs them."""
    found = shutil.which("postgres")
    if found is not None:
        return Path(found).parent
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    return Path(folders[-1]) if folders else None


@contextmanager
def running_server() -> Iterator[str]:
    """Start a server, and give its URL; skips the test where PostgreSQL is not installed."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed; `make postgresql` does it")
    folder = Path(tempfile.mkdtemp(prefix="psconrl-postgres-"))
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    if user is not None:
        shutil.chown(folder, user, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"

    def run(*command: object) -> None:
        subprocess.run([str(part) for part in command], check=True, capture_output=True, user=user, cwd=folder)

    run(programs / "initdb", "-D", data, "-U", "psconrl", "-A", "trust", "--no-sync", "-E", "UTF8")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
    run(programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield f"postgresql://psconrl@127.0.0.1:{port}/postgres"
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
