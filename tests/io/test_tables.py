"""Models from tables: every kind of table gives the same model, and each mistake its row."""

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import psconrl
from psconrl import CMDP, InvalidArgumentError, InvalidModelError, ModelFileError, PsconrlError

MOVES = [
    ("calm", "one nurse", "calm", 0.8),
    ("calm", "one nurse", "busy", 0.2),
    ("calm", "two nurses", "calm", 1.0),
    ("busy", "one nurse", "busy", 0.5),
    ("busy", "one nurse", "calm", 0.5),
    ("busy", "rest", "calm", 1.0),
]
COSTS = [
    ("calm", "one nurse", 0.1, 0.0, 3.0),
    ("calm", "two nurses", 0.0, 1.0, 2.0),
    ("busy", "one nurse", 0.9, 0.0, 1.0),
    ("busy", "rest", 2.0, 0.5, 0.0),
]


def moves(rows: list[tuple[Any, ...]] | None = None) -> pd.DataFrame:
    return pd.DataFrame(MOVES if rows is None else rows, columns=["state", "action", "next_state", "probability"])


def costs(rows: list[tuple[Any, ...]] | None = None) -> pd.DataFrame:
    return pd.DataFrame(COSTS if rows is None else rows, columns=["state", "action", "waiting", "overtime", "tea"])


def by_hand() -> CMDP:
    p, c = np.zeros((2, 3, 2)), np.zeros((3, 2, 3))
    p[0, 0], p[0, 1, 0], p[1, 0], p[1, 2, 0] = [0.8, 0.2], 1.0, [0.5, 0.5], 1.0
    c[:, 0, 0], c[:, 0, 1], c[:, 1, 0], c[:, 1, 2] = [0.1, 0, 3], [0, 1, 2], [0.9, 0, 1], [2, 0.5, 0]
    return CMDP(
        p,
        c[:2],
        [0.3],
        state_names=["calm", "busy"],
        action_names=["one nurse", "two nurses", "rest"],
        cost_names=["waiting", "overtime"],
        available=p.any(axis=2),
    )


def files(folder: Path, ending: str) -> tuple[Path, Path]:
    paths = folder / f"transitions.{ending}", folder / f"costs.{ending}"
    for frame, path in zip((moves(), costs()), paths, strict=True):
        if ending == "parquet":
            pq.write_table(pa.Table.from_pandas(frame), path)
        else:
            frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    return paths


KINDS = (
    *("pandas", "pandas nullable", "pandas categories", "pandas index"),
    *("polars", "polars lazy", "polars categories", "arrow", "dicts", "columns"),
)


@pytest.mark.parametrize("kind", [*KINDS, "csv", "csv.gz", "tsv", "parquet"])
def test_every_kind_of_table_gives_the_same_model(kind: str, tmp_path: Path) -> None:
    convert: dict[str, Any] = {
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
        "polars categories": lambda frame: pl.from_pandas(frame).with_columns(pl.col("state").cast(pl.Categorical)),
        "pandas nullable": lambda frame: frame.convert_dtypes(),
        "pandas categories": lambda frame: frame.astype({"state": pd.CategoricalDtype(["none", "busy", "calm"])}),
        "pandas index": lambda frame: frame.set_index(["state", "action"]),
        "arrow": pa.Table.from_pandas,
        "dicts": lambda frame: frame.to_dict("records"),
        "columns": lambda frame: frame.to_dict("list"),
    }
    tables = tuple(map(convert[kind], (moves(), costs()))) if kind in convert else files(tmp_path, kind)
    assert CMDP.from_tables(tables[0], tables[1], {"overtime": 0.3}) == by_hand()


def test_counts_and_costs_by_move_are_what_they_say() -> None:
    counted = moves().assign(count=[8, 2, 7, 3, 3, 1]).drop(columns="probability")
    assert CMDP.from_tables(counted, costs(), {"overtime": 0.3}) == by_hand()
    by_move = moves().merge(costs()).drop(columns="probability").sample(frac=1.0, random_state=0)
    model = CMDP.from_tables(moves(), by_move, {"overtime": 0.3})
    assert model.move_costs is not None
    np.testing.assert_allclose(model.costs, by_hand().costs)


def test_large_tables_are_sparse_and_numbers_as_names_are_in_order() -> None:
    S = 1000
    order = np.random.default_rng(0).permutation(S)
    table = {"state": order, "action": ["go"] * S, "next_state": (order + 1) % S, "probability": [1.0] * S}
    model = CMDP.from_tables(table, table | {"steps": order % 2}, initial=7)
    assert model.is_sparse
    assert model.state_names == tuple(map(str, range(S)))
    assert model.initial[7] == 1.0
    assert model.costs[0, :, 0].tolist() == [0.0, 1.0] * (S // 2)
    assert model.matrix.indices.tolist() == [*range(1, S), 0]


def test_names_that_look_like_numbers_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "moves.csv"
    path.write_text("state,action,next_state,probability\n007,x,7,1\n7,x,007,1\n")
    priced = tmp_path / "costs.csv"
    priced.write_text("state;action;price\n007;x;1\n7;x;3\n")
    model = CMDP.from_tables(path, priced)
    assert set(model.state_names) == {"007", "7"}


@pytest.mark.parametrize(
    "names",
    [
        (True, False),
        (10**30, 1),
        (2**64 - 1, -1),
        (0.5, 1.0),
        ((1, 2), (2, 1)),
        (dt.date(2024, 1, 1), dt.date(2024, 1, 2)),
    ],
)
def test_states_may_have_any_names(names: tuple[Any, Any]) -> None:
    called = dict(zip(("calm", "busy"), names, strict=True))
    rows = [
        [{column: called.get(value, value) for column, value in row.items()} for row in frame.to_dict("records")]
        for frame in (moves(), costs())
    ]
    model = CMDP.from_tables(rows[0], rows[1], {"overtime": 0.3}, initial=names[0])
    assert set(model.state_names) == {str(name).removesuffix(".0") for name in names}
    assert psconrl.solve(model).value == pytest.approx(psconrl.solve(by_hand()).value)


def test_the_start_is_a_name_or_probabilities_by_name() -> None:
    assert CMDP.from_tables(moves(), costs(), initial="busy").initial.tolist() == [0, 1]
    assert CMDP.from_tables(moves(), costs(), initial={"busy": 0.25, "calm": 0.75}).initial.tolist() == [0.75, 0.25]
    with pytest.raises(InvalidArgumentError, match="busy"):
        CMDP.from_tables(moves(), costs(), initial="bussy")


def changed(rows: list[tuple[Any, ...]], k: int, column: int, value: Any) -> list[tuple[Any, ...]]:
    return [(*row[:column], value, *row[column + 1 :]) if i == k else row for i, row in enumerate(rows)]


WRONG: dict[str, tuple[Any, Any, str]] = {
    "a missing column": (moves().drop(columns="next_state"), costs(), "next_state"),
    "no probabilities": (moves().drop(columns="probability"), costs(), "probability"),
    "a move twice": (moves([*MOVES[:2], MOVES[0], *MOVES[2:]]), costs(), "row 3.*row 1"),
    "a cost twice": (moves(), costs([*COSTS, COSTS[1]]), "row 5.*row 2"),
    "a sum of 0.9": (moves(changed(MOVES, 4, 3, 0.4)), costs(), "row 4.*busy.*one nurse.*0.9"),
    "a negative probability": (moves(changed(MOVES, 1, 3, -0.2)), costs(), "row 2"),
    "an unknown next state": (moves(changed(MOVES, 5, 2, "closed")), costs(), "row 6.*closed"),
    "an unknown state of costs": (moves(), costs(changed(COSTS, 3, 0, "closed")), "row 4.*closed"),
    "an unknown action": (moves(), costs(changed(COSTS, 1, 1, "three")), "row 2.*three"),
    "an unavailable action": (moves(), costs(changed(COSTS, 0, 1, "rest")), "row 1.*rest"),
    "no cost": (moves(), costs(COSTS[:3]), "busy.*rest"),
    "NaN": (moves(), costs(changed(COSTS, 2, 3, np.nan)), "row 3.*overtime"),
    "infinity": (moves(), costs(changed(COSTS, 2, 2, np.inf)), "row 3.*waiting"),
    "text": (moves(), costs(changed(COSTS, 2, 2, "a lot")), "row 3.*waiting.*a lot"),
    "a missing name": (moves(changed(MOVES, 1, 2, None)), costs(), "row 2.*next_state"),
    "no rows": (moves([]), costs(), "transitions"),
    "no costs": (moves(), costs()[["state", "action"]], "costs"),
    "no table": (42, costs(), "transitions"),
    "a column alone": (moves()["state"], costs(), "transitions"),
    "actions that differ in each row": (
        pd.DataFrame({"state": range(20_000), "action": range(20_000), "next_state": range(20_000), "count": 1}),
        costs(),
        "pairs",
    ),
    "a million states": (
        pd.DataFrame({"state": range(10**6), "action": 0, "next_state": range(10**6), "count": 1}),
        costs(),
        "1,000,000",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tables_are_refused_in_one_line_that_says_where(name: str) -> None:
    transitions, priced, pattern = WRONG[name]
    with pytest.raises(PsconrlError) as caught:
        CMDP.from_tables(transitions, priced, {"overtime": 0.3})
    message = str(caught.value)
    assert re.search(pattern, message), message
    assert "\n" not in message
    assert len(message) < 300


FILES: dict[str, tuple[Callable[[bytes], bytes], str | None]] = {
    "byte order mark": (lambda data: b"\xef\xbb\xbf" + data, None),
    "Windows": (lambda data: data.replace(b"\n", b"\r\n"), None),
    "blank lines": (lambda data: data.replace(b"\n", b"\n\n"), None),
    "semicolons": (lambda data: data.replace(b",", b";"), None),
    "bars": (lambda data: data.replace(b",", b"|"), None),
    "spaces after commas": (lambda data: data.replace(b",", b", "), None),
    "an index of pandas": (lambda data: re.sub(rb"(?m)^(?=calm|busy)", b"7,", b"," + data), None),
    "nothing": (lambda data: b"", "Empty"),
    "a header alone": (lambda data: data.splitlines(True)[0], "no rows"),
    "UTF-16": (lambda data: data.decode().encode("utf-16"), "UTF-8"),
    "Latin 1": (lambda data: data.replace(b"calm", b"calm\xe9"), "UTF-8"),
    "a short row": (lambda data: data + b"calm,one nurse\n", "row 7 .*2 columns.*4"),
    "a title": (lambda data: b"# my table\n" + data, "row 1 .*4 columns.*my table"),
    "decimal commas": (lambda data: data.replace(b",", b";").replace(b".", b","), "row 1.*0,8.*decimal point"),
    "spaces": (lambda data: data.replace(b",", b" "), "no column 'state'"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_as_people_have_them_are_read_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    change, pattern = FILES[name]
    path = tmp_path / "transitions.csv"
    moves().to_csv(path, index=False)
    path.write_bytes(change(path.read_bytes()))
    if pattern is None:
        assert CMDP.from_tables(path, costs(), {"overtime": 0.3}) == by_hand()
        return
    with pytest.raises(PsconrlError) as caught:
        CMDP.from_tables(path, costs())
    message = str(caught.value)
    assert re.search(pattern, message), message
    assert "\n" not in message


def test_text_late_in_a_file_is_told_by_its_row(tmp_path: Path) -> None:
    n = 200_000
    states = np.arange(n) % 50_000
    table = pd.DataFrame({"state": states, "action": np.arange(n) // 50_000, "price": np.arange(n)}).astype(object)
    table.loc[n - 3, "price"] = "dear"
    table.to_csv(tmp_path / "costs.csv", index=False)
    transitions = table[["state", "action"]].assign(next_state=states, probability=1.0)
    with pytest.raises(InvalidModelError, match=f"row {n - 2} .*dear"):
        CMDP.from_tables(transitions, tmp_path / "costs.csv")


def test_a_folder_or_a_toml_file_is_a_model(tmp_path: Path) -> None:
    files(tmp_path, "csv")
    assert CMDP.load(tmp_path, thresholds={"overtime": 0.3}) == by_hand()
    told = 'transitions = "transitions.csv"\ncosts = "costs.csv"\ninitial = "busy"\n[limits]\novertime = 0.3\n'
    (tmp_path / "model.toml").write_text(told)
    assert CMDP.load(tmp_path / "model.toml") == CMDP.load(tmp_path) == by_hand().replace(initial=1)
    (tmp_path / "model.toml").write_text("transitions = 3\n")
    with pytest.raises(ModelFileError, match="transitions"):
        CMDP.load(tmp_path)
    with pytest.raises(ModelFileError, match="neither transitions"):
        CMDP.load(tmp_path / "..")
