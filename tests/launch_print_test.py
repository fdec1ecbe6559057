#!/usr/bin/env python3
"""The files of `ringlet launch --print` are valid, and start the job.

systemd-analyze checks the unit, sh and bash the scripts, and PyYAML, if it is
there, the files of Kubernetes and compose. The script of ssh trains on this
host, with a program in the place of ssh.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

from free_ports import free_ports

PROGRAM = pathlib.Path(os.environ["RINGLET_BUILD"]) / "tools/ringlet/ringlet"
TRAIN = ["ringlet", "train", "run.json", "", "--save",
         "a model's $x %n \"q\"\nof two lines.safetensors"]
# Kubernetes and Compose replace $x and $(x), and make $$ a $.
WITHOUT_VARIABLES = [word.replace("$", "$$") for word in TRAIN]


def launch(*words, code=0):
    done = subprocess.run([PROGRAM, "launch", *words], text=True,
                          capture_output=True, timeout=100)
    assert done.returncode == code, (words, done)
    return done.stderr if code else done.stdout


def parse_yaml(text):
    try:
        import yaml
    except ImportError:
        done = subprocess.run(
            ["/usr/bin/python3", "-c",
             "import sys, json, yaml;"
             "print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"],
            input=text, text=True, capture_output=True)
        if done.returncode != 0:
            print("no PyYAML: the text is not parsed")
            return None
        return json.loads(done.stdout)
    return list(yaml.safe_load_all(text))


def check_systemd(folder, hosts):
    text = launch("--print", "systemd", "--hosts", hosts, "--", *TRAIN)
    configs = [json.loads(one)
               for one in re.findall(r"^# TF_CONFIG='(.*)'$", text, re.M)]
    assert [one["task"]["index"] for one in configs] == [0, 1, 2], text
    assert configs[0]["cluster"]["worker"] == [
        "board0:8888", "10.0.0.2:7000", "board0:8889"], configs
    start, = re.findall("^ExecStart=(.*)$", text, re.M)
    assert start.endswith('$$x %%n \\"q\\"\\nof two lines.safetensors"'), start
    if shutil.which("systemd-analyze") is None:
        print("no systemd-analyze: the unit is not checked")
        return
    path = folder / "ringlet.service"
    path.write_text(text.replace("/usr/local/bin/ringlet", str(PROGRAM)))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path],
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    said = [line for line in done.stdout.splitlines() if "ringlet" in line]
    assert not said, said


def check_slurm(folder):
    text = launch("--print", "slurm", "-n", "4", "--", *TRAIN)
    assert "--nodes=4 " in text
    (folder / "job.sh").write_text(text)
    subprocess.run(["bash", "-n", folder / "job.sh"], check=True)
    assert shlex.split(text[text.index("srun "):]) == ["srun", *TRAIN], text


def check_kubernetes():
    parsed = parse_yaml(launch("--print", "k8s", "-n", "4", "--", *TRAIN))
    if parsed is None:
        return
    service, job = parsed
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 4
    worker, = job["spec"]["template"]["spec"]["containers"]
    assert worker["command"] == WITHOUT_VARIABLES
    names = {one["name"]: one["value"] for one in worker["env"]}
    assert names["RINGLET_WORLD_SIZE"] == "4"
    assert names["RINGLET_SERVICE"] == service["metadata"]["name"]


def check_compose():
    parsed = parse_yaml(launch("--print", "compose", "-n", "3", "--", *TRAIN))
    if parsed is None:
        return
    services = parsed[0]["services"]
    assert list(services) == ["worker0", "worker1", "worker2"]
    for i, service in enumerate(services.values()):
        assert service["command"] == WITHOUT_VARIABLES
        config = json.loads(service["environment"]["TF_CONFIG"])
        assert config["task"] == {"type": "worker", "index": i}
        assert config["cluster"]["worker"] == [f"{name}:8888"
                                               for name in services]


def check_ssh(folder):
    """Trains: the program in the place of ssh runs the command here."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    ssh = bin_folder / "ssh"
    ssh.write_text('#!/bin/sh\n[ "$1" = -tt ] && exec sh -c "$3"\n')
    ssh.chmod(0o755)
    (bin_folder / "ringlet").symlink_to(PROGRAM)
    run = {"model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 2]}},
        {"class_name": "Dense", "config": {"units": 1}}]}},
           "compile": {"optimizer": "sgd", "loss": "mse"},
           "data": {"train": {"csv": "data.csv", "label": "y"}},
           "fit": {"batch_size": 4, "epochs": 2}}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "data.csv").write_text(
        "a,b,y\n" + "".join(f"{i},{i % 3},{i % 5}\n" for i in range(16)))
    hosts = folder / "hosts"
    hosts.write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(2)))
    subprocess.run([PROGRAM, "keygen", "--out", folder / "job.key"], check=True)
    for name, code in (("m.safetensors", 0), ("no/m.safetensors", 2)):
        done = subprocess.run(
            [PROGRAM, "launch", "--print", "ssh", "--hosts", hosts, "--",
             "ringlet", "train", "run.json", "--save", name],
            cwd=folder, text=True, capture_output=True, check=True)
        script = folder / "job.sh"
        script.write_text(done.stdout)
        subprocess.run(["sh", "-n", script], check=True)
        started = subprocess.run(
            ["sh", script], text=True, capture_output=True, timeout=300,
            env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"})
        assert started.returncode == code, (name, started)
    assert (folder / "m.safetensors").stat().st_size > 0


def check_errors(folder):
    said = launch("--print", "cron", "-n", "2", "--", "true", code=2)
    assert "none of systemd" in said, said
    said = launch("--print", "k8s", "--", "true", code=2)
    assert "-n is missing" in said, said
    said = launch("--print", "ssh", "-n", "2", "--", "true", code=2)
    assert "--hosts" in said, said
    (folder / "two").write_text("a\nb\n")
    said = launch("--print", "k8s", "-n", "3", "--hosts", folder / "two", "--",
                  "true", code=2)
    assert "has 2 hosts" in said, said
    launch("--print", "k8s", "-n", "2", "--hosts", folder / "two", "--", "true")
    said = launch("--hosts", folder / "none", "--", "true", code=2)
    assert "none" in said, said
    for text, what in (("", "has no host"), ("a b\n", "line 1"),
                       ("a\n# b\n[::\n", "line 3"), ("a:1\na:1\n", "a:1")):
        (folder / "wrong").write_text(text)
        said = launch("--print", "ssh", "--hosts", folder / "wrong", "--",
                      "true", code=2)
        assert what in said, (text, said)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        hosts = folder / "boards"
        hosts.write_text("# boards\nboard0  # the chief\n\n 10.0.0.2:7000\n"
                         "board0\n")
        check_systemd(folder, hosts)
        check_slurm(folder)
        check_kubernetes()
        check_compose()
        check_ssh(folder)
        check_errors(folder)


main()
