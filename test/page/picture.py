"""Makes PNG files small: as many colours as a palette has, each in one byte."""
import struct
import zlib

import numpy as np

COLOURS = 256


def read(path):
    """An array of rows, columns and red, green, blue, of a file with 8 bits a channel and no interlacing."""
    with open(path, "rb") as f:
        data = f.read()
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    channels = {2: 3, 6: 4}[colour]
    if depth != 8:
        raise ValueError(f"{path}: {depth} bits a channel")
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    made = np.zeros((height, width, channels), np.int64)
    above = np.zeros((width, channels), np.int64)
    for y in range(height):
        made[y] = above = undo(rows[y, 0], rows[y, 1:].reshape(width, channels).astype(np.int64), above)
    return made[:, :, :3].astype(np.uint8)


def undo(kind, row, above):
    """A row without its filter (PNG, section 9)."""
    if kind == 0:
        return row
    if kind == 1:
        return np.cumsum(row, axis=0) & 255
    if kind == 2:
        return (row + above) & 255
    made, left, corner = row.copy(), np.zeros(row.shape[1], np.int64), np.zeros(row.shape[1], np.int64)
    for x in range(len(row)):
        up = above[x]
        if kind == 3:
            guess = (left + up) >> 1
        else:
            far = np.abs(np.stack([up - corner, left - corner, left + up - 2 * corner]))
            guess = np.where((far[0] <= far[1]) & (far[0] <= far[2]), left, np.where(far[1] <= far[2], up, corner))
        left, corner = (row[x] + guess) & 255, up
        made[x] = left
    return made


def shrink(path):
    """Writes the file anew with its most frequent colours; every other one becomes the nearest of them."""
    pixels = read(path)
    flat = pixels.reshape(-1, 3).astype(np.int64)
    code = (flat[:, 0] >> 3) << 10 | (flat[:, 1] >> 3) << 5 | flat[:, 2] >> 3
    codes, where, counts = np.unique(code, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(where.ravel(), flat[:, c]) for c in range(3)], axis=1)
    means = sums / counts[:, None]
    kept = np.argsort(-counts)[:COLOURS]
    far = ((means[:, None, :] - means[None, kept, :]) ** 2).sum(axis=2)
    index = far.argmin(axis=1)[where.ravel()].astype(np.uint8).reshape(pixels.shape[:2])
    raw = np.zeros((index.shape[0], index.shape[1] + 1), np.uint8)
    raw[:, 1:] = index

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", index.shape[1], index.shape[0], 8, 3, 0, 0, 0)) +
                chunk(b"PLTE", np.round(means[kept]).astype(np.uint8).tobytes()) + chunk(b"IDAT", zlib.compress(raw.tobytes(), 9)) + chunk(b"IEND", b""))
