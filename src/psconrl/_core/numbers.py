"""Numbers as people read them: the formatters that tables, figures, reports and the command line share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

MINUS = "\N{MINUS SIGN}"
_ZERO = 1e-12
"""What rounding leaves of zero."""


def number(x: float) -> str:
    """A number with separated thousands and about four significant digits.

    Args:
        x: any float; nan reads n/a.

    Returns:
        For instance "1,234", "0.7751", "∞".
    """
    if not math.isfinite(x):
        return {math.inf: "∞", -math.inf: "-∞"}.get(x, "n/a")
    if abs(x) < _ZERO:
        return "0"
    if 1000 <= abs(x) < 1e8:
        return f"{x:,.0f}"
    return f"{x:.4g}"


def short(x: float | None) -> str:
    """A number for a dense table: whole from 10 on, two significant digits below; "-" for None."""
    if x is None:
        return "-"
    text = f"{x:,.0f}" if abs(x) >= 10 else f"{x:.2g}" if abs(x) >= 0.005 else "0"
    return "0" if text in ("-0", "0") else text


def format_mean_ci(quantity: Mapping[str, float | None] | None) -> str:
    """A mean with half the width of its interval, for a dense table.

    Args:
        quantity: "mean", "low" and "high"; None where there is no such number.

    Returns:
        For instance "12 ± 3"; the mean alone without an interval, "-" without a mean.
    """
    if quantity is None or quantity["mean"] is None:
        return "-"
    mean, low, high = (quantity[name] for name in ("mean", "low", "high"))
    if low is None or high is None:
        return short(mean)
    return f"{short(mean)} ± {short((high - low) / 2)}"


def axis_number(x: float) -> str:
    """A number on an axis: separated thousands, a true minus sign."""
    x += 0.0  # -0 is 0
    return with_minus(f"{x:,.0f}" if abs(x) >= 1000 else f"{x:g}")


def with_minus(text: str) -> str:
    """The text with true minus signs instead of hyphens."""
    return text.replace("-", MINUS)


def plural(n: int, noun: str) -> str:
    """A count with its noun: "1 run", "2,000 runs"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Names as in a sentence: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
