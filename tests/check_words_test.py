#!/usr/bin/env python3
"""tools/check_words.py: names in comments that the code does not have."""
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import check_words  # noqa: E402

HEADER = """#include "shape.h"

// Reads up to `bytes` of the file. *more is false at its end.
// `rank` is a field of Shape, and `size` is of "rank,size".
Status Read(size_t bytes, bool* has_line);

// A path without `slash`.
std::string path_;

// Calls use(at, n) for `n` numbers of `part_` from `at` on. %.*f is a form.
void ForEach(const std::function<void(int64_t, int64_t)>& use);
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder, "reader.h")
        header.write_text(HEADER)
        header.with_suffix(".cc").write_text("int64_t part_ = 0;  // more\n")
        header.with_name("shape.h").write_text("int rank = 0;\n")
        found = list(check_words.stale_names(header))
        assert found == [(3, "more")], found
        # A new name of the parameter, and the comment still has the old one.
        changed = HEADER.replace("size_t bytes", "size_t count")
        header.write_text(changed)
        check_words.words_of_code.cache_clear()
        found = list(check_words.stale_names(header))
        assert found == [(3, "bytes"), (3, "more")], found


main()
