#!/usr/bin/python3
"""Random ordinary tables have the values that pandas reads.

    tables.py BUILD [--count N] [--seed S] [--case I] [--keep FOLDER]

Each table has a dialect (separator, decimal point, quotes, line ends, comments,
names or none), columns of numbers, of categories and to drop, missing values
with a rule, and a column of classes. A model without weights returns its input,
so `ringlet predict` writes the examples, and `ringlet evaluate` a loss of the
labels. pandas reads the same file. Values must be equal as float32, filled-in
means within 1e-6 of the column's largest value, and the loss within 1e-5. Where
rows with gaps are left out, which `predict` refuses, only the loss is compared.
Then the file is changed at random MUTATED times: each command ends with a result
or with an error that names the file. Exit code 77 without pandas.
"""
import argparse
import gzip
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    import pandas
except ImportError:
    print("skipped: needs pandas (apt-get install python3-pandas)")
    sys.exit(77)

parser = argparse.ArgumentParser()
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--count", type=int, default=60)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--case", type=int)
parser.add_argument("--keep", type=pathlib.Path)
options = parser.parse_args()
PROGRAM = options.build.resolve() / "tools/ringlet/ringlet"

MEAN_LIMIT = 1e-6
MUTATED = 5  # of each table
MISSING = ["", "NA", "nan", "NaN", "NULL", "null", "N/A", "n/a", "#N/A", "<NA>"]
WORDS = [["Biscoe", "Dream", "Torgersen"], ["male", "female"],
         ["Zürich", "Åbo", "東京", "zebra"], ["yes", "no"],
         ["New York", "San José", "Rio de Janeiro"],
         ["1", "2", "10"], ["A,b", "C;d", 'say "so"', "e\tf"],
         ["2021-03-01", "2021-03-02"], ["True", "False"]]
CLASSES = [["Adelie", "Chinstrap", "Gentoo"], ["no", "yes"], ["0", "1", "2"],
           ["b c", "a"], ["ja", "nein", "vielleicht"]]


class Column:
    """A name, a kind and the texts of all rows; None is a missing value."""

    def __init__(self, name, kind, texts, rule=None):
        self.name, self.kind, self.texts, self.rule = name, kind, texts, rule


def number(draw, kind, decimal):
    if kind == "small":
        return str(draw.randrange(-9, 100))
    if kind == "large":
        return str(draw.randrange(-10**9, 10**9))
    if kind == "zeros":
        return f"{draw.randrange(100):05d}"
    value = draw.uniform(-100, 100)
    text = {"fixed": f"{value:.{draw.randrange(1, 7)}f}",
            "long": repr(value),
            "exponent": f"{value * 10.0 ** draw.randrange(-12, 12):.4e}",
            "plus": f"{value:+.2f}"}[kind]
    return text.replace(".", decimal)


class Table:
    def __init__(self, seed, case):
        draw = self.draw = random.Random(f"{seed}.{case}")
        self.separator = draw.choice(",,,;;\t| ")
        self.decimal = "," if self.separator != "," and draw.random() < 0.4 else (
            ".")
        self.blanks = self.separator == " "
        self.header = draw.random() < 0.8
        self.comment = "%" if draw.random() < 0.2 else None
        self.end = draw.choice(("\n", "\n", "\r\n"))
        self.rows = draw.randrange(5, 80)
        self.na_values = draw.choice(([], [], ["?"], ["-999", "unknown"]))
        self.rule = draw.choice(("mean", "mean", "drop", 0, -1.5))
        self.columns = self.make_columns()
        self.file = "table.csv" + (".gz" if draw.random() < 0.2 else "")

    def missing(self):
        texts = MISSING + self.na_values
        if self.blanks:  # no text between two blanks would be one less field
            texts = [text for text in texts if text]
        return self.draw.choice(texts)

    def values(self, make):
        texts = [make() for _ in range(self.rows)]
        if self.draw.random() < 0.4:  # a column with gaps
            for i in range(self.rows):
                if self.draw.random() < 0.1 and i > 0:
                    texts[i] = None
        return texts

    def make_columns(self):
        draw, columns = self.draw, []
        for i in range(draw.randrange(3, 7)):
            kind = draw.choice(("small", "large", "zeros", "fixed", "long",
                                "exponent", "plus"))
            columns.append(Column(f"n{i}", "number", self.values(
                lambda: number(draw, kind, self.decimal))))
        for i in range(draw.randrange(0, 4)):
            words = draw.choice(WORDS)
            columns.append(Column(f"c {i}" if draw.random() < 0.3
                                  and not self.blanks else f"c{i}",
                                  draw.choice(("one_hot", "index")),
                                  self.values(lambda: draw.choice(words))))
        for i in range(draw.randrange(0, 3)):
            columns.append(Column(f"d{i}", "drop", [
                f"note {row}" for row in range(self.rows)]))
        names = draw.choice(CLASSES)
        draw.shuffle(columns)
        # The first rows have every class, and no gap.
        labels = [names[i] if i < len(names) else draw.choice(names)
                  for i in range(self.rows)]
        columns.insert(draw.choice((0, len(columns), 1)),
                       Column("kind", "label", labels))
        return columns

    def quoted(self, text):
        special = any(c in text for c in (self.separator, '"', "\n", " ", "\t"))
        if special or self.draw.random() < 0.05:
            return '"' + text.replace('"', '""') + '"'
        return text

    def text(self):
        draw, lines = self.draw, []
        if self.comment and draw.random() < 0.5:
            lines.append("% measured by hand")
        if self.header:
            lines.append(self.separator.join(
                self.quoted(c.name) for c in self.columns))
        for row in range(self.rows):
            fields = [self.missing() if c.texts[row] is None
                      else self.quoted(c.texts[row]) for c in self.columns]
            gap = " " * draw.randrange(1, 4) if self.blanks else self.separator
            lines.append(gap.join(fields))
            # Behind a quoted field pandas takes a comment as the field's text.
            may_end = self.comment and not lines[-1].endswith('"')
            if may_end and draw.random() < 0.1:
                lines[-1] += " % checked" if self.blanks else "% checked"
            if draw.random() < 0.02:
                lines.append("")
        text = self.end.join(lines)
        return ("\ufeff" if draw.random() < 0.1 else "") + text + (
            "" if draw.random() < 0.2 else self.end)

    def key(self, column):
        """The column's name, or its number if the table has no names."""
        return column.name if self.header else self.columns.index(column)

    def of(self, *kinds):
        return [c for c in self.columns if c.kind in kinds]

    def data(self):
        data = {"csv": self.file, "label": self.key(self.of("label")[0])}
        if not self.header:
            data["header"] = False
        elif self.draw.random() < 0.3:
            data["header"] = True
        if self.separator != ",":
            data["separator"] = self.separator
        if self.decimal != ".":
            data["decimal"] = self.decimal
        if self.comment:
            data["comment"] = self.comment
        if self.of("drop"):
            data["drop"] = [self.key(c) for c in self.of("drop")]
        if self.of("one_hot", "index"):
            data["categorical"] = {str(self.key(c)): c.kind
                                   for c in self.of("one_hot", "index")}
        if self.na_values:
            data["na_values"] = self.na_values
        data["missing"] = self.rule
        return data

    def expected(self, path):
        """x, the labels and which values are means, by pandas."""
        texts = [self.columns.index(c) for c in self.of(
            "one_hot", "index", "label", "drop")]
        frame = pandas.read_csv(
            path, sep=r"\s+" if self.blanks else self.separator,
            decimal=self.decimal, comment=self.comment,
            header=0 if self.header else None, na_values=self.na_values,
            dtype={i if not self.header else self.columns[i].name: str
                   for i in texts}, float_precision="round_trip",
            encoding="utf-8-sig")
        frame.columns = [c.name for c in self.columns]
        used = [c.name for c in self.columns if c.kind not in ("drop", "label")]
        if self.rule == "drop":
            frame = frame.dropna(subset=used)
        parts, means = [], []
        for column in self.columns:
            values = frame[column.name]
            if column.kind == "number":
                gaps = values.isna().to_numpy()
                fill = values.mean() if self.rule == "mean" else self.rule
                parts.append(values.to_numpy(numpy.float64, na_value=numpy.nan))
                parts[-1] = numpy.where(gaps, 0 if fill == "drop" else fill,
                                        parts[-1])
                means.append(gaps & (self.rule == "mean"))
            elif column.kind in ("one_hot", "index"):
                texts = values.fillna("")
                names = sorted(set(texts))
                index = texts.map(names.index).to_numpy(numpy.int64)
                parts += ([index] if column.kind == "index" else
                          [index == k for k in range(len(names))])
                means += [numpy.zeros(len(frame), bool)] * (
                    1 if column.kind == "index" else len(names))
        labels = frame["kind"]
        names = sorted(set(labels))
        numbers = all(name.isdigit() for name in names)  # are the classes
        return (numpy.stack(parts, 1).astype(numpy.float32),
                labels.map(int if numbers else names.index).to_numpy(),
                numpy.stack(means, 1))


def run(folder, *arguments):
    result = subprocess.run([PROGRAM, *arguments], cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: {result.stderr}")
    return result.stdout


def loss_of(x, labels):
    x = x.astype(numpy.float64)
    top = x.max(1)
    sums = top + numpy.log(numpy.exp(x - top[:, None]).sum(1))
    return float(numpy.mean(sums - x[numpy.arange(len(x)), labels]))


def check_values(folder, x, means):
    run(folder, "predict", "model", "--data", "run.json", "--part", "train",
        "--out", "x.npy")
    got = numpy.load(folder / "x.npy")
    assert got.shape == x.shape, f"shape {got.shape}, pandas {x.shape}"
    limits = MEAN_LIMIT * numpy.abs(x).max(0)  # of sums that may be near 0
    close = numpy.where(means, numpy.abs(got - x) <= limits, got == x)
    wrong = numpy.argwhere(~close)
    assert len(wrong) == 0, (
        f"{len(wrong)} values, first at {wrong[0]}: {got[tuple(wrong[0])]!r}, "
        f"pandas {x[tuple(wrong[0])]!r}")


def check(table, folder):
    text = table.text().encode()
    path = folder / table.file
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    data = table.data()
    x, labels, means = table.expected(path)
    (folder / "run.json").write_text(json.dumps({
        "model": {"class_name": "Sequential", "config": {"layers": [
            {"class_name": "InputLayer",
             "config": {"batch_shape": [None, x.shape[1]]}},
            {"class_name": "Rescaling", "config": {"scale": 1}}]}},
        "compile": {"loss": {"class_name": "SparseCategoricalCrossentropy",
                             "config": {"from_logits": True}}},
        "data": {"train": data}, "fit": {"steps_per_epoch": 1}}, indent=1))
    run(folder, "train", "run.json", "--save", "model")
    if table.rule != "drop":
        check_values(folder, x, means)
    loss = json.loads(run(folder, "evaluate", "model", "--data", "run.json",
                          "--part", "train", "--json"))["loss"]
    expected = loss_of(x, labels)
    assert math.isclose(loss, expected, rel_tol=1e-5, abs_tol=1e-5), (
        f"loss {loss}, pandas {expected}")


def mutated(draw, text):
    data = bytearray(text)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(data) + 1)
        to = min(len(data), at + draw.choice((1, 1, 2, 40, 4000)))
        data[at:to] = draw.choice((
            b"", draw.randbytes(3), data[at:to] * 2, b'"', b"\n", b"\r", b"\0",
            b",", b";", b"-", b"NA", b"1e999", b"9" * 400, b"\xff\xfe"))
    return bytes(data)


def check_mutated(table, folder):
    path = folder / table.file
    packed = path.suffix == ".gz"
    whole = path.read_bytes()
    text = gzip.decompress(whole) if packed else whole
    for _ in range(MUTATED):
        if packed and table.draw.random() < 0.5:
            path.write_bytes(mutated(table.draw, whole))
        else:
            changed = mutated(table.draw, text)
            path.write_bytes(gzip.compress(changed) if packed else changed)
        for command in (["inspect", table.file],
                        ["train", "run.json", "--no-save"],
                        ["evaluate", "model", "--csv", table.file],
                        ["predict", "model", "--data", "run.json", "--part",
                         "train"]):
            result = subprocess.run([PROGRAM, *command], cwd=folder, timeout=60,
                                    stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE)
            report = f"{' '.join(command)}: {result.stderr[:400]}"
            assert result.returncode in (0, 1, 2), report
            named = b"error: " in result.stderr and (
                table.file.encode() in result.stderr)
            assert result.returncode == 0 or named, report


def main():
    failed = 0
    cases = range(options.count) if options.case is None else [options.case]
    for case in cases:
        with tempfile.TemporaryDirectory() as name:
            folder = options.keep or pathlib.Path(name)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                table = Table(options.seed, case)
                check(table, folder)
                check_mutated(table, folder)
            except AssertionError as error:
                failed += 1
                print(f"case {case} of seed {options.seed}: {error}")
    print(f"{len(cases) - failed} tables as pandas reads them, {failed} not")
    return 1 if failed else 0


sys.exit(main())
