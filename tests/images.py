"""Image files for tests, without a library."""
import struct
import zlib


def png(width, height, pixels):
    """A PNG file of these bytes: grey, or red, green and blue side by side when there are three times as many."""
    channels = len(pixels) // (width * height)
    row = width * channels
    rows = b"".join(b"\0" + pixels[y * row:(y + 1) * row] for y in range(height))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
