"""The reproduction of PSConRL's paper, arXiv 2309.15737: its experiments, figures and claims, made with psconrl.

    python -m reproduction --out results

Nothing here is part of the library: these modules use its public names alone, as anybody's study would.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Document = dict[str, Any]
"""The numbers of a table, as JSON values."""
