"""Data for a page on where two arrays or two runs differ."""

from __future__ import annotations

from typing import Any

from strided.diagnosis.difference import Difference, DumpDifference, ValueDifference
from strided.diagnosis.difference.result import range_text

#: The most differing values that have a map, those that differ most; the others have only figures.
MOST_MAPS = 200
#: The most values that are listed, differing ones first.
MOST_LISTED = 20_000


def runs_data(found: DumpDifference) -> dict[str, Any]:
    """A row for each value that two runs have in common; the worst have maps."""
    listed = sorted(enumerate(found.values), key=lambda pair: pair[1].equal)[:MOST_LISTED]
    worst = sorted((value for value in found.values if value.difference), key=_severity, reverse=True)[:MOST_MAPS]
    mapped = set(map(id, worst))
    rows = [_row(value, turn, has_map=id(value) in mapped) for turn, value in listed]
    return {"values": rows, "left_out": len(found.values) - len(listed)}


def difference_data(found: Difference, *, has_map: bool = True) -> dict[str, Any]:
    """The figures of a difference, and with `has_map` how many elements of each cell differ."""
    data = {
        "a": found.a,
        "b": found.b,
        "equal": found.equal,
        "verdict": found.verdict,
        "figures": found.figures if found.max_abs or found.unordered else "",
        "unit": "mismatches by ULPs" if found.has_ulps else "mismatches by |a - b|",
        "histogram": [[range_text(one), one.count] for one in found.histogram],
        "count": found.count,
        "total": found.total,
        "nan": found.unordered,
        "share": found.count / max(1, found.total),
        "largest": {
            "absolute": f"{found.max_abs:.4g}" if found.has_ulps else f"{found.max_abs:,}",
            "relative": f"{found.max_rel:.3g}",
            "ulps": f"{found.max_ulp:,}" if found.has_ulps else "",
        },
        "order": {"ulps": float(found.max_ulp), "relative": min(float(found.max_rel), 1e308)},
        "patterns": [pattern.sentence for pattern in found.patterns],
    }
    if found.equal:
        return data
    data["mismatches"] = found.cells()
    return data | ({"map": _map_data(found)} if has_map and found.total > 1 else {})


def _map_data(found: Difference) -> dict[str, Any]:
    """For each cell of the map: its number of elements, how many differ, and how many of these are NaN."""
    cells = found.map.folding
    nan = found.map.flags
    return {
        "rows": cells.rows,
        "columns": cells.columns,
        "row_labels": cells.row_labels(),
        "column_labels": cells.column_labels(),
        "tile_rows": cells.tile_rows(),
        "tile_columns": cells.tile_columns(),
        "sizes": cells.sizes().reshape(-1).tolist(),
        "counts": found.map.counts.reshape(-1).tolist(),
        "nan": nan.reshape(-1).tolist() if nan is not None and nan.any() else None,
    }


def _row(value: ValueDifference, turn: int, *, has_map: bool) -> dict[str, Any]:
    row = {
        "name": value.name,
        "instruction": value.instruction,
        "problem": value.problem,
        "equal": value.equal,
        "files": [path.name for path in value.files],
        "turn": turn,
    }
    return row | ({} if value.difference is None else difference_data(value.difference, has_map=has_map))


def _severity(value: ValueDifference) -> tuple[bool, float]:
    """A sort key: differences in NaN are the worst, then by the share of elements that differ."""
    found = value.difference
    assert found is not None
    return found.unordered > 0, found.count / max(1, found.total)
