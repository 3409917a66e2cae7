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


def jpeg(levels):
    """A JPEG file of grey squares, each of 8 x 8 pixels; rows of their levels. Blocks of one grey have no frequencies to
    round, so the pixels are these levels exactly."""
    bits, before = "", 0
    for mean in (8 * (level - 128) for row in levels for level in row):
        step, before = mean - before, mean
        size = abs(step).bit_length()
        value = f"{step if step > 0 else step + (1 << size) - 1:0{size}b}" if size else ""
        bits += f"{size:04b}" + value + "0"  # end of block
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")

    def segment(kind, content):
        return struct.pack(">BBH", 0xFF, kind, len(content) + 2) + content
    frame = struct.pack(">BHHBBBB", 8, 8 * len(levels), 8 * len(levels[0]), 1, 1, 0x11, 0)
    sizes = segment(0xC4, b"\0" + bytes([0, 0, 0, 12] + 12 * [0]) + bytes(range(12)))  # codes of 4 bits
    ends = segment(0xC4, b"\x10" + bytes([1] + 15 * [0]) + b"\0")
    return (b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64) + segment(0xC0, frame) + sizes + ends +
            segment(0xDA, bytes([1, 1, 0, 0, 63, 0])) + scan + b"\xff\xd9")


class Pixels:
    """The pixels of a PNG file of 8 bits a channel, grey or colour, not interlaced."""

    def __init__(self, file):
        content, at, packed = file.read_bytes(), 8, b""
        while at < len(content):
            size, kind = struct.unpack(">I4s", content[at:at + 8])
            if kind == b"IHDR":
                self.width, self.height, depth, colour = struct.unpack(">IIBB", content[at + 8:at + 18])
                assert (depth, content[at + 20]) == (8, 0) and colour in (0, 2), "not such a file"
                self.channels = 1 if colour == 0 else 3
            packed += content[at + 8:at + 8 + size] if kind == b"IDAT" else b""
            at += size + 12
        self.rows = self._unfiltered(zlib.decompress(packed))

    def count(self, colour):
        return sum(row[x:x + self.channels] == colour for row in self.rows for x in range(0, len(row), self.channels))

    def _unfiltered(self, data):
        size, step = self.width * self.channels, self.channels
        rows, above = [], bytes(size)
        for y in range(self.height):
            kind, row = data[y * (size + 1)], bytearray(data[y * (size + 1) + 1:(y + 1) * (size + 1)])
            for i in range(size):
                left, up, corner = (row[i - step], above[i], above[i - step]) if i >= step else (0, above[i], 0)
                row[i] = (row[i] + (0, left, up, (left + up) // 2, _paeth(left, up, corner))[kind]) % 256
            rows.append(bytes(row))
            above = rows[-1]
        return rows


def _paeth(left, up, corner):
    guess = left + up - corner
    return min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
