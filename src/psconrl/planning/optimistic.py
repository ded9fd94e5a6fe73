"""The best policy over all models in an element-wise confidence set, exactly.

UCRL-CMDP asks for min over (mu, p') of sum mu c_0 with p' in the set

    l(s, a, s') <= p'(s' | s, a) <= u(s, a, s'),     l = max(0, p_hat - radius),  u = min(1, p_hat + radius)

which is bilinear in (mu, p'). In q(s, a, s') = mu(s, a) p'(s' | s, a) it is linear: outflow equals inflow in
every state, q sums to one, costs are linear in q, and membership reads l mu <= q <= u mu. Here q = l mu + w:

    sum_s' w(s, a, s') = (1 - sum_s' l(s, a, s')) mu(s, a),      0 <= w(s, a, s') <= (u - l)(s, a, s') mu(s, a)

with the upper bound left out where the first row implies it. p' = q / mu is read off where mu > 0; pairs
that are not used get the member of the set nearest to p_hat.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl import _checks
from psconrl._checks import Floats
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidModelError

...
