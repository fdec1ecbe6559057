#!/usr/bin/env python3
"""The program's help, man page, completion and schema agree."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from data_fields import OF_PICTURES, OF_SOUND_ALONE, OF_WINDOWS
from made_runs import PROGRAM, SOURCE

SCHEMA = json.loads((SOURCE / "docs/run.schema.json").read_text())


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def commands():
    return re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.M)


def check_flags():
    manual = (SOURCE / "tools/ringlet/ringlet.1").read_text()
    completion = SOURCE / "tools/ringlet/ringlet.bash"
    for command in commands():
        flags = set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)",
                               run(command, "--help").stdout, re.M))
        flags |= {"--help"}
        section = re.search(rf'^\.SS "ringlet {command} .*?(?=^\.S[SH])',
                            manual, re.M | re.S).group()
        if command == "predict":  # the flags of evaluate
            section += manual
        for flag in flags - {"--help"}:
            assert flag.replace("-", r"\-") in section, (command, flag)
        script = (f"source '{completion}'; COMP_WORDS=(ringlet {command} --); "
                  "COMP_CWORD=2; _ringlet; echo ${COMPREPLY[*]}")
        known = subprocess.run(["bash", "-c", script], text=True, check=True,
                               stdout=subprocess.PIPE).stdout.split()
        assert set(known) == flags, (command, set(known) ^ flags)
    script = (f"source '{completion}'; COMP_WORDS=(ringlet ''); COMP_CWORD=1; "
              "_ringlet; echo ${COMPREPLY[*]}")
    known = subprocess.run(["bash", "-c", script], text=True, check=True,
                           stdout=subprocess.PIPE).stdout.split()
    assert set(known) == set(commands()) | {"--help", "--version"}, known


def types_of(schema):
    names = schema.get("type", [])
    return [names] if isinstance(names, str) else names


def fits(value, schema):
    """True if the value fits the schema; only what the file uses of JSON Schema."""
    if "$ref" in schema:
        target = SCHEMA["$defs"][schema["$ref"].split("/")[-1]]
        if not fits(value, target):
            return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = {"null": value is None, "boolean": isinstance(value, bool),
             "string": isinstance(value, str), "array": isinstance(value, list),
             "object": isinstance(value, dict),
             "integer": type(value) is int,
             "number": type(value) in (int, float)}
    if types_of(schema) and not any(kinds[t] for t in types_of(schema)):
        return False
    if kinds["number"] and value < schema.get("minimum", value):
        return False
    if kinds["array"] and not all(fits(v, schema.get("items", {}))
                                  for v in value):
        return False
    if kinds["object"]:
        known = schema.get("properties", {})
        if schema.get("additionalProperties") is False and set(value) - set(known):
            return False
        if set(schema.get("required", [])) - set(value):
            return False
        if not all(fits(v, known.get(k, {})) for k, v in value.items()):
            return False
    if "anyOf" in schema and not any(fits(value, s) for s in schema["anyOf"]):
        return False
    return "oneOf" not in schema or sum(fits(value, s)
                                        for s in schema["oneOf"]) == 1


def defaults(properties):
    return {name: schema["default"] for name, schema in properties.items()
            if "default" in schema}


def check_schema():
    """The samples fit the schema, and the program accepts it at its defaults."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "samples"
        shutil.copytree(SOURCE / "samples", copy)
        (copy.parent / "data").symlink_to(SOURCE / "data")
        # Another sample begins with its model.
        trained = run("train", copy / "characters.json", "--epochs", "1",
                      "--steps-per-epoch", "1", "--save",
                      copy / "characters.safetensors")
        assert trained.returncode == 0, trained.stderr
        samples = sorted(set(copy.rglob("*.json")) -
                         {copy / "photos/model.json"})
        subprocess.run([sys.executable, copy / "photos/make.py"], check=True)
        subprocess.run([sys.executable, copy / "board/make_data.py",
                        copy / "board"], check=True)
        assert len(samples) >= 8
        for sample in samples:
            text = json.loads(sample.read_text())
            assert fits(text, SCHEMA), sample
            assert not fits({**text, "batch_size": 1}, SCHEMA), sample
            assert run("plan", sample).returncode == 0, sample
    base = json.loads((SOURCE / "samples/mnist.json").read_text())
    whole = {**base}
    del whole["$schema"]
    for part in ("compile", "fit", "strategy"):
        whole[part] = defaults(SCHEMA["properties"][part]["properties"])
    whole["data"]["validation"] = {
        name: value for name, value in
        defaults(SCHEMA["$defs"]["data"]["properties"]).items()
        if name not in OF_PICTURES + OF_SOUND_ALONE + OF_WINDOWS}
    whole["data"]["validation"]["csv"] = "none.csv"
    whole["compile"]["loss"] = base["compile"]["loss"]
    assert fits(whole, SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.json"

        def plan(what):
            path.write_text(json.dumps(what))
            return run("plan", path, "--json")

        result = plan(whole)
        assert result.returncode == 0, result.stderr
        # The defaults of the schema are the program's.
        short = {"model": base["model"],
                 "compile": {"loss": base["compile"]["loss"]}}
        assert plan(short).stdout == result.stdout, plan(short)
        summaries = set()
        for what in (short, whole):
            path.write_text(json.dumps(what))
            summaries.add(run("summary", path).stdout)
        assert len(summaries) == 1 and " Compiled: " in summaries.pop()
        # A field that the schema does not have is refused by the program too.
        for part in ("compile", "fit", "strategy"):
            wrong = {**whole, part: {**whole[part], "more": 1}}
            assert not fits(wrong, SCHEMA)
            assert plan(wrong).returncode == 2, part


check_flags()
check_schema()
print("flags, manual, completion and schema agree")
