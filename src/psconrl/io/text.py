"""Text from outside, made safe on its way to a terminal, a page or the name of a file.

Names of states, costs and files may hold anything: codes that steer a terminal, signs that turn the direction of
writing, halves of characters that no encoding has. Models keep them as they are; here, once, they become harmless.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

LONGEST_NAME = 80
"""Characters of a name that become a part of the name of a file; a longer one is cut and told apart by a hash."""

# Controls but tab and newline; lines and paragraphs; marks and overrides of direction; halves of pairs; no characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\uffff]"
)
# Colours, bold, dim, italic, underlined, reversed: what our own tables and maps use. A name from outside may so be
# coloured on a terminal, but it cannot move, erase or answer anything.
_CODE = r"(?:[0-4]|7|22|23|24|27|[39][0-7]|39|4[0-7]|49|10[0-7]|[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3})"
_STYLE = re.compile(rf"\x1b\[(?:{_CODE}(?:;{_CODE})*)?m", re.ASCII)


def printable(text: str) -> str:
    """The text with everything that is not shown as itself written out, for instance as \\x1b.

    >>> printable("a\\x1b[31mb\\u202ec")
    'a\\\\x1b[31mb\\\\u202ec'
    """
    return _UNSAFE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def file_name(text: str) -> str:
    """The text as a part of the name of a file, which every system takes.

    >>> file_name("../a b")
    '_a_b'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip(".") or "_"
    if len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


class SafeStream:
    """A stream of text that writes only what is printable; on a terminal, styles of text as well."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._styled = bool(stream.isatty())

    def write(self, text: str) -> int:
        """Write the text, made safe; as many characters as were given."""
        if self._styled and "\x1b" in text:
            styles = _STYLE.findall(text)
            plain = [printable(part) for part in _STYLE.split(text)]
            self.stream.write("".join(part + style for part, style in zip(plain, [*styles, ""], strict=True)))
        else:
            self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
