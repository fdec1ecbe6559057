#!/usr/bin/env python3
"""Runs every code block of a page of docs, and compares what it prints.

    docs_test.py PAGE.md

A block ```sh is run by bash; any command of it that fails fails the test. A
block ```text after it is what it prints: numbers and blanks may differ, and
where "…" stands anything does. A block "sh terminal-1" runs beside the next
one. Blocks of other languages, and those that begin with make, are not run.
Ports of localhost are replaced by free ones. RINGLET_SOURCE and RINGLET_BUILD
name the folders.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from free_ports import free_ports


def blocks(page):
    """(info, text, line) of each fenced block."""
    found, info = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if info is None:
                info, lines, first = line[3:].strip(), [], number + 1
            else:
                found.append((info, "\n".join(lines), first))
                info = None
        elif info is not None:
            lines.append(line)
    assert info is None, "a block does not end"
    return found


def pattern(line):
    """Matches the line with any numbers, blanks and '…'."""
    parts = []
    for token in re.findall(r"…|[-+]?\d[\d.,]*(?:e-?\d+)?(?:us|ms|s)?|\s+|.",
                            line):
        if token == "…":
            parts.append(".*")
        elif token.isspace():
            parts.append(r"\s+")
        elif re.match(r"[-+]?\d", token):
            parts.append(r"[-+]?\d[\d.,]*(?:e-?\d+)?(?:us|ms|s)?")
        else:
            parts.append(re.escape(token))
    return "".join(parts) + r"\s*"


def check_output(expected, printed, where):
    wanted = "\n".join(pattern(line) if line.strip() != "…" else "(.|\n)*"
                       for line in expected.splitlines())
    # A line "…" stands for any number of lines, none too.
    wanted = wanted.replace("(.|\n)*\n", "(?:.*\n)*")
    if not re.fullmatch(wanted, printed.strip("\n")):
        sys.exit(f"{where}: expected\n{expected}\nbut it printed\n{printed}")


def with_free_ports(text, ports):
    """The same free port for the same port, all over the page."""
    def free(match):
        if match.group() not in ports:
            ports[match.group()] = f"localhost:{free_ports(1)[0]}"
        return ports[match.group()]
    return re.sub(r"localhost:\d+", free, text)


def start(text, folder, environment):
    return subprocess.Popen(
        ["bash", "-e", "-c", text + '\npwd > "$LAST_FOLDER"'], cwd=folder,
        env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


class TooLate(Exception):
    """The process that a block kills had ended: the machine was stalled meanwhile."""


def finish(process, where):
    printed, _ = process.communicate(timeout=300)
    if process.returncode != 0 and "No such process" in printed:
        raise TooLate(where)
    if process.returncode != 0:
        sys.exit(f"{where}: exit code {process.returncode}\n{printed}")
    return printed


def run_page(page):
    source = pathlib.Path(os.environ["RINGLET_SOURCE"]).resolve()
    build = pathlib.Path(os.environ["RINGLET_BUILD"]).resolve()
    environment = dict(os.environ)
    environment.pop("TF_CONFIG", None)
    environment["PATH"] = f"{build}/tools/ringlet:{environment['PATH']}"
    run, ports = 0, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        for shared in ("samples", "data", "docs"):
            (folder / shared).symlink_to(source / shared)
        environment["LAST_FOLDER"] = str(folder / "last")
        beside, printed = None, None
        for info, text, line in blocks(page):
            where = f"{page.name}, line {line}"
            if info.split()[:1] == ["sh"] and not text.startswith("make "):
                process = start(with_free_ports(text, ports), folder,
                                environment)
                run += 1
                if info.endswith("terminal-1"):
                    beside = (process, where)
                    continue
                printed = finish(process, where)
                if beside:
                    finish(*beside)
                    beside = None
                else:
                    # The next block begins in the folder of this one, as in a terminal.
                    folder_now = (pathlib.Path(name) / "last").read_text()
                    folder = pathlib.Path(folder_now.strip())
            elif info == "text" and printed is not None:
                check_output(text, printed, where)
                printed = None
    print(f"{page.name}: {run} blocks")


def main():
    page = pathlib.Path(sys.argv[1])
    for _ in range(3):
        try:
            return run_page(page)
        except TooLate as late:
            print(f"{late}: the kill came too late; the page once more")
    sys.exit("no kill came in time")


if __name__ == "__main__":
    main()
