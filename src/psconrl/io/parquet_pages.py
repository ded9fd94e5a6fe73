"""What a Parquet file would unfold to, found without unfolding it.

A column chunk is a row of pages; the head of each says how many values it holds and how many bytes it unpacks to.
Libraries believe these heads, and a few bytes may tell of billions. So the heads, and the foot of the file that
says where they are, are read here first, with nothing but arithmetic: both are Thrift structures in the compact
protocol. Only what psconrl writes is let through: one group of rows, plain values, no dictionaries.

(The library is not asked for the foot, as it ends the whole process when some numbers in it contradict each other.)
"""

from __future__ import annotations

import struct
from typing import Any

from psconrl.errors import PsconrlError

USUAL_WEIGHT, TEXT_WEIGHT = 16, 48
"""Bytes that a value takes in memory while a column is read, with its levels and copies."""

_MAGIC = b"PAR1"
_LARGEST_FOOT = 2**20
_DATA_PAGE, _PLAIN, _RUNS, _TEXT = 0, 0, 3, 6
_YES, _NO, _BYTE, _WHOLE, _BINARY, _LISTS, _STRUCTURE = 1, 2, 3, (4, 5, 6), 8, (9, 10), 12
_DEEPEST = 8


class PagesError(PsconrlError, ValueError):
    """A Parquet file that is not of the plain kind that psconrl writes."""


def weight(content: bytes) -> int:
    """Bytes of memory that reading the file takes, at most."""
    total = 0
    for column in _columns(content):
        name = b".".join(part for part in _get(column, 3, list) if isinstance(part, bytes)).decode("utf-8", "replace")
        values, unpacked = _chunk(content, column, name)
        if values != _get(column, 5, int):
            raise PagesError(f"column {name} holds {values} values, not {column[5]}")
        total += unpacked + values * (TEXT_WEIGHT if column.get(1) == _TEXT else USUAL_WEIGHT)
    return total


def _columns(content: bytes) -> list[dict[int, Any]]:
    """What the foot of the file says of each column."""
    if len(content) < 12 or content[:4] != _MAGIC or content[-4:] != _MAGIC:
        raise PagesError("it is not a whole Parquet file")
    (length,) = struct.unpack("<I", content[-8:-4])
    start = len(content) - 8 - length
    if length > _LARGEST_FOOT or start < 4:
        raise PagesError("it has no proper foot")
    foot, _ = _structure(content, start, len(content) - 8)
    rows, groups = _get(foot, 3, int), _get(foot, 4, list)
    if rows != 1 or len(groups) != 1 or not isinstance(groups[0], dict):
        raise PagesError(f"it has {rows} rows in {len(groups)} groups; a run has one")
    chunks = _get(groups[0], 1, list)
    if any(not isinstance(chunk, dict) or 1 in chunk for chunk in chunks):
        raise PagesError("a column lies in another file")
    return [_get(chunk, 3, dict) for chunk in chunks]


def _chunk(content: bytes, column: dict[int, Any], name: str) -> tuple[int, int]:
    """The numbers of values and of unpacked bytes in the pages of a column."""
    if 11 in column:
        raise PagesError(f"column {name} has a dictionary")
    at = _get(column, 9, int)
    end = at + _get(column, 7, int)
    if not 0 < at <= end <= len(content):
        raise PagesError(f"column {name} lies outside of the file")
    values = unpacked = 0
    while at < end:
        head, at = _structure(content, at, end)
        page = head.get(5)
        if not isinstance(page, dict) or (head.get(1), page.get(2)) != (_DATA_PAGE, _PLAIN):
            raise PagesError(f"column {name} is not stored plainly")
        if (page.get(3), page.get(4)) != (_RUNS, _RUNS):
            raise PagesError(f"column {name} has levels of another kind")
        sizes = [_get(head, 2, int), _get(head, 3, int), _get(page, 1, int)]
        if not all(0 <= size < 2**31 for size in sizes) or at + sizes[1] > end:
            raise PagesError(f"column {name} has a page of no proper size")
        unpacked += sizes[0]
        values += sizes[2]
        at += sizes[1]
    return values, unpacked


def _get(fields: dict[int, Any], number: int, kind: type) -> Any:
    value = fields.get(number)
    if not isinstance(value, kind):
        raise PagesError("its foot, or the head of a page, cannot be read")
    return value


def _structure(content: bytes, at: int, end: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a structure by number, and where it ends."""
    found: dict[int, Any] = {}
    number = 0
    while at < end:
        byte = content[at]
        at += 1
        if byte == 0:
            return found, at
        if byte >> 4:
            number += byte >> 4
        else:
            long, at = _varint(content, at, end)
            number = _signed(long)
        found[number], at = _value(content, at, end, byte & 15, depth)
    raise PagesError("its foot, or the head of a page, is cut")


def _value(content: bytes, at: int, end: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _WHOLE:
        number, at = _varint(content, at, end)
        return _signed(number), at
    if kind in (_YES, _NO):
        return kind == _YES, at
    if kind == _BINARY:
        length, at = _varint(content, at, end)
        if at + length <= end:
            return content[at : at + length], at + length
    elif kind == _STRUCTURE and depth < _DEEPEST:
        return _structure(content, at, end, depth + 1)
    elif kind in _LISTS and depth < _DEEPEST and at < end:
        length, inner = content[at] >> 4, content[at] & 15
        at += 1
        if length == 15:
            length, at = _varint(content, at, end)
        if length <= end - at:  # an element has at least a byte
            found = []
            for _ in range(length):
                one, at = _element(content, at, end, inner, depth + 1)
                found.append(one)
            return found, at
    raise PagesError("its foot, or the head of a page, cannot be read")


def _element(content: bytes, at: int, end: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value in a list, where flags and bytes take a byte each."""
    if kind not in (_YES, _NO, _BYTE):
        return _value(content, at, end, kind, depth)
    if at >= end:
        raise PagesError("its foot, or the head of a page, is cut")
    return content[at], at + 1


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 64:
        byte = content[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise PagesError("its foot, or the head of a page, cannot be read")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
