#!/usr/bin/env python3
"""Writes docs/reference.md to stdout, of what the code itself says.

    write.py BUILD

Classes, fields, defaults and bounds are those that the readers tell
(tools/reference/describe.cc); C++ names are the headers' declarations, and
flags what `ringlet COMMAND --help` prints.
"""
import json
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent

# family -> title, type of its factories in C++, headers, what is to be said.
FAMILIES = {
    "model": ("Models", "", [], """\
What `model.to_json()` writes, of Keras 2 and 3. In C++ `Sequential` and
`Functional` (core/model/model.h)."""),
    "layer": ("Layers", "Layer", ["core/layers/layers.h", "core/layers/layer.h",
                                  "core/layers/custom_layer.h"], """\
A class with a config."""),
    "activation": ("Activations", "Activation", ["core/layers/layer.h"], """\
Names; in C++ enumerators. Softmax is over the last axis."""),
    "initializer": ("Initializers", "Initializer", ["core/layers/initializers.h"],
                    """\
A name, or a class with a config. The random numbers are ringlet's own; the
seed is the model's."""),
    "regularizer": ("Regularizers", "Regularizer", ["core/layers/initializers.h"],
                    """\
A name, or a class with a config. The name `"l1_l2"` alone stands for 0.01 and
0.01."""),
    "constraint": ("Constraints", "", [], "None yet."),
    "optimizer": ("Optimizers", "Optimizer", ["core/model/optimizers.h"], """\
A name, or a class with a config. Of the three clips one may be set."""),
    "learning rate schedule": (
        "Schedules", "LearningRate", ["core/model/optimizers.h"],
        "Classes with a config, as an optimizer's `learning_rate`."),
    "loss": ("Losses", "Loss", ["core/model/losses.h"],
             "A name, or a class with a config."),
    "metric": ("Metrics", "Metric", ["core/model/metrics.h"], """\
A name, or a class with a config. `"accuracy"`, of any case and without a
config, is the one of the three accuracies that fits the model."""),
    "callback": ("Callbacks", "std::shared_ptr<Callback>",
                 ["core/fit/callback.h", "io/events/loggers.h",
                  "io/checkpoint/saving_callbacks.h"], """\
A name, or a class with a config. Relative paths are relative to the folder of
RUN.json. The options of C++ have the fields' names."""),
}

SOURCES = ["io/data/readers.h"]
PARTS = {
    "compile": "May be left out for a saved model, which then goes on as it "
               "was compiled.",
    "data.train": """\
One of three forms: `images` and `labels` (IDX), `x` and `y` (NPY), or `csv`
with `label`, `header` and `separator`; all may be .gz. `sample_weight` is what
each example counts in the loss and in `weighted_metrics`. What is required is so
within its form. x becomes x * `scale` + `offset`. In C++ as below
(io/data/readers.h), or a `Source` of one's own (core/data/source.h); a `Dataset`'s
members (core/data/dataset.h) are tf.data's.""",
    "fit": "In C++ `FitOptions` (core/fit/fit.h).",
    "strategy": """\
For a job of several workers, which the environment names. In C++
`StrategyOptions` (net/strategy/strategy.h).""",
    "strategy.communication": "In C++ `CommunicationOptions`.",
    "strategy.outer": "Of mode local (slow_links.md). In C++ `LocalUpdates`.",
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
        return "anything; passed over", ""
    if not field["takes"]:
        sys.exit(f"{field['path']} {field['name']}: its reader does not say "
                 "what it takes; see FieldReader::Take in io/keras/keras_json.h")
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
    """A row a field; those with one value share theirs."""
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
    """Its names but those of a registry: "Custom>SGD"."""
    return [name for name in info["names"] if ">" not in name]


def family_rows(classes):
    """Fields of all classes first, of all but one too."""
    with_fields = [c for c in classes if c["fields"]]
    lines, common = [], set()
    for field in with_fields[-1]["fields"] if len(with_fields) > 2 else []:
        lacking = [c for c in with_fields
                   if same(field) not in map(same, c["fields"])]
        if len(lacking) <= (len(with_fields) > 3):
            common.add(same(field))
            label = "all but " + code(names_of(lacking[0])[0]) if lacking \
                else "all"
            lines.append((label, field))
    found = []
    for label in ["all"] + sorted({l for l, _ in lines} - {"all"}):
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
            rf"^(?:inline )?{re.escape(kind)} (\w+)\(([^;{{]*|[^;]*?= {{}})\)"
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


def check_factories(classes, found, family):
    """Each class has one, by its name or nearly, or MetricOf takes its kind."""
    known = {name for name, _ in found}
    kinds = (SOURCE / "core/model/metrics.h").read_text()
    for info in classes:
        name = info["names"][0].split(">")[-1]
        likely = {name, name + "Layer", name + "Metric",
                  name.replace("Layer", ""), constant(name)}
        of_kind = family == "metric" and f" k{name},\n" in kinds
        if not known & likely and not of_kind:
            sys.exit(f"the {family} {name} has no factory in the headers")


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


def family_text(family):
    title, kind, headers, about = FAMILIES[family["family"]]
    classes = family["classes"]
    for info in classes:
        if ">" in info["names"][0]:  # known by a name alone
            info["fields"] = []
    text = f"## {title}\n\n{about}\n"
    if any(c["fields"] for c in classes):
        text += "\n" + table(("class", "field", "takes", "default"),
                             family_rows(classes))
    if kind:
        found = declarations(kind, headers)
        check_factories(classes, found, family["family"])
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
    # Keras's class asks something else than the name does.
    have -= {"accuracy"}
    lacking = [code(n) for n in family["keras"] if letters(n) not in have]
    if lacking:
        text += "\n" + wrapped(["Keras 3 has, ringlet has not: " + lacking[0]]
                               + lacking[1:]) + "\n"
    return text


def meaning(part, name):
    """As the schema for editors has it."""
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

`model` is a configuration (see Models), or the path of a .json file with it or
of a saved model; `callbacks` is a list of callbacks; `$schema` is passed over.
The other parts are objects. [run.schema.json](run.schema.json) says the same
for editors.
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
            text += members_text("Dataset", ["core/data/dataset.h"])
    other = {f["path"] for f in fields} - {"data", "data.validation", *PARTS}
    if other:
        sys.exit(f"parts of a RUN.json that are not told of: {other}")
    return text


def flags_text(program):
    def show(*arguments):
        return subprocess.run([program, *arguments, "--help"], check=True,
                              text=True, stdout=subprocess.PIPE).stdout

    commands = re.findall(r"^  ([a-z]+) +(.*)$", show(), re.M)
    text = """## Commands

Exit codes and the environment are in the manual page, ringlet(1). Every command
has `--help`; flags are `--epochs 3` or `--epochs=3`, each once.

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
    told = json.loads(subprocess.run([build / "tools/reference/describe"],
                                     check=True, stdout=subprocess.PIPE).stdout)
    titles = [FAMILIES[f["family"]][0] for f in told["families"]
              if f["family"] in FAMILIES] + ["RUN.json", "Commands"]
    index = ",\n".join(
        ", ".join(f"[{t}](#{t.lower().replace('.', '')})"
                  for t in titles[i:i + 3]) for i in range(0, len(titles), 3))
    text = f"""# Reference

All there is, as the code itself says it: `make reference` writes this page, and
a test compares it. Names, defaults and meanings are Keras 3's; what Keras has
beyond them is refused by name, never passed over, but for what is said to be.

{index}.

"takes" is what a field may be in a configuration; a field that is left out has
its default. "only": Keras has more, ringlet this value (null stands for it
too). "a number" is finite, and within float32 where a model keeps it.
"""
    for family in told["families"]:
        if family["family"] in FAMILIES:
            text += "\n" + family_text(family)
    text += "\n" + run_text(told["run"])
    text += "\n" + flags_text(build / "tools/ringlet/ringlet")
    print(text, end="")


main()
