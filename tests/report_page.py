"""Reads the pages of `ringlet report` and `ringlet evaluate --report`."""
import html.parser
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from made_runs import PROGRAM

EVIL = "<script>alert(1)</script>&\"'"
VOID = {"meta", "img", "br"}


class Balance(html.parser.HTMLParser):
    """Each element ends, in order, as a browser's parser sees it."""

    def __init__(self):
        super().__init__()
        self.open, self.names = [], set()

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.names.add(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


def check(text):
    """A well-formed page that asks for nothing. Returns its root."""
    balance = Balance()
    balance.feed(text)
    balance.close()
    assert not balance.open, balance.open
    refused = balance.names & {"script", "link", "iframe", "object", "embed", "form", "base",
                               "audio", "video", "a", "foreignobject", "image", "use"}
    assert not refused, refused
    root = ElementTree.fromstring(text.replace("<!DOCTYPE html>", "", 1))
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on"), name
            assert name != "href" and not name.endswith("}href"), value
            assert name != "src" or value.startswith("data:image/png;base64,"), value[:50]
            assert "url(" not in value.lower() or name not in ("style", "fill"), value
    style = root.find("head/style").text
    assert "url(" not in style and "@import" not in style and "http" not in style
    policy = root.find("head/meta[@http-equiv='Content-Security-Policy']")
    assert policy.get("content").startswith("default-src 'none'")
    return root


def text_of(element):
    return "".join(element.itertext())


def section(root, title):
    """The elements between the h2 whose text begins with this and the next h2."""
    found, inside = [], False
    for element in root.find("body"):
        if element.tag == "h2":
            inside = text_of(element).startswith(title)
        elif inside:
            found.append(element)
    assert found, title
    return found


def tables(elements):
    """Each table as a list of rows of texts, its headings first."""
    return [[[text_of(cell) for cell in row] for row in table.iter("tr")]
            for element in elements for table in element.iter("table")]


def titles(elements, chart):
    """{(first x, last x): {line: (least, largest)}} of a chart's columns."""
    found = {}
    for element in elements:
        for figure in element.iter("figure"):
            if figure.find("figcaption").text.strip() != chart:
                continue
            for title in figure.iter("title"):
                head, *lines = title.text.split("\n")
                x = re.fullmatch(r"\w+ (\S+)(?: to (\S+))?", head)
                values = {}
                for line in lines:
                    name, value = re.fullmatch(r"(\S+) (.*)", line).groups()
                    low, _, high = value.partition(" to ")
                    values[name] = (float(low), float(high or low))
                found[float(x[1]), float(x[2] or x[1])] = values
    assert found, chart
    return found


def run(folder, *arguments, code=0):
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, timeout=300)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done


def run_tests(names):
    """Runs the functions test_... of a program, or those that its arguments name."""
    for name, test in sorted(names.items()):
        if not name.startswith("test_") or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
        print("ok", name, flush=True)
