#!/usr/bin/env python3
"""Which test suites tools/ci.py gives to the sanitizers."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import ci  # noqa: E402


def suites(tag, changed, commits, with_threads):
    answers = {"describe": tag, "diff": changed, "rev-list": str(commits)}
    ci.git = lambda command, *_: answers[command]
    part = ci.THESE_WITH_THREADS if with_threads else ci.THESE
    (filled,) = ci.filled([part])
    return filled.removeprefix("SUITE=").replace("--suite ", "").split()


def main():
    known = ci.suites()
    for with_threads in (False, True):
        able = {name for name, (_, threads) in known.items()
                if threads or not with_threads}
        # Three commits cover all.
        thirds = [suites("", "", n, with_threads) for n in range(3)]
        assert all(thirds), thirds
        assert sorted(sum(thirds, [])) == sorted(able), thirds
        # Nothing changed that these suites test: no empty SUITE.
        for changed in ("", "docs/design.md\ntools/ringlet/train.cc"):
            assert suites("v1", changed, 4, with_threads) == thirds[1]
    changed = "core/data/zip.cc\ntests/net/relay/relay_test.cc"
    assert suites("v1", changed, 4, False) == ["core_data", "net_relay"]
    assert suites("v1", changed, 4, True) == ["net_relay"]
    assert suites("v1", "core/data/zip.cc", 4, True) == suites("", "", 4, True)


main()
