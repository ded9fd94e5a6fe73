"""The paper's bounds with their constants, to be set beside what was measured.

episodes            K_T <= sqrt(2 S A T log2 T)                                   (Ouyang et al. 2017, Lemma 1)
good event          (D + 1) sqrt(2 S A T log2 T) + 49 D S sqrt(A T log(A T))      sampled models that are feasible
infeasible samples  h (log S + 2) sqrt(T) + 1, h the hitting time of the uniform policy, which is executed then
theorem             the sum of the last two
feasibility         gamma >= D sqrt(14 S log(2 A T^2) / sqrt(T)), the premise of the feasibility lemma

The paper has its bound H on the hitting times of all policies where these formulas have D and h. H is infinite
as soon as some stationary policy can be made to leave a part of the model arbitrarily seldom, as in all environments
here. The diameter D is what the later version of the paper uses; but it says nothing about the uniform policy, whose
hitting time can be exponentially larger, so that term keeps h.
"""

import numpy as np
from numpy.typing import ArrayLike

from reproduction import Floats


def episodes_bound(S: int, A: int, T: ArrayLike) -> Floats:
    """The bound on the number of episodes until T."""
    t = np.maximum(np.asarray(T, dtype=np.float64), 2.0)
    return np.asarray(np.sqrt(2 * S * A * t * np.log2(t)))


def good_event_bound(S: int, A: int, T: ArrayLike, D: float) -> Floats:
    """The bound on the regret in episodes with a feasible sample, with the diameter for H."""
    t = np.maximum(np.asarray(T, dtype=np.float64), 2.0)
    return np.asarray((D + 1) * episodes_bound(S, A, t) + 49 * D * S * np.sqrt(A * t * np.log(A * t)))


def theorem_bound(S: int, A: int, T: ArrayLike, D: float, uniform_hitting: float) -> Floats:
    """The bound of Theorem 1 with the constants of its proof; see above for what stands for H."""
    t = np.maximum(np.asarray(T, dtype=np.float64), 2.0)
    return np.asarray(good_event_bound(S, A, t, D) + uniform_hitting * (np.log(S) + 2) * np.sqrt(t) + 1)


def feasibility_premise(S: int, A: int, T: int, D: float) -> float:
    """The least margin the feasibility lemma asks for, with the diameter for H."""
    return float(D * np.sqrt(14 * S * np.log(2 * A * T**2) / np.sqrt(T)))
