"""Rows that are off by rounding are cleaned; what is more than rounding is refused."""

import numpy as np
import pytest
from scipy import sparse

from psconrl import CMDP
from psconrl.errors import InvalidModelError


@pytest.mark.parametrize("make", [lambda p: p, lambda p: sparse.csr_array(p.reshape(-1, 2))])
def test_rounding_is_cleaned(make) -> None:  # type: ignore[no-untyped-def]
    costs = np.zeros((1, 2, 1))
    nearly = np.array([[[1.0 - 1e-9, 0.0]], [[1.0 + 3e-15, -3e-15]]])
    found = CMDP(make(nearly), costs).to_dense().transitions
    np.testing.assert_allclose(found, [[[1.0, 0.0]], [[1.0, 0.0]]], rtol=0, atol=1e-14)
    assert (found >= 0).all()
    for wrong in (np.array([[[1.0 - 1e-5, 0.0]], [[1.0, 0.0]]]), np.array([[[1.0, 0.0]], [[1.0 + 1e-9, -1e-9]]])):
        with pytest.raises(InvalidModelError):
            CMDP(make(wrong), costs)
