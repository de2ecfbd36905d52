"""Figures: percentiles that are values which occurred, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed; 0.0 of nothing."""
    return percentiles(values, (share,))[0]


def percentiles(values: Sequence[float], shares: Sequence[float]) -> list[float]:
    """The same for several shares, sorted once."""
    ordered = sorted(values)
    return [_ranked(ordered, share) for share in shares]


def _ranked(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * round(share * 10_000) // 10_000)
    return ordered[max(rank, 1) - 1]


def shown(value: object) -> str:
    """Three significant digits, thousands apart; text as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
