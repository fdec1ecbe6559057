#!/usr/bin/env python3
"""Writes glibc's tables of the "C" locale without those for transliteration.

    trim_locale.py LIBC.A OUT.O

A static program links them all with isspace(): 58 kB, of which 50 kB serve
iconv alone (tools/libc.ld cuts it off). They are the end of the object's
.rodata, which OUT.O ends before them; where that is not so, OUT.O is the
object as it is.
"""
import struct
import sys

MEMBER = "C-ctype.o"


def member_of(archive, name):
    with open(archive, "rb") as file:
        if file.read(8) != b"!<arch>\n":
            sys.exit(f"trim_locale: {archive} is not an archive")
        while header := file.read(60):
            size = int(header[48:58])
            if header[:16].rstrip() == name.encode() + b"/":
                return bytearray(file.read(size))
            file.seek(size + size % 2, 1)
    sys.exit(f"trim_locale: {archive} has no {name}")


def trim(elf):
    wide = elf[4] == 2
    order = "<" if elf[5] == 1 else ">"

    def read(layout, at):
        return struct.unpack_from(order + layout, elf, at)

    def text(table, at):
        begin = table + at
        return elf[begin:elf.index(b"\0", begin)].decode()

    # Section headers: (name, type, flags, address, offset, size, ...).
    layout = "IIQQQQIIQQ" if wide else "10I"
    begin, = read("Q", 40) if wide else read("I", 32)
    size, count, names = read("3H", 58 if wide else 46)
    sections = [read(layout, begin + i * size) for i in range(count)]
    names = sections[names][4]
    rodata = next(i for i, each in enumerate(sections)
                  if text(names, each[0]) == ".rodata")
    symbols = next(each for each in sections if each[1] == 2)
    strings = sections[symbols[6]][4]
    cut, rest = sections[rodata][5], 0
    for at in range(symbols[4], symbols[4] + symbols[5], symbols[9]):
        if wide:
            name, _, _, section, value, length = read("IBBHQQ", at)
        else:
            name, value, length, _, _, section = read("IIIBBH", at)
        if section != rodata:
            continue
        if text(strings, name).startswith("translit_"):
            cut = min(cut, value)
        else:
            rest = max(rest, value + length)
    if rest <= cut:
        where = begin + rodata * size + (32 if wide else 20)
        struct.pack_into(order + ("Q" if wide else "I"), elf, where, cut)
    return elf


def main():
    archive, out = sys.argv[1:]
    with open(out, "wb") as file:
        file.write(trim(member_of(archive, MEMBER)))


if __name__ == "__main__":
    main()
