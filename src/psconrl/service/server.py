"""Runs the service: a store, a problem file, a token, and uvicorn."""

from __future__ import annotations

import gc
import ipaddress
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psconrl._core.lazy import lazy_import
from psconrl.errors import InvalidArgumentError, StoreError
from psconrl.learning.learner import Learner
from psconrl.service.problem_file import read_problem

app: Any = lazy_import("psconrl.service.app")

LEAST_TOKEN = 16
"""Letters of a token."""

log = logging.getLogger(__name__)


def serve(
    problem: str | Path,
    store: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: Path | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve a learner until a signal ends it; requests under way are finished first.

    Args:
        problem: the problem file.
        store: the path of a SQLite store, or the URL of a PostgreSQL one.
        host, port: where to listen. A host that others can reach needs a token.
        token_file: a file that holds the token that clients must send.
        on_ready: called when the learner is open, before the service listens.

    Raises:
        InvalidArgumentError: if the problem file, the host or the token is wrong.
        StoreError: if the store cannot be opened, or the extra `service` is not installed.
    """
    token = None if token_file is None else _token(token_file)
    loopback = _is_loopback(host)
    if token is None and not loopback:
        raise InvalidArgumentError(
            f"host is {host!r}, which others can reach; give --token-file, or listen on 127.0.0.1"
        )
    try:
        import uvicorn

        create_app = app.create_app
    except ImportError as error:
        raise StoreError("the service needs FastAPI and uvicorn; pip install 'psconrl[service]'") from error
    said = read_problem(problem)
    learner = Learner.open(store, said.agent, **said.settings)
    hosts = ("127.0.0.1", "localhost", "[::1]", "::1") if loopback else ("*",)
    gc.collect()
    gc.freeze()  # what compiling left is not looked through again while somebody waits
    api = create_app(learner, title=said.title, units=said.units, token=token, hosts=hosts)
    on_ready()
    log.info("listening on http://%s:%d", host, port)
    uvicorn.run(api, host=host, port=port, log_level="warning", timeout_graceful_shutdown=10)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path}: cannot be read as a token: {error}") from error
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgumentError(f"{path}: a token must have at least {LEAST_TOKEN} printable letters and no spaces")
    return token
