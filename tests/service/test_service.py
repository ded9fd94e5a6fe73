"""The service: JSON in, JSON out, nothing lost, nothing let in that should not be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import psconrl
from psconrl.errors import InvalidArgumentError
from psconrl.service.app import MOST_BYTES, create_app
from psconrl.service.problem_file import read_problem
from psconrl.service.server import serve

TOKEN = "abcdef" * 4  # of nobody

PROBLEM = """
title = "Ward <b>7</b>"
actions = ["wait", "serve"]

[costs.hours]
range = [0, 24]
unit = "h"

[costs.overtime]
limit = 0.2

[available]
empty = ["wait"]
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with service(tmp_path) as found:
        yield found


def service(folder: Path, token: str | None = None) -> TestClient:
    (folder / "problem.toml").write_text(PROBLEM)
    problem = read_problem(folder / "problem.toml")
    learner = psconrl.Learner.open(folder / "learner.db", problem.agent, **problem.settings)
    app = create_app(learner, title=problem.title, units=problem.units, token=token, hosts=("testserver",))
    return TestClient(app)


def test_a_day_on_the_ward_and_a_restart(tmp_path: Path) -> None:
    told = 0
    for _ in range(2):  # the second one goes on where the first one ended
        with service(tmp_path) as client:
            for hour in range(24):
                decision = client.post("/ask", json={"state": f"beds {hour % 3}", "stream": "ward-7"}).json()
                assert decision["action"] in ("wait", "serve")
                body = {"id": decision["id"], "costs": {"hours": 1.5, "overtime": 0}, "next_state": "beds 0"}
                assert client.post("/tell", json=body).json() == {"counted": True}
                assert client.post("/tell", json=body).json() == {"counted": False}
                told += 1
            status = client.get("/status").json()
            assert status["steps"] == told
            assert status["limits"]["overtime"] == {"limit": 0.2, "average": 0.0, "excess": pytest.approx(-0.2 * told)}
            assert len(client.get("/policy?limit=2&search=beds").json()["rows"]) == 2
            assert client.get("/estimate").json()["costs"][0]["average"] == pytest.approx(1.5)
            assert f"psconrl_steps_total {told}\n" in client.get("/metrics").text
            assert client.get("/healthz").json() == {"status": "ok"}


def test_observed_cancelled_and_pending(client: TestClient) -> None:
    body = {"state": ["beds", 3], "action": "serve", "costs": [1, 0], "next_state": ["beds", 2]}
    assert client.post("/observe", json=body).json() == {"counted": True}
    id = client.post("/ask", json={"state": ["beds", 2], "request": "nine"}).json()["id"]
    assert client.post("/ask", json={"state": ["beds", 2], "request": "nine"}).json()["id"] == id
    assert [one["state"] for one in client.get("/pending").json()] == [["beds", 2]]
    assert client.post("/cancel", json={"id": id}).json() == {"cancelled": True}
    assert client.get("/pending").json() == []


def nested(depth: int) -> object:
    return [nested(depth - 1)] if depth else "x"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/ask", {}, 422),
        ("/ask", {"state": "x", "more": 1}, 422),
        ("/ask", {"state": {"a": 1}}, 422),
        ("/ask", {"state": "x" * MOST_BYTES}, 413),
        ("/ask", {"state": nested(500)}, 422),
        ("/ask", {"state": "x", "stream": "y" * 1000}, 422),
        ("/tell", {"id": 99, "costs": [1, 0], "next_state": "x"}, 422),
        ("/tell", {"id": 0, "costs": [99, 0], "next_state": "x"}, 422),
        ("/tell", {"id": 0, "costs": {"hours": 1}, "next_state": "x"}, 422),
        ("/tell", {"id": 10**30, "costs": [1, 0], "next_state": "x"}, 422),
        ("/observe", {"state": "empty", "action": "serve", "costs": [1, 0], "next_state": "x"}, 422),
        ("/cancel", {"id": 5}, 422),
    ],
)
def test_wrong_requests_get_one_clear_line_and_change_nothing(
    client: TestClient, path: str, body: dict[str, object], status: int
) -> None:
    client.post("/ask", json={"state": "x"})
    before = client.get("/status").json()
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert "\n" not in answer.json()["error"]
    assert client.get("/status").json() == before


def test_before_the_first_question_everything_answers(client: TestClient) -> None:
    paths = {
        "/metrics": 200,
        "/status": 200,
        "/policy": 200,
        "/pending": 200,
        "/estimate": 409,
        "/explain?state=0": 409,
    }
    for path, status in paths.items():
        assert client.get(path).status_code == status, path


def test_nan_is_no_cost(client: TestClient) -> None:
    client.post("/ask", json={"state": "x"})
    body = json.dumps({"id": 0, "costs": [float("nan"), 0], "next_state": "x"})
    assert client.post("/tell", content=body, headers={"content-type": "application/json"}).status_code == 422


def test_other_hosts_and_missing_tokens_are_turned_away(tmp_path: Path) -> None:
    with service(tmp_path, token=TOKEN) as client:
        assert client.get("/status").status_code == 401
        assert client.post("/ask", json={"state": "x"}).status_code == 401
        assert client.get("/status", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/", headers={"host": "evil.example"}).status_code == 400
        assert client.get("/").status_code == client.get("/healthz").status_code == 200


def test_listening_elsewhere_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="token"):
        serve(tmp_path / "problem.toml", str(tmp_path / "learner.db"), host="0.0.0.0")  # noqa: S104  it is refused
    (tmp_path / "token").write_text("short")
    with pytest.raises(InvalidArgumentError, match="token"):
        serve(tmp_path / "problem.toml", str(tmp_path / "learner.db"), token_file=tmp_path / "token")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[costs.overtime]", "[overtime]"), "overtime"),
        (("limit = 0.2", "limt = 0.2"), "limit"),
        (("limit = 0.2", ""), "limit"),
        (("range = [0, 24]", "range = [24, 0]"), "cost_ranges"),
        (("actions =", "action ="), "actions"),
        (('empty = ["wait"]', 'empty = ["sleep"]'), "sleep"),
        (("title", "[title"), "TOML"),
    ],
)
def test_wrong_problem_files_name_the_key(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "problem.toml").write_text(PROBLEM.replace(*change))
    with pytest.raises(InvalidArgumentError, match=says):
        psconrl.Learner(read_problem(tmp_path / "problem.toml").agent).act("empty")
