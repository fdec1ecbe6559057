#!/usr/bin/env python3
"""Writes docs/reference.md to stdout, from the code.

    write.py BUILD

Classes, fields, defaults and bounds come from the readers
(tools/reference/describe.cc). C++ names come from the headers, flags from
`ringlet COMMAND --help`, and the meanings of RUN.json's fields from
docs/run.schema.json.
"""
import json
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent

# category -> title, type of its factories in C++, headers, introduction
CATEGORIES = {
    "model": ("Models", "", [], """\
The output of `model.to_json()` in Keras 2 or 3. In C++: `Sequential` and
`Functional` (ringlet/model.h)."""),
    "layer": ("Layers", "Layer", ["ringlet/layers.h", "ringlet/custom_layer.h"], """\
A class with a config."""),
    "activation": ("Activations", "Activation", ["ringlet/layers.h"], """\
A name; in C++ an enumerator. Softmax is over the last axis."""),
    "initializer": ("Initializers", "Initializer", ["ringlet/layers.h"],
                    """\
A name, or a class with a config. The random numbers are not Keras's; the seed
is the model's."""),
    "regularizer": ("Regularizers", "Regularizer", ["ringlet/layers.h"],
                    """\
A name, or a class with a config. The name `"l1_l2"` without a config
means l1 = 0.01 and l2 = 0.01."""),
    "constraint": ("Constraints", "Constraint", ["ringlet/layers.h"], """\
A name, or a class with a config. It replaces a trained weight after each update
of the optimizer. An `axis` of null means all axes, and a missing one 0."""),
    "optimizer": ("Optimizers", "Optimizer", ["ringlet/optimizers.h"], """\
A name, or a class with a config. At most one of the three clips may
be set."""),
    "learning rate schedule": (
        "Schedules", "LearningRate", ["ringlet/optimizers.h"],
        "A class with a config, for an optimizer's `learning_rate`."),
    "loss": ("Losses", "Loss", ["ringlet/losses.h"],
             "A name, or a class with a config."),
    "metric": ("Metrics", "Metric", ["ringlet/metrics.h"], """\
A name, or a class with a config. `"accuracy"` without a config, in upper
or lower case, is the one of the three accuracies that fits the model."""),
    "callback": ("Callbacks", "std::shared_ptr<Callback>",
                 ["ringlet/fit.h", "ringlet/loggers.h",
                  "ringlet/checkpoint.h"], """\
A name, or a class with a config. Relative paths are relative to the folder of
RUN.json. The C++ options have the names of these fields."""),
}

SOURCES = ["ringlet/readers.h"]
PARTS = {
    "compile": "Optional for a saved model: its file has the arguments of Compile.",
    "lora": """\
Optional. The named Dense and Embedding layers get LoRA, or all without
`layers`; all other layers are frozen. In C++: `EnableLora` (ringlet/model.h).""",
    "data.train": """\
One of five forms: `images` and `labels` (IDX), `x` and `y` (NPY), `csv` with
the fields after it, `directory` with the fields after it (pictures), or
`audio_directory` (sound). Each file may be .gz, but not pictures and sound.
"required" means: required in its form. x becomes x * `scale` + `offset`. C++ has the functions
below (ringlet/readers.h), or a program defines its own `Source`
(ringlet/dataset.h). The members of `Dataset` (ringlet/dataset.h) are those of
tf.data.""",
    "fit": "In C++: `FitOptions` (ringlet/fit.h).",
    "strategy": """\
For a job with several workers. Environment variables such as TF_CONFIG list the
workers. In C++: `StrategyOptions` (ringlet/strategy.h).""",
    "strategy.communication": "In C++: `CommunicationOptions`.",
    "strategy.outer": "For mode local (slow_links.md). In C++: `LocalUpdates`.",
}


def shorter(text):
    """2147483648 as 2^31."""
    def power(match):
        number = int(match.group())
        for n in range(16, 64):
            if number in (2**n, 2**n - 1):
                return f"2^{n}" + ("" if number == 2**n else " - 1")
        return match.group()
    return re.sub(r"\d{5,}", power, text)


def code(name):
    return f"`{name}`"


def cells(field):
    """What a field takes, and its default."""
    if field["ignored"]:
        return "anything; ignored", ""
    if not field["takes"]:
        sys.exit(f"{field['path']} {field['name']}: its reader does not "
                 "give what it takes; see FieldReader::Take in io/keras/keras_json.h")
    takes = shorter(field["takes"])
    if field["default"] == "null" and not (field["null"] or field["required"]):
        sys.exit(f"{field['path']} {field['name']}: no default, and null is "
                 "refused; it lacks a FieldReader::Require or Has")
    if field["only"]:
        return f"only `{takes}`", ""
    if field["null"]:
        takes += ", or null"
    return takes, "required" if field["required"] else code(field["default"])


def rows(label, fields):
    """A row for each field; fields with only one value share a row."""
    plain = [f for f in fields if not f["only"] and not f["ignored"]]
    found = [(code(f["name"]), *cells(f)) for f in plain]
    shared = {}
    for field in fields:
        if field["only"] or field["ignored"]:
            shared.setdefault(cells(field), []).append(code(field["name"]))
    for what, names in sorted(shared.items(), key=lambda s: "any" in s[0][0]):
        found.append((", ".join(names), *what))
    return [(label if i == 0 else "", *row) for i, row in enumerate(found)]


def table(head, lines):
    text = "| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|\n"
    return text + "".join("| " + " | ".join(line) + " |\n" for line in lines)


def same(field):
    return tuple(sorted(field.items()))


def names_of(info):
    """Its names without those of a registry, such as "Custom>SGD"."""
    return [name for name in info["names"] if ">" not in name]


def category_rows(classes):
    """First the fields of all classes, and of all classes but one."""
    with_fields = [c for c in classes if c["fields"]]
    # "accuracy" has only a name.
    without = [names_of(c)[0] for c in classes if not c["fields"] and
               not c["refusal"] and names_of(c)[:1] not in ([], ["accuracy"])]
    everyone = "all but " + code(without[0]) if len(without) == 1 else "all"
    lines, common = [], set()
    for field in with_fields[-1]["fields"] if len(with_fields) > 2 else []:
        lacking = [c for c in with_fields
                   if same(field) not in map(same, c["fields"])]
        if len(lacking) <= (len(with_fields) > 3):
            common.add(same(field))
            label = "all but " + code(names_of(lacking[0])[0]) if lacking \
                else everyone
            lines.append((label, field))
    found = []
    for label in [everyone] + sorted({l for l, _ in lines} - {everyone}):
        found += rows(label, [f for l, f in lines if l == label])
    for info in classes:
        label = ", ".join(map(code, names_of(info)))
        own = [f for f in info["fields"] if same(f) not in common]
        if info["refusal"]:
            found.append((label, "", "refused: " + info["refusal"], ""))
        else:
            found += rows(label, own) or [(label, "", "", "")]
    return found


def declarations(kind, headers):
    """[(name, declaration)] of the factories of a type."""
    text = "\n".join((SOURCE / header).read_text() for header in headers)
    if kind == "Activation":
        names = re.search(r"enum Activation[^{]*{([^}]*)}", text).group(1)
        return [(n, n) for n in re.findall(r"\w+", names)]
    found = []
    for match in re.finditer(
            rf"^(?:inline )?{re.escape(kind)} (\w+)\(([^;{{]*|[^;]*?= {{\d*}})\)"
            r"\s*[;{]", text, re.M):
        arguments = " ".join(match.group(2).split())
        found.append((match.group(1), f"{match.group(1)}({arguments})"))
    return found


def members_text(kind, headers):
    """The public members of a class that return `kind`."""
    text = "\n".join((SOURCE / header).read_text() for header in headers)
    public = re.sub(r"^ private:.*?^};", "", text, flags=re.M | re.S)
    names = [*dict.fromkeys(re.findall(rf"^  {re.escape(kind)} (\w+)\(",
                                       public, re.M))]
    if not names:
        return ""
    names[1:] = map(code, names[1:])
    names[0] = ("Setters: " if kind.endswith("&") else "Members: ") + \
        code(names[0])
    return "\n" + wrapped(names) + "\n"


def constant(name):
    """"kHardSigmoid" of "hard_sigmoid"."""
    return "k" + "".join(part.capitalize() for part in name.split("_"))


def check_factories(classes, found, category):
    """Each class has a factory with a similar name, or is a kind of MetricOf."""
    known = {name for name, _ in found}
    kinds = (SOURCE / "ringlet/metrics.h").read_text()
    for info in classes:
        name = info["names"][0].split(">")[-1]
        likely = {name, name + "Layer", name + "Metric",
                  name.replace("Layer", ""), constant(name)}
        of_kind = category == "metric" and f" k{name},\n" in kinds
        if not known & likely and not of_kind:
            sys.exit(f"the {category} {name} has no factory in the headers")


def wrapped(words, width=80):
    lines = [""]
    for i, word in enumerate(words):
        word += "," if i + 1 < len(words) else "."
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def letters(name):
    return name.replace("_", "").lower()


def category_text(category):
    title, kind, headers, about = CATEGORIES[category["category"]]
    classes = category["classes"]
    for info in classes:
        if ">" in info["names"][0]:  # known by a name alone
            info["fields"] = []
    text = f"## {title}\n\n{about}\n"
    if any(c["fields"] for c in classes):
        text += "\n" + table(("class", "field", "takes", "default"),
                             category_rows(classes))
    if kind:
        found = declarations(kind, headers)
        check_factories(classes, found, category["category"])
        if kind == "Activation":
            text += "\n" + table(("name", "C++"), [
                (code(c["names"][0]), code(constant(c["names"][0])))
                for c in classes])
        else:
            text += f"\nC++ ({', '.join(headers)}):\n\n```cpp\n"
            text += "".join(d + "\n" for _, d in found) + "```\n"
            text += members_text(f"{kind}&", headers)
    have = {letters(n) for c in classes if not c["refusal"]
            for n in names_of(c)}
    # Keras's class Accuracy is another metric than the name "accuracy".
    have -= {"accuracy"}
    lacking = [code(n) for n in category["keras"] if letters(n) not in have]
    if lacking:
        text += "\n" + wrapped(["In Keras 3, but not in ringlet: " + lacking[0]]
                               + lacking[1:]) + "\n"
    return text


def meaning(part, name):
    """The field's description in the schema for editors."""
    at = json.loads((SOURCE / "docs/run.schema.json").read_text())
    definitions = at["$defs"]
    for step in part.split(".") + [name]:
        at = at["anyOf"][1] if "anyOf" in at else at
        at = at["properties"][step]
        if "$ref" in at and "description" not in at:
            at = definitions[at["$ref"].split("/")[-1]]
    return at.get("description", "").replace("|", "\\|")


def run_text(fields):
    text = """## RUN.json

`model` is a configuration (see Models), the path of a .json file with one, or
the path of a saved model. `callbacks` is a list of callbacks. `$schema` is
ignored. The other parts are objects. Editors can check a file with
[run.schema.json](run.schema.json).
"""
    for part, about in PARTS.items():
        own = [f for f in fields if f["path"] == part]
        name = part.replace(".train", ".train, data.validation")
        text += f"\n### {name}\n\n{about}\n\n"
        lines = []
        for _, names, *value in rows("", own):
            first = names.split("`")[1]
            lines.append((names, *value, meaning(part, first)))
        text += table(("field", "takes", "default", ""), lines)
        if part == "data.train":
            text += "\n```cpp\n" + "".join(
                d + "\n" for _, d in declarations("Dataset", SOURCES)) + "```\n"
            text += members_text("Dataset", ["ringlet/dataset.h"])
    other = {f["path"] for f in fields} - {"data", "data.validation", *PARTS}
    if other:
        sys.exit(f"parts of a RUN.json without a description: {other}")
    return text


def flags_text(program):
    def show(*arguments):
        return subprocess.run([program, *arguments, "--help"], check=True,
                              text=True, stdout=subprocess.PIPE).stdout

    commands = re.findall(r"^  ([a-z]+) +(.*)$", show(), re.M)
    text = """## Commands

The manual page ringlet(1) describes exit codes and environment variables. Every
command has `--help`. A flag has the form `--epochs 3` or `--epochs=3`, and may
be given once.

"""
    lines = []
    for name, about in commands:
        flags = []
        for line in show(name).splitlines():
            if line.startswith("  -"):
                flag, what = line[:26], line[26:]
                if len(line) > 26 and line[25] != " ":
                    flag, what = line, ""
                flags.append([code(flag.strip()), what.strip()])
            elif line.startswith(" " * 26) and flags:
                flags[-1][1] = (flags[-1][1] + " " + line.strip()).strip()
        usage = show(name).splitlines()[0].replace("usage: ", "")
        lines.append((code(usage).replace("|", "\\|"), "", about))
        lines += [("", flag, what.replace("|", "\\|"))
                  for flag, what in flags if "--help" not in flag]
    return text + table(("command", "flag", ""), lines)


def main():
    build = pathlib.Path(sys.argv[1])
    description = json.loads(subprocess.run(
        [build / "tools/reference/describe"], check=True, stdout=subprocess.PIPE).stdout)
    titles = [CATEGORIES[f["category"]][0] for f in description["categories"]
              if f["category"] in CATEGORIES] + ["RUN.json", "Commands"]
    index = ",\n".join(
        ", ".join(f"[{t}](#{t.lower().replace('.', '')})"
                  for t in titles[i:i + 3]) for i in range(0, len(titles), 3))
    text = f"""# Reference

This page lists all that configurations and commands accept. `make reference` writes it
from the code, and a test compares it. Names, defaults and meanings are Keras 3's. A name of
Keras that is not here is refused with an error that names it, except where this page says
that it is ignored.

{index}.

"takes" lists the values of a field in a configuration. A missing field has its default.
"only" means that Keras has more values, and ringlet accepts only this one, or null (no null for `window`). "a
number" is finite, and within the range of float32 if a model keeps it.
"""
    for category in description["categories"]:
        if category["category"] in CATEGORIES:
            text += "\n" + category_text(category)
    text += "\n" + run_text(description["run"])
    text += "\n" + flags_text(build / "tools/ringlet/ringlet")
    print(text, end="")


main()
