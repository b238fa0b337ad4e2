"""Protocol buffers on the wire, read strictly: numbered fields, nothing interpreted, nothing executed."""

from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Far above what any chain of layers holds; a file of tiny fields would otherwise keep Python busy for minutes.
_MOST_FIELDS = 500_000


@dataclass
class Wire:
    """Reads messages of one file and counts their fields."""

    fields: int = 0

    def read(self, message: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
        """The fields of a message: number, wire type and value (bytes for all but varints).

        Raises:
            ValueError: bytes that are no message, or too many fields.
        """
        position, end = 0, len(message)
        while position < end:
            self.fields += 1
            if self.fields > _MOST_FIELDS:
                raise ValueError(f"it has more than {_MOST_FIELDS:,} fields")
            key, position = _varint(message, position)
            number, kind = key >> 3, key & 7
            if not 1 <= number < 2**29:
                raise ValueError(f"it has a field of number {number}")
            if kind == VARINT:
                value, position = _varint(message, position)
                yield number, kind, value
                continue
            if kind == BYTES:
                length, position = _varint(message, position)
            elif kind in (FIXED32, FIXED64):
                length = 4 if kind == FIXED32 else 8
            else:
                raise ValueError(f"it has a field of wire type {kind}")
            if length > end - position:
                raise ValueError(f"a field of {length:,} bytes reaches past its end")
            yield number, kind, message[position : position + length]
            position += length


def varints(packed: memoryview, most: int) -> list[int]:
    """A packed list of at most ``most`` signed 64-bit numbers."""
    found: list[int] = []
    position = 0
    while position < len(packed):
        if len(found) == most:
            raise ValueError(f"a list has more than {most} numbers")
        value, position = _varint(packed, position)
        found.append(signed(value))
    return found


def signed(value: int) -> int:
    """A varint as the signed 64-bit number it stands for."""
    return value - 2**64 if value >= 2**63 else value


def text(value: int | memoryview) -> str:
    """A field of text."""
    if isinstance(value, int):
        raise ValueError("a number stands where text belongs")
    if len(value) > 10_000:
        raise ValueError(f"a name has {len(value):,} characters")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise ValueError("a name is not UTF-8 text") from error


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message):
            raise ValueError("it ends in the middle of a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
    if value >= 2**64:
        raise ValueError("a number has more than 64 bits")
    return value, position
