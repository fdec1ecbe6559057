#!/usr/bin/env python3
"""Plain words (docs/glossary.md): banned words in comments, messages, docs,
names of tests and subjects of commits. Also names of parameters in the comment
above a function that the code no longer has.

    check_words.py           exits 1 where a clean part has a banned word
    check_words.py --count   per 1,000 lines of comments and docs, by module
    check_words.py FOLDER    lists all of a folder, also of one in NOT_YET

A line that speaks of people may say "who": see PEOPLE.
"""
import collections
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folders and pages that are not clean yet. The list may only become shorter.
NOT_YET = []
# Subjects of commits are checked from the one after this commit.
FIRST_COMMIT = "b0950bf"

PERSONAL = "its noun: the worker, the rank, the machine, the file"
BANNED = [(re.compile(rf"\b(?:{words})\b", re.I), better) for words, better in (
    ("who|whose|whom|whoever|nobody|somebody|everybody|anybody", PERSONAL),
    ("nobody's|somebody's|he|him|she", PERSONAL),
    ("comers?", "joining worker"), ("givers?", "donor"),
    ("doubt|doubts|doubted|disbelief|disbelieved|verdicts?", "unverified, vote"),
    ("deserters?", "departed member"), ("anew", "again, new"),
    ("at once", "immediately, at the same time"), ("for good", "permanently"),
    ("of before", "earlier"), ("of one's own", "own, user-defined"),
    ("naive twin|the twin", "reference implementation"),
    ("stands twice|stand twice", "duplicate"), ("patience is over", "timed out"),
    ("dealt|deals out|deal out", "assigned"), ("makes of it", "computes"),
    ("of which nothing", "a sentence with a subject"),
)]
# Texts that are part of a file's format, or of Keras.
ALLOWED = ("ringlet sealed file 1: whose key",)
PEOPLE = re.compile(r"\b(users?|readers?|people|person|persons|developers?|"
                    r"engineers?|attackers?|strangers?|operators?|authors?|"
                    r"someone|anyone)\b", re.I)
WHO = re.compile(r"who|whose|whom|he|him|she|whoever", re.I)
CUT = re.compile(r"^…|…$")

COMMENT = re.compile(r"^((?:[^\"/]|/(?!/)|\"(?:\\.|[^\"\\])*\")*)//+ ?(.*)$")
STRING = re.compile(r"\"((?:\\.|[^\"\\])*)\"")
TEST = re.compile(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", re.M)
# `count`, *count. A comment also explains names in "a,b" and in f(a, b).
PARAMETER = re.compile(r"`([a-z]\w*)`|(?<![\w*/.)])\*([a-z]\w*)")
EXPLAINED = re.compile(r'"[^"]*"|\w+\([^)]*\)')
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
IN_NAMES = re.compile(r"(?:Who|Whose|Whom|Whoever|Nobody|Somebody|Anybody|Comer|"
                      r"Giver|Anew|Verdict|Doubt|IsThatOf|AreThoseOf|Torn|Tear|"
                      r"Told|Squatter)s?(?![a-z])")
# Comments behind code that need the code's name as their noun.
FRAGMENT = re.compile(r"(?:of|it|its|they|as|so|or|and|by|else) ")


def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE).stdout.split("\n")
    return [name for name in listed
            if re.fullmatch(r".*\.(cc|h|md)", name)
            and not name.startswith(("docs/reference", "tests/reference/"))]


def module_of(name):
    parts = name.split("/")
    if parts[0] in ("core", "io", "net") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "top"


def lines_of(name):
    """(number, kind, text) of what is prose in a file."""
    text = (ROOT / name).read_text()
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if name.endswith(".md"):
            code ^= line.startswith("```")
            if not code:
                yield number, "prose", re.sub(r"`[^`]*`", "", line)
            continue
        found = COMMENT.match(line)
        if found:
            yield number, "comment", found[2]
        for string in STRING.findall(found[1] if found else line):
            if " " in string and string not in ALLOWED and \
                    not name.startswith("tests/"):
                yield number, "message", string


def remarks(name):
    """(number, word, better) of each banned word."""
    before, last = "", (0, "")
    for number, kind, text in lines_of(name):
        near = before + " " + text
        # A phrase may begin on the previous line, of the same comment or message.
        follows = last == (number - 1, kind)
        start = len(before.rstrip()) + 1 if follows else 0
        joined = before.rstrip() + " " + text.lstrip() if follows else text
        before, last = text, (number, kind)
        for pattern, better in BANNED:
            for found in pattern.finditer(joined):
                if found.end() <= start:
                    continue  # reported with the previous line
                person = WHO.fullmatch(found[0]) and PEOPLE.search(near)
                if not person:
                    yield number, found[0], better
        if kind == "comment" and CUT.search(text):
            yield number, "…", "a comment that is whole"
    if name.startswith("tests/"):
        text = (ROOT / name).read_text()
        for number, line in enumerate(text.split("\n"), 1):
            comment = COMMENT.match(line)
            found = comment and comment[1].strip() and FRAGMENT.match(comment[2])
            if found:
                yield number, f"// {found[0]}", "a noun or a sentence"
        for test in TEST.finditer(text):
            found = IN_NAMES.search(test[2])
            if found:
                yield test[2], found[0], "Subject_Condition_Result"


@functools.lru_cache(maxsize=None)
def words_of_code(path):
    code = re.sub(r"//.*", "", path.read_text()) if path.exists() else ""
    return frozenset(re.findall(r"\w+", code))


def stale_names(path):
    """(number, name) of each name in a comment directly above a function that
    neither the file has, nor its .h or .cc, nor a header that it includes."""
    text = path.read_text()
    lines = [line.strip() for line in text.split("\n")]
    near = [path.with_suffix(".h"), path.with_suffix(".cc"), path]
    near += [folder / header for header in INCLUDE.findall(text)
             for folder in (path.parent, ROOT)]
    known = frozenset().union(*map(words_of_code, near))
    comment = []
    for number, line in enumerate(lines):
        if line.startswith("//"):
            comment.append((number + 1, line))
            continue
        declared = re.split("[;{]", " ".join(lines[number:number + 3]))[0]
        explained = " ".join(
            EXPLAINED.findall(" ".join(text for _, text in comment)))
        for at, text in comment if "(" in declared and line else []:
            for name in (a or b for a, b in PARAMETER.findall(text)):
                if name not in known and \
                        not re.search(rf"\b{name}\b", explained):
                    yield at, name
        comment = []


def subjects():
    log = subprocess.run(["git", "log", "--format=%h %s", f"{FIRST_COMMIT}..HEAD"],
                         cwd=ROOT, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    for line in log.stdout.splitlines() if log.returncode == 0 else []:
        commit, _, subject = line.partition(" ")
        for pattern, better in BANNED:
            for found in pattern.finditer(subject):
                yield f"commit {commit}: '{found[0]}': {better}"
        if len(subject) > 60:
            yield f"commit {commit}: {len(subject)} characters; at most 60"


def count():
    words, lines = collections.Counter(), collections.Counter()
    for name in files():
        module = module_of(name)
        lines[module] += sum(kind != "message" for _, kind, _ in lines_of(name))
        words[module] += len(list(remarks(name)))
    for module in sorted(lines):
        rate = 1000 * words[module] / max(lines[module], 1)
        print(f"{module:14} {words[module]:5} words, {lines[module]:6} lines: "
              f"{rate:5.1f}")
    total = 1000 * sum(words.values()) / max(sum(lines.values()), 1)
    print(f"{'all':14} {sum(words.values()):5} words, "
          f"{sum(lines.values()):6} lines: {total:5.1f}")


def main():
    if sys.argv[1:] == ["--count"]:
        return count()
    wanted = sys.argv[1:]
    found = [] if wanted else list(subjects())
    for name in files():
        skipped = any(name.startswith(folder) for folder in NOT_YET)
        if wanted and not any(name.startswith(folder) for folder in wanted) or \
                skipped and not wanted:
            continue
        found += [f"{name}:{number}: '{word}': {better}"
                  for number, word, better in remarks(name)]
        if not name.endswith(".md"):
            found += [f"{name}:{number}: '{word}': a name that the code has; "
                      f"a command or a key of a file in other quotes"
                      for number, word in stale_names(ROOT / name)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
