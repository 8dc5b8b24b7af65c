"""A second reader of EDN, in another language, against testdata/vectors.json.

It turns text into canonical bytes and a BLAKE3 hash with nothing but the rules
of the format, so that a mistake in the Go package does not check itself. It
takes good text only: it is an oracle, not a validator.

Usage: python3 reader.py vectors.json
"""

import datetime
import decimal
import json
import re
import sys

CHAR_NAMES = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t",
              "backspace": "\b", "formfeed": "\f"}
STRING_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f",
                  '"': '"', "\\": "\\"}
BLANK = " \t\n\r,"
ENDS = BLANK + ';"()[]{}'
CLOSERS = {"(": ")", "[": "]", "{": "}"}


class Reader:
    """Reads forms and returns their canonical text."""

    def __init__(self, text):
        self.text = text[1:] if text.startswith("\ufeff") else text
        self.at = 0

    def peek(self):
        return self.text[self.at:self.at + 1]

    def skip(self):
        while True:
            c = self.peek()
            if c and c in BLANK:
                self.at += 1
            elif c == ";":
                while self.peek() and self.peek() not in "\n\r":
                    self.at += 1
            elif self.text.startswith("#_", self.at):
                self.at += 2
                self.form(interpret=False)
            else:
                return

    def token(self):
        start = self.at
        while self.peek() and self.peek() not in ENDS:
            self.at += 1
        return self.text[start:self.at]

    def form(self, interpret=True):
        self.skip()
        c = self.peek()
        if c in "([{":
            self.at += 1
            parts = self.until(CLOSERS[c], interpret)
            if c == "{":
                pairs = sorted(zip(parts[::2], parts[1::2]), key=lambda p: p[0].encode())
                parts = [form for pair in pairs for form in pair]
            return c + " ".join(parts) + CLOSERS[c]
        if c == '"':
            return write_string(self.string())
        if c == "\\":
            return self.character()
        if c == "#":
            return self.hashed(interpret)
        return write_token(self.token())

    def until(self, closer, interpret):
        parts = []
        while True:
            self.skip()
            if self.peek() == closer:
                self.at += 1
                return parts
            parts.append(self.form(interpret))

    def string(self):
        self.at += 1
        units = []
        while self.peek() != '"':
            c = self.peek()
            self.at += 1
            if c != "\\":
                units.append(c)
                continue
            c = self.peek()
            self.at += 1
            if c == "u":
                units.append(chr(int(self.text[self.at:self.at + 4], 16)))
                self.at += 4
            else:
                units.append(STRING_ESCAPES[c])
        self.at += 1
        return "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le")

    def character(self):
        first = self.text[self.at + 1]
        self.at += 2
        name = first + self.token()
        if len(name) == 1:
            return write_char(name)
        if name in CHAR_NAMES:
            return write_char(CHAR_NAMES[name])
        return write_char(chr(int(name[1:], 16)))

    def hashed(self, interpret):
        if self.text.startswith("#{", self.at):
            self.at += 2
            return "#{" + " ".join(sorted(self.until("}", interpret), key=str.encode)) + "}"
        self.at += 1
        tag = self.token()
        self.skip()
        if interpret and tag == "inst":
            return '#inst "' + write_inst(self.string()) + '"'
        if interpret and tag == "uuid":
            return '#uuid "' + self.string().lower() + '"'
        return "#" + tag + " " + self.form(interpret)


def write_token(token):
    number = re.fullmatch(r"[+-]?(\d+)(\.\d+)?([eE][+-]?\d+)?([NM]?)", token)
    if not number:
        return token
    body = token.rstrip("NM")
    if number[4] == "M":
        return write_decimal(body)
    if number[2] or number[3]:
        return write_float(float(body))
    n = int(body)
    return str(n) + ("" if -2**63 <= n < 2**63 else "N")


def digits_of(number):
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    trimmed = text.rstrip("0")
    return "-" if sign else "", trimmed, exponent + len(text) - len(trimmed)


def place_point(digits, exponent):
    if exponent >= 0:
        return digits + "0" * exponent
    if len(digits) + exponent > 0:
        return digits[:exponent] + "." + digits[exponent:]
    return "0." + "0" * -(len(digits) + exponent) + digits


def write_decimal(body):
    sign, digits, exponent = digits_of(decimal.Decimal(body))
    if not digits:
        return "0M"
    if -40 <= exponent <= 20:
        return sign + place_point(digits, exponent) + "M"
    return sign + digits + "E" + str(exponent) + "M"


def write_float(number):
    if number == 0:
        return "0.0"
    sign, digits, exponent = digits_of(decimal.Decimal(repr(number)))
    if 1e-6 <= abs(number) < 1e21:
        plain = place_point(digits, exponent)
        return sign + (plain if "." in plain else plain + ".0")
    return "%s%s.%se%d" % (sign, digits[0], digits[1:] or "0", exponent + len(digits) - 1)


def write_string(text):
    short = {v: k for k, v in STRING_ESCAPES.items()}
    out = []
    for c in text:
        if c in short:
            out.append("\\" + short[c])
        elif c < " " or c == "\x7f":
            out.append("\\u%04x" % ord(c))
        else:
            out.append(c)
    return '"' + "".join(out) + '"'


def write_char(c):
    for name, value in CHAR_NAMES.items():
        if value == c:
            return "\\" + name
    if c <= " " or "\x7f" <= c <= "\xa0" or c == ",":
        return "\\u%04x" % ord(c)
    return "\\" + c


def write_inst(text):
    match = re.fullmatch(r"(.{19})(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", text)
    moment = datetime.datetime.fromisoformat(match[1])
    if match[3] != "Z":
        hours, minutes = int(match[3][1:3]), int(match[3][4:6])
        offset = datetime.timedelta(hours=hours, minutes=minutes)
        moment = moment - offset if match[3][0] == "+" else moment + offset
    fraction = (match[2] or "").ljust(9, "0")
    while len(fraction) > 3 and fraction.endswith("000"):
        fraction = fraction[:-3]
    return moment.isoformat() + "." + fraction + "Z"


def canonical(text):
    reader = Reader(text)
    result = reader.form()
    reader.skip()
    assert reader.at == len(reader.text), "text behind the form"
    return result


# BLAKE3, from its specification: chunks of 1 KiB, blocks of 64 bytes, a binary
# tree of chunks.

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
LANES = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
         (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
MASK = 0xFFFFFFFF


def rotate(x, n):
    return (x >> n | x << 32 - n) & MASK


def compress(chain, block, counter, length, flags):
    v = list(chain) + list(IV[:4]) + [counter & MASK, counter >> 32, length, flags]
    m = [int.from_bytes(block[i:i + 4], "little") for i in range(0, 64, 4)]
    for _ in range(7):
        for i, (a, b, c, d) in enumerate(LANES):
            for word, r1, r2 in ((m[2 * i], 16, 12), (m[2 * i + 1], 8, 7)):
                v[a] = v[a] + v[b] + word & MASK
                v[d] = rotate(v[d] ^ v[a], r1)
                v[c] = v[c] + v[d] & MASK
                v[b] = rotate(v[b] ^ v[c], r2)
        m = [m[p] for p in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def chain_of(data, counter, root):
    if len(data) > 1024:
        half = 1024
        while half * 2 < len(data):
            half *= 2
        words = chain_of(data[:half], counter, 0) + chain_of(data[half:], counter + half // 1024, 0)
        block = b"".join(w.to_bytes(4, "little") for w in words)
        return compress(IV, block, 0, 64, PARENT | root)
    chain = IV
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        last = i == len(blocks) - 1
        flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END | root if last else 0)
        chain = compress(chain, block.ljust(64, b"\0"), counter, len(block), flags)
    return chain


def blake3(data):
    return b"".join(w.to_bytes(4, "little") for w in chain_of(data, 0, ROOT)).hex()


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        cases = json.load(f)
    bad = 0
    for case in cases:
        try:
            text = canonical(case["text"])
        except Exception as problem:  # a case must not hide the others
            text = "%s: %s" % (type(problem).__name__, problem)
        digest = "b3:" + blake3(case["canonical"].encode())
        if text != case["canonical"] or digest != case["hash"]:
            bad += 1
            print("text %r\n  want %r %s\n  got  %r %s" % (
                case["text"], case["canonical"], case["hash"], text, digest))
    print("%d cases, %d wrong" % (len(cases), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
