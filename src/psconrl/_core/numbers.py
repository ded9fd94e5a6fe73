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


def short(x: float | None, digits: int = 2, zero: float = 0.005) -> str:
    """A number for a dense table.

    Args:
        x: any number; None reads "-".
        digits: significant digits of numbers below 10^(digits - 1); larger ones are whole.
        zero: what is smaller is written as 0.

    Returns:
        For instance "1,234", "0.78".
    """
    if x is None:
        return "-"
    whole = abs(x) >= 10.0 ** (digits - 1)
    text = f"{x:,.0f}" if whole else f"{x:.{digits}g}" if abs(x) >= zero else "0"
    return "0" if text == "-0" else text


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


def format_interval(quantity: Mapping[str, float | None]) -> str:
    """A mean with its interval, three significant digits each.

    Args:
        quantity: "mean", "low" and "high"; None where there is no such number.

    Returns:
        For instance "12 [9.5, 14]"; "-" without a mean.
    """
    mean, low, high = (short(quantity[name], digits=3, zero=1e-6) for name in ("mean", "low", "high"))
    return "-" if quantity["mean"] is None else f"{mean} [{low}, {high}]"


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
