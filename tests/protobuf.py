"""protobuf's encoding, read."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Field number -> its values in order: int, 4 or 8 bytes, or bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            value, at = varint(data, at)
            value -= (value >> 63) << 64
        else:
            if key & 7 == 2:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "field runs over its message"
        found.setdefault(key >> 3, []).append(value)
    return found
