"""What a Parquet file would unfold to, found without unfolding it.

A column chunk is a row of pages; the head of each, a Thrift structure in the compact protocol, says how many values it
holds and how many bytes it unpacks to. Libraries believe these heads, and a few bytes may claim billions of values. So
the heads are read here first, with nothing but arithmetic. Only what psconrl writes is let through: plain values, no
dictionaries.
"""

from __future__ import annotations

from typing import Any

from psconrl.errors import PsconrlError

WEIGHTS = {"BYTE_ARRAY": 48}
"""Bytes that a value takes in memory while a column is read, with its levels and copies; texts."""
USUAL_WEIGHT = 16

_DATA_PAGE, _PLAIN, _RUNS = 0, 0, 3
_BOOLEANS, _WHOLE, _STRUCTURE, _BINARY = (1, 2), (3, 4, 5, 6), 12, 8
_DEEPEST = 4


class PagesError(PsconrlError, ValueError):
    """A Parquet file that is not of the plain kind that psconrl writes."""


def weight(content: bytes, metadata: Any) -> int:
    """Bytes of memory that reading the file takes, at most; metadata: its foot, as pyarrow has read it."""
    total = 0
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        for c in range(group.num_columns):
            column = group.column(c)
            values, unpacked = _chunk(content, column)
            if values != column.num_values:
                raise PagesError(f"column {column.path_in_schema} holds {values} values, not {column.num_values}")
            total += unpacked + values * WEIGHTS.get(column.physical_type, USUAL_WEIGHT)
    return total


def _chunk(content: bytes, column: Any) -> tuple[int, int]:
    """The numbers of values and of unpacked bytes in the pages of a column."""
    if column.has_dictionary_page:
        raise PagesError(f"column {column.path_in_schema} has a dictionary")
    at = column.data_page_offset
    end = at + column.total_compressed_size
    if not 0 < at <= end <= len(content):
        raise PagesError(f"column {column.path_in_schema} lies outside of the file")
    values = unpacked = 0
    while at < end:
        head, at = _structure(content, at, end)
        page: Any = head.get(5)
        plain = head.get(1) == _DATA_PAGE and isinstance(page, dict)
        if not plain or page.get(2) != _PLAIN or page.get(3) != _RUNS or page.get(4) != _RUNS:
            raise PagesError(f"column {column.path_in_schema} is not stored plainly")
        sizes = [head.get(2, -1), head.get(3, -1), page.get(1, -1)]
        if not all(isinstance(size, int) and 0 <= size < 2**31 for size in sizes) or at + sizes[1] > end:
            raise PagesError(f"column {column.path_in_schema} has a page of no proper size")
        unpacked += sizes[0]
        values += sizes[2]
        at += sizes[1]
    return values, unpacked


def _structure(content: bytes, at: int, end: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a structure by number: whole numbers and structures; others are skipped or refused."""
    found: dict[int, Any] = {}
    field = 0
    if depth > _DEEPEST:
        raise PagesError("a page's head is nested too deeply")
    while at < end:
        byte = content[at]
        at += 1
        if byte == 0:
            return found, at
        if byte >> 4:
            field += byte >> 4
        else:
            number, at = _varint(content, at, end)
            field = _signed(number)
        kind = byte & 15
        if kind in _BOOLEANS:
            found[field] = kind == 1
        elif kind in _WHOLE:
            number, at = _varint(content, at, end)
            found[field] = _signed(number)
        elif kind == _BINARY:
            length, at = _varint(content, at, end)
            at += length
        elif kind == _STRUCTURE:
            found[field], at = _structure(content, at, end, depth + 1)
        else:
            break
    raise PagesError("a page's head cannot be read")


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 64:
        byte = content[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise PagesError("a page's head cannot be read")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
