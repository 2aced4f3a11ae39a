"""Numbers that a float32 holds, as Python's floats, and their bits."""

import struct


def float32(value):
    """The float32 nearest to a float, ties to even, as a float."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bits_of(weight):
    """The bits of a float32."""
    return struct.unpack("<I", struct.pack("<f", weight))[0]


def weight_of(bits):
    """The number that a float32 of these bits is; a Python float holds it exactly."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]
