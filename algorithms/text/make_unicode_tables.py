#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode_tables.inc: what Hugging Face's tokenizers takes every code point for.

Its normaliser mixes the tables of several crates, of Unicode 8 to 17; so the library itself is
asked, one code point at a time. Run with its Python: .venv/hf/bin/python make_unicode_tables.py
"""
import ctypes
import os

from tokenizers import __version__, normalizers, pre_tokenizers

utf8proc = ctypes.CDLL("libutf8proc.so.2")


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_uint16), ("combining_class", ctypes.c_uint16)]


utf8proc.utf8proc_get_property.restype = ctypes.POINTER(Property)


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


clean, chinese = bert(clean_text=True), bert(handle_chinese_chars=True)
strip, lower = bert(strip_accents=True), bert(lowercase=True)
nfd = normalizers.NFD().normalize_str
split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str


def own_nfd(code):
    found = (ctypes.c_int32 * 64)()
    bytes_ = chr(code).encode()
    count = utf8proc.utf8proc_decompose(bytes_, len(bytes_), found, 64, 2 | 16)
    return "".join(map(chr, found[:count]))


def order(code, character):
    """The canonical combining class as the library sees it, where it matters: not of marks that
    are stripped. Its value is utf8proc's; whether the library knows it is tried."""
    value = utf8proc.utf8proc_get_property(code)[0].combining_class
    known = nfd("a\u0345" + character) == "a" + character + "\u0345"
    if value == 240:  # U+0345, which the trial is made with
        return value
    assert value < 240
    return value if known else 0


def ranges(rows):
    """(code, value) in order -> [first, last, value]"""
    result = []
    for code, value in rows:
        if result and result[-1][1] == code - 1 and result[-1][2] == value:
            result[-1][1] = code
        else:
            result.append([code, code, value])
    return result


def write(out, name, type_, rows, valued):
    found = ranges(rows)
    out.write(f"constexpr std::array<{type_}, {len(found)}> {name} = {{{{\n")
    line = "   "
    for first, last, value in found:
        item = f" {{0x{first:X}, 0x{last:X}" + (f", {value}" if valued else "") + "},"
        if len(line) + len(item) > 100:
            out.write(line + "\n")
            line = "   "
        line += item
    out.write(line + "\n}};\n\n")


def main():
    dropped, spaces, hanzi, marks, punctuation, classes, lowered, whole = ([] for _ in range(8))
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        c = chr(code)
        cleaned = clean(c)
        if cleaned == "":
            dropped.append((code, 0))
        elif cleaned == " ":
            spaces.append((code, 0))
        if chinese(c) != c:
            hanzi.append((code, 0))
        if nfd(c) == c:
            if strip("a" + c) == "a":
                marks.append((code, 0))
            if order(code, c):
                classes.append((code, order(code, c)))
        if nfd(c) != own_nfd(code):
            assert nfd(c) == c
            whole.append((code, 0))
        if split("a" + c + "b")[1:2] and split("a" + c + "b")[1][0] == c:
            punctuation.append((code, 0))
        if code >= 128 and len(lower(c)) == 1 and ord(lower(c)) != utf8proc.utf8proc_tolower(code):
            lowered.append((code, ord(lower(c)) - code))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unicode_tables.inc")
    with open(path, "w", encoding="utf-8") as out:
        out.write("// Written by make_unicode_tables.py from tokenizers " + __version__ + ".\n")
        out.write("// clang-format off\n\n")
        write(out, "kDropped", "Range", dropped, False)
        write(out, "kSpaces", "Range", spaces, False)
        write(out, "kChinese", "Range", hanzi, False)
        write(out, "kMarks", "Range", marks, False)
        write(out, "kPunctuation", "Range", punctuation, False)
        out.write("// Canonical combining classes that are not 0.\n")
        write(out, "kClasses", "ValueRange", classes, True)
        out.write("// Lower case where utf8proc has another: the distance.\n")
        write(out, "kLowered", "ValueRange", lowered, True)
        out.write("// Decomposed by utf8proc alone.\n")
        write(out, "kWhole", "Range", whole, False)


if __name__ == "__main__":
    main()
