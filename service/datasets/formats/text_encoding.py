"""Detection of the encoding of text."""

import codecs
from typing import Final

UTF8: Final = "utf-8"
#: Encoding assumed for text that is not UTF-8: spreadsheets in Western Europe write it.
LEGACY: Final = "windows-1252"
#: Byte order marks with their encodings; the mark of UTF-32 starts with the mark of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Share of NUL bytes in text of UTF-16 without a mark, which is mostly of two bytes a character.
_NUL_SHARE: Final = 0.3


def detect_encoding(head: bytes | bytearray) -> str:
    """Return the encoding of text by its first bytes; UTF-8 is a guess."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) > _NUL_SHARE * len(head):
        return "utf-16-be" if even > odd else "utf-16-le"
    return UTF8


def as_utf8(text: bytes | bytearray) -> bytes | bytearray:
    """Return text in UTF-8 without a byte order mark; text that cannot be decoded as it is."""
    encoding = detect_encoding(text)
    if encoding == UTF8:
        return text.removeprefix(codecs.BOM_UTF8)
    try:
        return text.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeError:
        return text
