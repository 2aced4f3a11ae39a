"""For the scripts that measure: datasets with fewer nodes in their splits."""
import struct


def shorten(file, nodes):
    """Truncates a split to its first `nodes` nodes. `file`: an `.npy` of int64, version 1.0."""
    content = file.read_bytes()
    kept = content[10 + struct.unpack("<H", content[8:10])[0] :][: 8 * nodes]
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(kept) // 8},), }}".ljust(117) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + kept)
