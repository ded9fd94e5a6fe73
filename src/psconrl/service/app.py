"""The service's HTTP interface: JSON in, JSON out, with FastAPI's checks and its OpenAPI document.

Requests are handled by threads; the learner lets one at a time change it. Whatever a request does is stored before the
answer is sent. A request that names itself (`request`) may be repeated: it gets the same decision.
"""

from __future__ import annotations

import hmac
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import resources
from threading import Lock
from typing import Annotated, Any, cast

import numpy as np
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

import psconrl
from psconrl.errors import CallOrderError, InvalidArgumentError, PsconrlError, StoreError
from psconrl.learning.durable import Decision, DurableLearner
from psconrl.learning.estimate import Estimate
from psconrl.learning.state_io import MAX_DEPTH
from psconrl.planning.solution import Solution
from psconrl.problem import Problem

MOST_BYTES = 65_536
"""Of a request's body."""
MOST_PER_SECOND = 2000.0
"""Requests of one client, on average; a burst may have as many at once."""
ESTIMATE_SECONDS = 60.0
"""How long an estimate is handed out again: it costs a solve and some draws."""
ESTIMATE_DRAWS = 50
ESTIMATE_STATES = 2000
"""Of the largest model that the service solves."""
_MOST_CLIENTS = 10_000

REFUSALS = {
    400: "not JSON",
    401: "no token, or another",
    409: "not now: told otherwise before, cancelled, or still being made",
    413: "too large",
    422: "a wrong value",
    429: "too often",
    503: "the store does not answer; repeat the request",
}

_PUBLIC = ("/", "/healthz", "/page.js", "/page.css", "/api")
"""Paths that need no token: they say nothing of what was learned."""

State = str | int | float | bool | None | list[Any]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Ask(_Body):
    """A question: what to do in a state."""

    state: State
    stream: str = ""
    request: str | None = Field(None, description="a name for this question; asked again, it gets the same decision")


class Tell(_Body):
    """What came of a decision."""

    id: int
    costs: list[float] | dict[str, float] = Field(description="in the order of the problem file, or by name")
    next_state: State


class Observe(_Body):
    """A step that somebody else decided."""

    state: State
    action: State
    costs: list[float] | dict[str, float]
    next_state: State
    stream: str = ""
    request: str | None = Field(None, description="a name for this step; told again, it is counted once")


class Cancel(_Body):
    """A decision that was not carried out."""

    id: int


class Refusal(BaseModel):
    """Why a request was not done, in words."""

    error: str


class Answer(BaseModel):
    """A decision."""

    id: int
    action: State
    probability: float
    state: State
    stream: str
    plan: int
    asked: datetime
    expires: datetime


def create_app(
    learner: DurableLearner,
    *,
    title: str = "psconrl",
    units: tuple[str, ...] = (),
    token: str | None = None,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]"),
) -> FastAPI:
    """The service of a learner, which it closes when it ends.

    Args:
        learner: the learner.
        title: for the page.
        units: of the costs, for the page.
        token: what clients must send as `Authorization: Bearer TOKEN`; None: nothing.
        hosts: names under which the service may be called; "*" is any.

    Returns:
        An ASGI application.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        learner.close()

    app = FastAPI(
        title=title,
        version=psconrl.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # what generated clients call their functions
        responses={status: {"model": Refusal, "description": text} for status, text in REFUSALS.items()},
        dependencies=[] if token is None else [Depends(HTTPBearer(auto_error=False))],  # for the document; Guard checks
    )
    names = learner.problem.cost_names
    started = time.time()
    estimated = _Cached(lambda: _solved(learner), ESTIMATE_SECONDS)
    counters: Counter[str] = Counter()

    @app.exception_handler(PsconrlError)
    async def _refused(_: Request, error: PsconrlError) -> JSONResponse:
        status = 503 if isinstance(error, StoreError) else 409 if isinstance(error, CallOrderError) else 422
        return JSONResponse({"error": str(error)}, status)

    @app.exception_handler(UnicodeEncodeError)
    async def _not_text(_: Request, error: UnicodeEncodeError) -> JSONResponse:
        return JSONResponse({"error": f"{error.object[:100]!r} is not text: it has half a character"}, 422)

    @app.exception_handler(RequestValidationError)
    async def _misread(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
        return JSONResponse({"error": f"{where}: {first['msg'].lower()}; /api shows what to send, as JSON"}, 422)

    @app.exception_handler(HTTPException)
    async def _other(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.post("/ask")
    def ask(body: Ask) -> Answer:
        """Choose an action; the decision is stored when the answer is sent."""
        counters["ask"] += 1
        return _answer(learner.ask(_hashable(body.state), body.stream, request=body.request))

    @app.post("/tell")
    def tell(body: Tell) -> dict[str, bool]:
        """Say what came of a decision: counted once, however often it is told."""
        counters["tell"] += 1
        return {"counted": learner.tell(body.id, _costs(body.costs, names), _hashable(body.next_state))}

    @app.post("/observe")
    def observe(body: Observe) -> dict[str, bool]:
        """Take in a step that somebody else decided."""
        counters["observe"] += 1
        state, action, next_state = (_hashable(value) for value in (body.state, body.action, body.next_state))
        costs = _costs(body.costs, names)
        return {"counted": learner.observe(state, action, costs, next_state, body.stream, request=body.request)}

    @app.post("/cancel")
    def cancel(body: Cancel) -> dict[str, bool]:
        """Take a decision back that was not carried out."""
        counters["cancel"] += 1
        return {"cancelled": learner.cancel(body.id)}

    @app.get("/status")
    def status() -> dict[str, Any]:
        """How it stands: steps, limits, pending answers, plans, conflicts, drift."""
        return _jsonable({"title": title, "units": list(units), "cost_names": list(names), **learner.status()})

    @app.get("/pending")
    def pending(most: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[Answer]:
        """The decisions without an outcome, oldest first."""
        return [_answer(decision) for decision in learner.pending(most)]

    @app.get("/policy")
    def policy(
        offset: Annotated[int, Query(ge=0)] = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 100, search: str = ""
    ) -> dict[str, Any]:
        """The current plan: the probability of each action in each state."""
        return _jsonable(_policy(learner, offset, limit, search))

    @app.get("/estimate")
    def estimate() -> dict[str, Any]:
        """What was learned: the best policy of the estimated model, and how sure its averages are."""
        return _jsonable(_estimate(estimated(), learner.problem))

    @app.get("/explain")
    def explain(state: Annotated[int, Query(ge=0)]) -> dict[str, str]:
        """Why the best policy of the estimated model does what it does in a state, which is given by number."""
        solution = estimated()
        kind = "Best policy" if solution.feasible else "The limits cannot all be kept. Policy that exceeds them least,"
        text = f"{kind} in the estimated model (the current plan may differ, to learn).\n{solution.explain(state)}"
        return {"text": text}

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        """Whether the store answers."""
        learner.pending(1)
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> str:
        """Prometheus text."""
        return _metrics(learner.status(), counters, started)

    for path, file, kind in (
        ("/", "page.html", "text/html"),
        ("/api", "api.html", "text/html"),
        ("/page.js", "page.js", "text/javascript"),
        ("/page.css", "page.css", "text/css"),
    ):
        app.add_api_route(path, _page(file, kind), include_in_schema=False)
    app.add_middleware(Guard, token=token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts])
    return app


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Guard:
    """Refuses what is too large, too frequent or without the token, before anything else looks at it."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], token: str | None) -> None:
        self.app, self.token = app, token
        self._allowance: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal = self._refusal(scope, headers)
        if refusal is None:
            body, too_large = await _read(receive)
            if too_large:
                refusal = 413, f"the body must be at most {MOST_BYTES} bytes"
        if refusal is not None:
            status, message = refusal
            await JSONResponse({"error": message}, status)(scope, receive, send)
            return

        async def replay() -> MutableMapping[str, Any]:
            nonlocal body
            if body is None:
                return await receive()
            message, body = {"type": "http.request", "body": body, "more_body": False}, None
            return message

        await self.app(scope, replay, send)

    def _refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        client = (scope.get("client") or ("",))[0]
        if not self._within_rate(client):
            return 429, f"more than {MOST_PER_SECOND:.0f} requests a second; wait a moment"
        if self.token is not None and scope["path"] not in _PUBLIC:
            sent = headers.get(b"authorization", b"")
            if not hmac.compare_digest(sent, b"Bearer " + self.token.encode()):
                return 401, "send the service's token: Authorization: Bearer TOKEN"
        return None

    def _within_rate(self, client: str) -> bool:
        now = time.monotonic()
        if len(self._allowance) > _MOST_CLIENTS:
            self._allowance.clear()
        left, then = self._allowance.get(client, (MOST_PER_SECOND, now))
        left = min(left + (now - then) * MOST_PER_SECOND, MOST_PER_SECOND) - 1.0
        self._allowance[client] = max(left, 0.0), now
        return left >= 0.0


async def _read(receive: Receive) -> tuple[bytes | None, bool]:
    """The body of a request, and whether it is too large."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            return None, True
    return body, False


class _Cached:
    """A solution that is made anew when it is asked for some seconds later, by one thread while others do not wait."""

    def __init__(self, make: Callable[[], Solution], seconds: float) -> None:
        self._make, self._seconds, self._lock = make, seconds, Lock()
        self._made = -math.inf
        self._value: Solution | None = None

    def __call__(self) -> Solution:
        if time.monotonic() - self._made > self._seconds and self._lock.acquire(blocking=False):
            try:
                self._value, self._made = self._make(), time.monotonic()
            finally:
                self._lock.release()
        if self._value is None:
            raise CallOrderError("the estimate is being made; ask again in some seconds")
        return self._value


def _page(file: str, kind: str) -> Callable[[], Response]:
    content = resources.files(__package__).joinpath(file).read_bytes()
    headers = {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }
    return lambda: Response(content, media_type=kind, headers=headers)


def _hashable(value: Any, depth: int = 0) -> Any:
    """JSON has lists where states are tuples."""
    if isinstance(value, list):
        if depth == MAX_DEPTH:
            raise InvalidArgumentError(f"a name is nested more than {MAX_DEPTH} levels deep; give a flatter one")
        return tuple(_hashable(item, depth + 1) for item in value)
    if isinstance(value, str):
        value.encode()  # which JSON's "\\ud800" cannot be
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgumentError(f"{value} is no name; names are text, finite numbers and lists of these")
    return value


def _costs(costs: list[float] | dict[str, float], names: tuple[str, ...]) -> list[float]:
    if isinstance(costs, list):
        return costs
    if set(costs) != set(names):
        raise InvalidArgumentError(f"costs names {', '.join(costs)}; it must name each of {', '.join(names)}")
    return [costs[name] for name in names]


def _answer(decision: Decision) -> Answer:
    return Answer(**vars(decision) | {name: _jsonable(getattr(decision, name)) for name in ("action", "state")})


def _policy(learner: DurableLearner, offset: int, limit: int, search: str) -> dict[str, Any]:
    states, actions, probabilities = learner.policy()
    found = [s for s, name in enumerate(states) if search.lower() in str(name).lower()]
    return {
        "states": len(states),
        "found": len(found),
        "actions": actions,
        "rows": [
            {"number": s, "state": states[s], "probabilities": probabilities[s].tolist()}
            for s in found[offset : offset + limit]
        ],
    }


def _solved(learner: DurableLearner) -> Solution:
    model = learner.estimate()
    if model.S > ESTIMATE_STATES:
        raise InvalidArgumentError(
            f"the estimated model has {model.S} states, too many to solve while others wait; export the log and use "
            "psconrl.fit"
        )
    return psconrl.solve(model)


def _estimate(solution: Solution, problem: Problem) -> dict[str, Any]:
    model = cast(Estimate, solution.model)
    intervals = model.intervals(solution.policy, draws=ESTIMATE_DRAWS)
    return {
        "feasible": solution.feasible,
        "conflict": [model.cost_names[i] for i in solution.conflict],
        "costs": [
            {
                "name": name,
                "average": solution.average_costs[i],
                "low": intervals[i, 0],
                "high": intervals[i, 1],
                "limit": None if i == 0 else problem.thresholds[i - 1],
                "price": None if i == 0 or not solution.feasible else solution.multipliers[i - 1],
            }
            for i, name in enumerate(problem.cost_names)
        ],
        "states": model.S,
        "pairs_tried": int((model.visits > 0).sum()),
        "pairs": int(model.visits.size),
    }


def _metrics(status: Mapping[str, Any], counters: Mapping[str, int], started: float) -> str:
    lines = []

    def metric(name: str, kind: str, text: str, values: list[tuple[str, float]]) -> None:
        lines.extend([f"# HELP psconrl_{name} {text}", f"# TYPE psconrl_{name} {kind}"])
        lines.extend(f"psconrl_{name}{labels} {value:.17g}" for labels, value in values)

    for name, kind, text in (
        ("steps_total", "counter", "steps counted"),
        ("decisions_total", "counter", "decisions given"),
        ("plans_total", "counter", "plans made"),
        ("infeasible_plans_total", "counter", "plans whose limits could not be met"),
        ("pending", "gauge", "decisions without an outcome"),
        ("expired", "gauge", "expired decisions without an outcome"),
    ):
        metric(name, kind, text, [("", status[name.removesuffix("_total")])])
    metric("drift_alarms", "gauge", "alarms of a changing environment", [("", len(status["drift"]["alarms"]))])
    limits = [(_labels(limit=name), limit) for name, limit in status["limits"].items()]
    metric("limit", "gauge", "the limit", [(label, limit["limit"]) for label, limit in limits])
    averages = [(label, limit["average"]) for label, limit in limits if limit["average"] is not None]
    metric("limit_average", "gauge", "average so far", averages)
    metric("requests_total", "counter", "requests", [(_labels(path="/" + path), n) for path, n in counters.items()])
    metric("start_time_seconds", "gauge", "when the service was started", [("", started)])
    return "\n".join(lines) + "\n"


def _labels(**labels: str) -> str:
    escaped = {
        key: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, value in labels.items()
    }
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "}"


def _jsonable(value: Any) -> Any:
    """Plain JSON values: no NaN, no infinity, no arrays."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    if isinstance(value, np.ndarray):
        return _jsonable(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
