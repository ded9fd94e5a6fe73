"""Policies as tables: every format says the same."""

import json
from pathlib import Path

import pandas as pd
import pytest

import psconrl
from psconrl import InvalidArgumentError


def test_a_policy_on_file_is_its_table(tmp_path: Path) -> None:
    toy = psconrl.make("toy", tau=0.6).replace(state_names=["a, b|c", 'd "e"'], action_names=["50% & up_", "\\x"])
    for solution in (psconrl.solve(toy), psconrl.solve(toy, episode=3)):
        columns = solution.table()
        expected = pd.DataFrame(columns)
        for ending in ("csv", "parquet", "json", "md", "tex"):
            solution.save_policy(tmp_path / f"policy.{ending}")
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "policy.csv"), expected, check_dtype=False)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "policy.parquet"), expected)
        pd.testing.assert_frame_equal(pd.DataFrame(json.loads((tmp_path / "policy.json").read_text())), expected)
        for ending, words in (("md", r"| a, b\|c | 50% & up_ |"), ("tex", r"a, b|c & 50\% \& up\_ &")):
            text = (tmp_path / f"policy.{ending}").read_text()
            assert words in text
            assert sum("50" in line for line in text.splitlines()) == (expected.action == "50% & up_").sum()
    with pytest.raises(InvalidArgumentError, match="xlsx"):
        solution.save_policy(tmp_path / "policy.xlsx")
