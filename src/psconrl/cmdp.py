"""The constrained Markov decision process: states, actions, transitions, m + 1 costs and m limits.

    p(s' | s, a)       transitions
    c_0(s, a)          the main cost, to be minimised on long-run average
    c_i(s, a)          the auxiliary costs, whose long-run averages must stay <= tau_i, i = 1..m

Costs may depend on the move that really happened, c_i(s, a, s'); planning then uses the means
c_i(s, a) = sum_s' p(s' | s, a) c_i(s, a, s'), simulation charges the move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from psconrl._core import checks, display
from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from psconrl.problem import Problem, Units

if TYPE_CHECKING:
    from psconrl import gymnasium_table
    from psconrl.io import exploration, files, tables, toolbox_arrays
else:
    exploration = lazy_import("psconrl.io.exploration")
    tables = lazy_import("psconrl.io.tables")
    toolbox_arrays = lazy_import("psconrl.io.toolbox_arrays")
    files = lazy_import("psconrl.io.files")
    gymnasium_table = lazy_import("psconrl.gymnasium_table")

DENSE_STATES = 400
"""Models that are built or read with more states than this are sparse unless asked otherwise."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the states of a gridworld lie, so that maps and policies can be drawn.

    rows: the map as text; agent: (S, 2) row and column of the agent in each state; box: the same for
    the pushable box, None where there is none.
    """

    rows: tuple[str, ...]
    agent: Ints
    box: Ints | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(checks.texts(self.rows, "layout.rows")))
        for name in ("agent", "box"):
            given = getattr(self, name)
            if given is not None or name == "agent":
                array = checks.whole_numbers(given, f"layout.{name}")
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    def as_json(self) -> dict[str, Any]:
        """The layout as JSON values."""
        said: dict[str, Any] = {"rows": list(self.rows), "agent": self.agent.tolist()}
        return said if self.box is None else said | {"box": self.box.tolist()}

    @staticmethod
    def from_json(said: dict[str, Any]) -> Layout:
        """The inverse of `as_json`."""
        return Layout(tuple(said["rows"]), said["agent"], said.get("box"))

    def restrict(self, states: Ints) -> Layout:
        """The layout of the given states only."""
        return Layout(self.rows, self.agent[states], None if self.box is None else self.box[states])


class CMDP:
    """An immutable, validated constrained Markov decision process.

    Args:
        transitions: (S, A, S) array, or a scipy sparse (S * A, S) matrix with rows in state-major order
            (row s * A + a); sparse stays sparse.
        costs: (m + 1, S, A); or one cost per move: (m + 1, S, A, S) for dense transitions, m + 1 sparse
            (S * A, S) matrices or an (m + 1, nnz) array in the order of the stored entries for sparse ones.
            costs[0] is minimised.
        thresholds: tau, (m,): costs[i] must stay <= thresholds[i - 1] on long-run average; or {cost name: limit}.
        initial: the start state (number or name), or a distribution over states.
        state_names, action_names, cost_names: distinct names; "0", "1", ... and "c0", "c1", ... if left out.
        layout: for gridworlds, the position of each state on the map.
        available: a mask (S, A) of the actions that can be taken in each state, at least one; all if left out.
            Transitions and costs of the others are ignored.
        durations: (S, A), the expected time until the next decision, for semi-Markov models; 1 if left out. Costs are
            then per stay, and averages, limits and shadow prices are per unit of time.

    Attributes:
        S, A, m: numbers of states, actions and constraints.
        costs: the mean costs, (m + 1, S, A). move_costs: costs per move as given, else None.
        thresholds, initial, state_names, action_names, cost_names, layout, transitions: as given, read-only;
            (m,) thresholds, (S,) initial; rows of actions that are not available are zero.
        available: (S, A), True where an action can be taken. pairs: those pairs, numbered.
        durations: (S, A), or None where all steps take one unit of time.

    >>> coin = CMDP([[[0.5, 0.5]], [[1.0, 0.0]]], costs=[[[0.0], [3.0]]])
    >>> coin
    CMDP(S=2, A=1, m=0, dense)
    """

    S: int
    A: int
    m: int
    transitions: Floats | sparse.csr_array
    costs: Floats
    move_costs: Floats | None
    thresholds: Floats
    initial: Floats
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    cost_names: tuple[str, ...]
    layout: Layout | None
    pairs: Pairs
    durations: Floats | None

    def __init__(
        self,
        transitions: ArrayLike | sparse.sparray | sparse.spmatrix,
        costs: ArrayLike | Sequence[sparse.sparray | sparse.spmatrix],
        thresholds: ArrayLike | Mapping[str, float] = (),
        *,
        initial: int | str | ArrayLike = 0,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        cost_names: Sequence[str] | None = None,
        layout: Layout | None = None,
        available: ArrayLike | None = None,
        durations: ArrayLike | None = None,
    ) -> None:
        tau = checks.thresholds(thresholds, cost_names)
        m = len(tau)
        p: Floats | sparse.csr_array
        if sparse.issparse(transitions):
            p, mask = checks.sparse_transitions(transitions, available)
            S, A = p.shape[1], p.shape[0] // p.shape[1]
            mean, move = checks.sparse_costs(costs, p, transitions, m, mask)
        else:
            p, mask = checks.dense_transitions(transitions, available)
            S, A = p.shape[:2]
            mean, move = checks.dense_costs(costs, p, m, mask)
        names = checks.names(state_names, S, "state_names", "")
        fields: dict[str, Any] = {
            "S": S,
            "A": A,
            "m": m,
            "transitions": p,
            "costs": mean,
            "move_costs": move,
            "thresholds": tau,
            "initial": checks.initial(initial, S, names),
            "state_names": names,
            "action_names": checks.names(action_names, A, "action_names", ""),
            "cost_names": checks.names(cost_names, m + 1, "cost_names", "c"),
            "layout": layout,
            "pairs": Pairs.all(S, A) if mask is None else Pairs(mask),
            "durations": None if durations is None else checks.durations(durations, S, A, mask),
        }
        if layout is not None:
            if not isinstance(layout, Layout):
                raise InvalidTypeError(f"layout is {checks.short_repr(layout)}; it must be a psconrl.cmdp.Layout")
            checks.layout(layout.agent, "layout.agent", S)
            checks.layout(layout.box, "layout.box", S)
        for value in fields.values():
            for array in _arrays_in(value):
                array.setflags(write=False)
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a CMDP is immutable; use cmdp.replace({name}=...) to get a changed copy")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a CMDP is immutable")

    def __repr__(self) -> str:
        kind = f"sparse, {self.matrix.nnz} transitions" if self.is_sparse else "dense"
        some = "" if self.pairs.every else f"{self.pairs.K} of {self.S * self.A} pairs, "
        return f"CMDP(S={self.S}, A={self.A}, m={self.m}, {some}{kind})"

    def _repr_html_(self) -> str:
        limits = ["", *(f"{tau:g}" for tau in self.thresholds)]
        costs = self.pairs.taken(self.costs)
        rows = zip(self.cost_names, limits, costs.min(axis=1), costs.max(axis=1), strict=True)
        return display.html_table(repr(self), ("cost", "limit", "least", "most"), rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CMDP):
            return NotImplemented
        mine, theirs = self.to_arrays(), other.to_arrays()
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[k], theirs[k]) for k in mine)

    def __hash__(self) -> int:
        return hash((self.S, self.A, self.thresholds.tobytes(), self.costs.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return CMDP.from_stored, (self.to_arrays(),)

    @property
    def available(self) -> Bools:
        """Which actions can be taken in each state, (S, A)."""
        return self.pairs.available

    @property
    def uniform(self) -> Floats:
        """The policy (S, A) that takes every available action with the same probability."""
        return self.pairs.uniform

    @property
    def is_sparse(self) -> bool:
        """Whether the transitions are kept as a sparse matrix."""
        return not isinstance(self.transitions, np.ndarray)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The transitions as a sparse (S * A, S) matrix, row s * A + a; computed once."""
        if isinstance(self.transitions, np.ndarray):
            matrix = sparse.csr_array(self.transitions.reshape(self.S * self.A, self.S))
            for array in _arrays_in(matrix):
                array.setflags(write=False)
            return matrix
        return self.transitions

    def to_dense(self) -> CMDP:
        """The same model with transitions as an (S, A, S) array."""
        if not self.is_sparse:
            return self
        shape = (self.S, self.A, self.S)
        arrays = 1 if self.move_costs is None else self.m + 2
        checks.fits_memory(8.0 * math.prod(shape) * arrays, f"a dense array {shape}", "keep the model sparse")
        costs: Floats = self.costs
        if self.move_costs is not None:
            costs = np.stack([checks.with_data(self.matrix, c).toarray().reshape(shape) for c in self.move_costs])
        return self.replace(transitions=self.matrix.toarray().reshape(shape), costs=costs)

    def to_sparse(self) -> CMDP:
        """The same model with transitions as a sparse matrix."""
        if self.is_sparse:
            return self
        costs = self.costs
        if self.move_costs is not None:
            moves = self.matrix.tocoo()
            costs = self.move_costs.reshape(self.m + 1, self.S * self.A, self.S)[:, moves.row, moves.col]
        return self.replace(transitions=self.matrix, costs=costs)

    def replace(self, **changes: Any) -> CMDP:
        """A copy with some constructor arguments changed, for instance `replace(thresholds=[0.3])`."""
        arguments: dict[str, Any] = {
            "transitions": self.transitions,
            "costs": self.costs if self.move_costs is None else self.move_costs,
            "thresholds": self.thresholds,
            "initial": self.initial,
            "state_names": self.state_names,
            "action_names": self.action_names,
            "cost_names": self.cost_names,
            "layout": self.layout,
            "available": None if self.pairs.every else self.available,
            "durations": self.durations,
        }
        unknown = changes.keys() - arguments.keys()
        if unknown:
            raise InvalidTypeError(f"replace() takes {', '.join(arguments)}; not {', '.join(sorted(unknown))}")
        return CMDP(**(arguments | changes))

    @property
    def time_step(self) -> float:
        """The time between the steps of `uniformized`: the least duration; 1 without durations."""
        return 1.0 if self.durations is None else float(self.pairs.taken(self.durations).min())

    def uniformized(self) -> CMDP:
        """A model with equal steps, `time_step` apart, that has the same long-run averages per unit of time.

        Its costs are per unit of time. A randomised policy of it divides time among the actions of a state; one of the
        model itself divides decisions. Deterministic policies are the same in both.
        """
        if self.durations is None:
            return self
        share = (self.time_step / self.durations).ravel()
        stay = sparse.csr_array(
            (
                np.where(self.available.ravel(), 1.0 - share, 0.0),
                (np.arange(len(share)), np.arange(len(share)) // self.A),
            ),
            shape=self.matrix.shape,
        )
        transitions = sparse.csr_array(self.matrix.multiply(share[:, np.newaxis]) + stay)
        model = self.replace(transitions=transitions, costs=self.costs / self.durations, durations=None)
        return model if self.is_sparse else model.to_dense()

    def problem(
        self, costs: Literal["known", "estimated"] = "estimated", *, cost_ranges: ArrayLike | None = None
    ) -> Problem:
        """What a learner may know of this model; its costs must lie in [0, 1], or in the ranges that are declared.

        cost_ranges: (low, high) of each cost; `cmdp.cost_ranges` are those of the model.
        """
        if not isinstance(costs, str) or costs not in ("known", "estimated"):
            raise InvalidArgumentError(f'costs is {checks.short_repr(costs)}; it must be "known" or "estimated"')
        ranges = None if cost_ranges is None else checks.cost_ranges(cost_ranges, self.m + 1)
        require_ranges(self, ranges)
        known = None
        if costs == "known":
            # Means of costs in a range may leave it by rounding.
            known = self.costs.clip(*((0.0, 1.0) if ranges is None else ranges.T[:, :, np.newaxis, np.newaxis]))
        return Problem(
            self.S,
            self.A,
            self.thresholds,
            known,
            cost_ranges=ranges,
            state_names=self.state_names,
            action_names=self.action_names,
            cost_names=self.cost_names,
            available=None if self.pairs.every else self.available,
        )

    @property
    def cost_ranges(self) -> Floats:
        """The smallest and the largest value of each cost, (m + 1, 2); a constant cost gets a range of width one."""
        flat = self.pairs.taken(self.costs) if self.move_costs is None else self.move_costs.reshape(self.m + 1, -1)
        if isinstance(self.transitions, np.ndarray) and self.move_costs is not None:
            flat = flat[:, self.transitions.ravel() > 0]  # impossible moves do not count
        least, most = flat.min(axis=1), flat.max(axis=1)
        more = np.maximum(1.0, np.abs(least) * 1e-9)  # what is added to a large number must not be lost
        return np.stack([least, np.where(most > least, most, least + more)], axis=1)

    def rescaled(self, cost_ranges: ArrayLike | None = None) -> CMDP:
        """The same model with each cost, and its threshold, brought to [0, 1] by shift and scale.

        cost_ranges: (low, high) of each cost, which become 0 and 1; those of the model if left out.
        """
        ranges = self.cost_ranges if cost_ranges is None else checks.cost_ranges(cost_ranges, self.m + 1)
        require_ranges(self, ranges)
        costs, units = self.costs if self.move_costs is None else self.move_costs, Units.of(ranges)
        return self.replace(
            costs=units.normalized(costs).clip(0.0, 1.0), thresholds=units.normalized_limits(self.thresholds)
        )

    def policy_matrix(self, policy: ArrayLike) -> sparse.csr_array:
        """The (S, S) transition matrix of the chain that a stationary policy (S, A) induces."""
        return policy_chain(self.matrix, self.check_policy(policy))

    def check_policy(self, policy: ArrayLike) -> Floats:
        """The policy as an (S, A) array of floats.

        InvalidModelError where a row is not a distribution over the actions that are available.
        """
        pi = checks.policy(policy, self.S, self.A)
        if not self.pairs.every:
            wrong = np.argwhere((pi > 0) & ~self.available)
            if len(wrong):
                s, a = wrong[0]
                said = checks.unavailable(self.state_names[s], self.action_names[a])
                raise InvalidModelError(f"policy[{s}, {a}] is {pi[s, a]:.6g}, but {said}; it must be 0")
        return pi

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that hold the whole model: what the .npz file stores."""
        arrays: dict[str, NDArray[Any]] = {}
        if isinstance(self.transitions, np.ndarray):
            arrays["transitions"] = self.transitions
        else:
            arrays |= {name: getattr(self.transitions, name) for name in ("data", "indices", "indptr")}
        arrays["costs"] = self.costs if self.move_costs is None else self.move_costs
        arrays["thresholds"] = self.thresholds
        arrays["initial"] = self.initial
        if not self.pairs.every:
            arrays["available"] = self.available
        if self.durations is not None:
            arrays["durations"] = self.durations
        for name in ("state_names", "action_names", "cost_names"):
            arrays[name] = np.array(getattr(self, name), dtype=np.str_)
        if self.layout is not None:
            arrays["layout_rows"] = np.array(self.layout.rows, dtype=np.str_)
            arrays["layout_agent"] = self.layout.agent
            if self.layout.box is not None:
                arrays["layout_box"] = self.layout.box
        return arrays

    @classmethod
    def from_stored(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """The inverse of `to_arrays`; thresholds, initial, available and names may be missing."""
        sparse_parts = {"data", "indices", "indptr", "costs"}
        if not isinstance(arrays, Mapping) or not (
            {"transitions", "costs"} <= set(arrays) or sparse_parts <= set(arrays)
        ):
            raise InvalidModelError("there must be arrays of the names that to_arrays gives")
        odd = [key for key, value in arrays.items() if not isinstance(value, np.ndarray)]
        if odd:
            raise InvalidModelError(f"{checks.short_repr(odd[0])} must be an array, as to_arrays gives it")
        if "transitions" in arrays:
            transitions: Any = arrays["transitions"]
        else:
            parts = [arrays[name] for name in ("data", "indices", "indptr")]
            checks.csr_parts(*parts)
            rows = len(parts[2]) - 1
            S = _states_of(arrays, rows)
            try:
                transitions = sparse.csr_array(tuple(parts), shape=(rows, S))
                transitions.check_format(full_check=True)
            except ValueError as error:
                raise InvalidModelError(f"data, indices and indptr do not make a CSR matrix: {error}") from None
        layout = None
        if "layout_rows" in arrays:
            if "layout_agent" not in arrays:
                raise InvalidModelError("has no array 'layout_agent', which 'layout_rows' needs")
            rows_text = tuple(_texts(arrays, "layout_rows"))
            layout = Layout(rows_text, arrays["layout_agent"], arrays.get("layout_box"))
        names = {key: _texts(arrays, key) for key in ("state_names", "action_names", "cost_names") if key in arrays}
        return cls(
            transitions,
            arrays["costs"],
            arrays.get("thresholds", ()),
            initial=arrays.get("initial", 0),
            layout=layout,
            available=arrays.get("available"),
            durations=arrays.get("durations"),
            **names,
        )

    @classmethod
    def from_arrays(
        cls,
        transitions: Any,
        rewards: Any = None,
        costs: Any = (),
        thresholds: ArrayLike | Mapping[str, float] = (),
        **names: Any,
    ) -> CMDP:
        """Build a model from arrays in the layouts of MDP toolboxes, where the action comes first.

        Args:
            transitions: (A, S, S), or a list of A sparse (S, S) matrices; sparse stays sparse.
            rewards: what is to be maximised on long-run average: the main cost is minus the rewards. An array (S,),
                (S, A) or (A, S, S), or a list of A sparse (S, S) matrices.
            costs: a list of arrays in the same layouts. With rewards, these are the m auxiliary costs; without,
                costs[0] is the main cost, to be minimised.
            thresholds: (m,), the limits of the auxiliary costs.
            names: initial, state_names, action_names, cost_names, layout and available, as for CMDP.

        >>> P = [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]  # action "run", action "repair"
        >>> profit, repairs = [1.0, 0.2], [[0, 1], [0, 1]]
        >>> CMDP.from_arrays(P, profit, [repairs], [0.05], action_names=["run", "repair"])
        CMDP(S=2, A=2, m=1, dense)
        """
        return toolbox_arrays.from_toolbox_arrays(transitions, rewards, costs, thresholds, names)

    @classmethod
    def from_tables(
        cls,
        transitions: Any,
        costs: Any,
        thresholds: ArrayLike | Mapping[str, float] = (),
        *,
        initial: Any = None,
        max_states: int = 100_000,
    ) -> CMDP:
        """Build a model from two tables: one row per move, and one row of costs per state and action, or per move.

        A table is anything with the Arrow interface (pandas, polars, duckdb, pyarrow), a list of dicts, a dict of
        columns, or the path of a CSV or Parquet file. Actions without rows in a state are not available there. Names
        that are whole numbers are sorted; others keep the order in which they first appear.

        Args:
            transitions: columns state, action, next_state, and probability or count.
            costs: columns state, action, next_state if costs belong to moves, and one column per cost. The first is
                minimised.
            thresholds: limits by cost name, where costs without a limit are left out; or a list, one per cost after the
                first.
            initial: the name of the start state, probabilities by name, or a distribution (S,). The state of the first
                row if left out.
            max_states: more states than this are refused, as a mistake in the column.

        Returns:
            The model.

        Raises:
            InvalidModelError: a table with a mistake; the message names the row, the rule and the remedy.
            ModelFileError: a file that cannot be read.

        >>> moves = [("idle", "wait", "idle", 0.5), ("idle", "wait", "busy", 0.5), ("busy", "serve", "idle", 1.0)]
        >>> columns = "state", "action", "next_state", "probability"
        >>> prices = [{"state": "idle", "action": "wait", "delay": 0}, {"state": "busy", "action": "serve", "delay": 2}]
        >>> CMDP.from_tables([dict(zip(columns, move)) for move in moves], prices)
        CMDP(S=2, A=2, m=0, 2 of 4 pairs, dense)
        """
        return tables.from_tables(transitions, costs, thresholds, initial, max_states)

    @classmethod
    def from_function(
        cls,
        initial: Any,
        actions: Callable[[Any], Iterable[Hashable]],
        step: Callable[[Any, Any], Iterable[tuple[float, Hashable, Any]]],
        thresholds: ArrayLike | Mapping[str, float] = (),
        *,
        cost_names: Sequence[str] | None = None,
        max_states: int = 100_000,
        progress: Callable[[int, int], None] | None = None,
    ) -> CMDP:
        """Build a model from two functions, on the states that can be reached from the start.

        States are any hashable values.

        Args:
            initial: the start state, or a table {state: probability}.
            actions: actions(state) gives the actions that are available in a state.
            step: step(state, action) gives (probability, next_state, costs) for each move; costs are m + 1 numbers, the
                main cost first, or one number where there are no limits.
            thresholds: as for CMDP; limits by name give the costs these names, after "c0".
            cost_names: names of the costs.
            max_states: the search ends with an error when it has found more states than this.
            progress: progress(done, found) is called every thousand states.

        Returns:
            The model; states and actions are named by their text, str(state).

        Raises:
            InvalidModelError: a move with a mistake; the message names state and action.
            InvalidArgumentError: more than max_states states.

        >>> def step(level, action):  # a stock of at most 2: somebody may come and buy one
        ...     if action == "order":
        ...         return [(1.0, 2, 3.0)]
        ...     return [(0.5, level, 0.0), (0.5, level - 1, 0.0)] if level else [(1.0, 0, 1.0)]
        >>> CMDP.from_function(2, lambda level: ["wait", "order"], step)
        CMDP(S=3, A=2, m=0, dense)
        """
        return exploration.from_function(initial, actions, step, thresholds, cost_names, max_states, progress)

    @classmethod
    def from_rates(
        cls,
        rates: ArrayLike | sparse.sparray | sparse.spmatrix,
        cost_rates: ArrayLike,
        thresholds: ArrayLike | Mapping[str, float] = (),
        **names: Any,
    ) -> CMDP:
        """Build a model of a process in continuous time: a decision after every jump, averages per unit of time.

        Args:
            rates: (S, A, S), or a sparse (S * A, S) matrix: rates of jumps to other states. Its diagonal, -sum in a
                generator, is ignored. A state without jumps is never left.
            cost_rates: (m + 1, S, A), costs per unit of time.
            thresholds: limits on long-run averages per unit of time.
            names: initial, state_names, action_names, cost_names and available, as for CMDP.

        Returns:
            The model of the jumps, with durations.

        Raises:
            InvalidModelError: negative or infinite rates, or arrays that do not fit.

        >>> line = CMDP.from_rates([[[0, 3]], [[1, 0]]], [[[0], [1]]])  # up at rate 3, down at rate 1
        >>> line.durations.ravel().round(3)
        array([0.333, 1.   ])
        """
        jumps, durations = checks.jumps(rates)
        per_time = checks.numbers(cost_rates, "cost_rates")
        if per_time.ndim != 3 or per_time.shape[1:] != durations.shape:
            raise InvalidModelError(
                f"cost_rates have shape {per_time.shape}; they must be (m + 1, S, A) = (m + 1, *{durations.shape})"
            )
        model = cls(jumps, per_time * durations, thresholds, durations=durations, **names)
        return model if sparse.issparse(rates) else model.to_dense()

    @classmethod
    def from_gymnasium(
        cls,
        env: Any,
        *,
        costs: Any = None,
        thresholds: ArrayLike | Mapping[str, float] = (),
        reward_range: tuple[float, float] | None = None,
    ) -> CMDP:
        """The model of a Gymnasium environment with a table `env.unwrapped.P`.

        A step into a terminal state leads to the start distribution instead. costs(s, a, s_next, reward, info) gives
        the costs of a move, main cost first; without it the main cost is minus the reward, scaled to [0, 1] by
        reward_range (by the range of the table if left out), and the others are those of `psconrl.AddCosts`, if it
        wraps the environment. Environments of psconrl return their own model. Actions that the table does not have in a
        state are not available there. Limits given by name also name the costs.
        """
        return gymnasium_table.from_table(env, costs, thresholds, reward_range)

    def save(self, path: str | Path) -> None:
        """Write the model to a .npz (arrays, never pickled), .json (for people), .drn or .umb file (model checkers)."""
        files.save(self, path)

    @classmethod
    def load(cls, path: str | Path, *, thresholds: Mapping[str, float] | None = None) -> CMDP:
        """Read a model from a .npz, .json, .drn or .umb file; ModelFileError says what is wrong with a bad one.

        A folder with transitions.csv and costs.csv (or .parquet), or a .toml file that names them, is a model as well;
        see `from_tables` and docs/howto/tables.md.

        thresholds: limits by name of the cost that replace those in the file, or add to them.
        """
        return files.load(path, thresholds)

    def with_limits(self, thresholds: Mapping[str, float]) -> CMDP:
        """The same model with some limits changed, by name of the cost."""
        limits = dict(zip(self.cost_names[1:], self.thresholds.tolist(), strict=True))
        return self.replace(thresholds=list((limits | checks.limits(thresholds, limits)).values()))


def require_model(value: object) -> None:
    """Refuse what is not a CMDP, with a hint."""
    if not isinstance(value, CMDP):
        raise InvalidTypeError(
            f"{checks.short_repr(value)} is not a CMDP; psconrl.make(name), CMDP.load(path) and CMDP(...) give one"
        )


def require_ranges(cmdp: CMDP, ranges: Floats | None) -> None:
    """Refuse a model whose moves cost what is outside of the ranges (m + 1, 2); of [0, 1] where there are none."""
    if cmdp.durations is not None:
        raise InvalidModelError(
            "learners count steps, but this model has durations; cmdp.uniformized() has equal steps"
        )
    costs = cmdp.costs if cmdp.move_costs is None else cmdp.move_costs
    if isinstance(cmdp.transitions, np.ndarray) and cmdp.move_costs is not None and ranges is not None:
        costs = np.where(cmdp.transitions > 0, costs, ranges[:, :1, np.newaxis, np.newaxis])  # impossible moves
    elif not cmdp.pairs.every and cmdp.move_costs is None and ranges is not None:
        costs = np.where(cmdp.available, costs, ranges[:, :1, np.newaxis])
    checks.within_ranges(costs, "costs", ranges)


def policy_chain(matrix: sparse.csr_array, policy: Floats) -> sparse.csr_array:
    """The (S, S) chain of a policy (S, A) in a model with transitions (S * A, S)."""
    S, A = policy.shape
    choose = sparse.csr_array((policy.ravel(), np.arange(S * A), np.arange(0, S * A + 1, A)), shape=(S, S * A))
    chain = sparse.csr_array(choose @ matrix)
    chain.eliminate_zeros()
    return chain


def _texts(arrays: dict[str, NDArray[Any]], key: str) -> list[str]:
    """Names or lines of text on file."""
    if arrays[key].ndim != 1:
        raise InvalidModelError(f"{key} must be a list of names, not an array of shape {arrays[key].shape}")
    return [str(text) for text in arrays[key]]


def _states_of(arrays: dict[str, NDArray[Any]], rows: int) -> int:
    """S of a sparse model on file: from costs (m + 1, S, A), the names, or the initial distribution."""
    if arrays["costs"].ndim == 3:
        return int(arrays["costs"].shape[1])
    for key in ("state_names", "initial"):
        if key in arrays and arrays[key].ndim == 1:
            return len(arrays[key])
    raise InvalidModelError(
        f"cannot tell the number of states of a sparse model with {rows} rows; "
        "add state_names, or initial as a distribution"
    )


def _arrays_in(value: object) -> list[NDArray[Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, sparse.csr_array):
        return [value.data, value.indices, value.indptr]
    return []
