"""Pairs: numbers, tables and slots against plain loops."""

import numpy as np
import pytest

from psconrl._core.pairs import Pairs

MASK = np.array([[False, True, True, False], [True, False, False, False], [True, True, True, True]])


@pytest.fixture
def pairs() -> Pairs:
    return Pairs(MASK)


def test_numbers(pairs: Pairs) -> None:
    listed = [(s, a) for s in range(3) for a in range(4) if MASK[s, a]]
    assert (pairs.K, pairs.every) == (7, False)
    assert [divmod(number, 4) for number in pairs.numbers.tolist()] == listed
    assert pairs.source.tolist() == [s for s, _ in listed]
    assert pairs.begin.tolist() == [0, 2, 3, 7]
    assert pairs.actions(np.array([1, 2, 4])).tolist() == [2, 0, 1]


def test_tables(pairs: Pairs) -> None:
    table = np.arange(24.0).reshape(2, 3, 4)
    taken = pairs.taken(table)
    np.testing.assert_array_equal(taken, table[:, MASK])
    assert taken.flags.c_contiguous
    np.testing.assert_array_equal(pairs.table(taken), np.where(MASK, table, 0.0))
    np.testing.assert_allclose(pairs.uniform, [[0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25] * 4])


def test_slots(pairs: Pairs) -> None:
    """In each state its pairs, then the first of them again and again."""
    assert pairs.slots.reshape(3, 4).tolist() == [[0, 1, 0, 0], [2, 2, 2, 2], [3, 4, 5, 6]]
    values = np.arange(7.0)
    slotted = pairs.in_slots(values)
    np.testing.assert_array_equal(slotted[pairs.places], values)
    np.testing.assert_array_equal(pairs.from_slots(slotted.reshape(3, 4)), pairs.table(values))
    narrow = Pairs(MASK[:2])
    assert narrow.slots.reshape(2, 2).tolist() == [[0, 1], [2, 2]]
    assert narrow.from_slots(np.ones((5, 2, 2))).shape == (5, 2, 4)


def test_all_of_them() -> None:
    pairs = Pairs.all(2, 3)
    assert (pairs.every, pairs.K, pairs.begin.tolist()) == (True, 6, [0, 3, 6])
    values = np.arange(6.0)
    for same in (pairs.in_slots(values), pairs.table(values), pairs.taken(values.reshape(2, 3))):
        assert np.shares_memory(same, values)
    np.testing.assert_array_equal(pairs.slots, pairs.places)
