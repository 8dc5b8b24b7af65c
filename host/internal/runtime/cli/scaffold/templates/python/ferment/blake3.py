"""BLAKE3 in plain Python, fast enough for megabytes.

A big integer holds one 32-bit word of many chunks side by side, in lanes of 64
bits: one addition adds them all, and the upper half of a lane takes the carry
and the bits of a rotation until the mask clears them.
"""

_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_CHUNK, _BLOCK = 1024, 64
_START, _END, _PARENT, _ROOT = 1, 2, 4, 8


def _compress(cv, words, low, high, length, flags, ones):
    """One compression of every lane; words that are equal in all lanes are
    made by multiplying with ones."""
    mask = 0xFFFFFFFF * ones
    v = [*cv, _IV[0] * ones, _IV[1] * ones, _IV[2] * ones, _IV[3] * ones, low, high, length * ones, flags * ones]
    for _ in range(7):
        for n, (a, b, c, d) in enumerate(_COLUMNS + _DIAGONALS):
            va, vb, vc, vd = v[a], v[b], v[c], v[d]
            va = (va + vb + words[2 * n]) & mask
            vd ^= va
            vd = (vd >> 16 | vd << 16) & mask
            vc = (vc + vd) & mask
            vb ^= vc
            vb = (vb >> 12 | vb << 20) & mask
            va = (va + vb + words[2 * n + 1]) & mask
            vd ^= va
            vd = (vd >> 8 | vd << 24) & mask
            vc = (vc + vd) & mask
            vb ^= vc
            vb = (vb >> 7 | vb << 25) & mask
            v[a], v[b], v[c], v[d] = va, vb, vc, vd
        words = [words[i] for i in _ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)]


def _ones(lanes):
    return int.from_bytes(b"\1\0\0\0\0\0\0\0" * lanes, "little")


def _word(data, offset, step, lanes):
    """The word at offset in each of the lanes, which are step bytes apart."""
    out = bytearray(8 * lanes)
    for k in range(4):
        out[k::8] = data[offset + k :: step][:lanes]
    return int.from_bytes(out, "little")


def _chunks(data, first, root):
    """The chaining values of the chunks of data, which are equally long;
    a chunk shorter than 1024 bytes comes alone."""
    lanes = max(1, len(data) // _CHUNK)
    size = len(data) // lanes
    ones = _ones(lanes)
    low = int.from_bytes(b"".join(((first + i) & 0xFFFFFFFF).to_bytes(8, "little") for i in range(lanes)), "little")
    cv = [word * ones for word in _IV]
    blocks = max(1, -(-size // _BLOCK))
    if size % _BLOCK or not size:
        data = data + bytes(blocks * _BLOCK - size)  # a single chunk
        step = blocks * _BLOCK
    else:
        step = size
    for block in range(blocks):
        flags = (_START if block == 0 else 0) | ((_END | root) if block == blocks - 1 else 0)
        words = [_word(data, block * _BLOCK + 4 * w, step, lanes) for w in range(16)]
        cv = _compress(cv, words, low, 0, min(_BLOCK, size - block * _BLOCK), flags, ones)
    return [word.to_bytes(8 * lanes, "little") for word in cv]


def _parents(cvs, count):
    """The level above; an odd one at the end moves up as it is."""
    pairs = count // 2
    root = _ROOT if count == 2 else 0
    views = [memoryview(cv).cast("Q") for cv in cvs]
    left = [int.from_bytes(view[0 : 2 * pairs : 2].tobytes(), "little") for view in views]
    right = [int.from_bytes(view[1 : 2 * pairs : 2].tobytes(), "little") for view in views]
    ones = _ones(pairs)
    up = _compress([word * ones for word in _IV], left + right, 0, 0, _BLOCK, _PARENT | root, ones)
    up = [word.to_bytes(8 * pairs, "little") for word in up]
    if count % 2:
        up = [above + cv[-8:] for above, cv in zip(up, cvs)]
    return up, pairs + count % 2


def blake3(data):
    """The 32 bytes of BLAKE3-256 of data."""
    count = max(1, -(-len(data) // _CHUNK))
    if count == 1:
        cvs = _chunks(data, 0, _ROOT)
    else:
        whole = len(data) // _CHUNK
        cvs = _chunks(data[: whole * _CHUNK], 0, 0)
        if whole < count:
            cvs = [cv + last for cv, last in zip(cvs, _chunks(data[whole * _CHUNK :], whole, 0))]
    while count > 1:
        cvs, count = _parents(cvs, count)
    return b"".join(cv[:4] for cv in cvs)
