#!/usr/bin/env python3
"""The blocks of docs/porting.md do what the page states."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

from made_runs import PROGRAM, SOURCE

PAGE = (SOURCE / "docs/porting.md").read_text()
SECURITY = (SOURCE / "docs/security.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)


def block(kind, word):
    found = [text for info, text in BLOCKS if info == kind and word in text]
    assert len(found) == 1, (kind, word, len(found))
    return found[0]


def run_json(folder):
    run = json.loads((SOURCE / "samples/mnist.json").read_text())
    for part in run["data"].values():
        for key in ("images", "labels"):
            part[key] = str(SOURCE / "samples" / part[key])
    run["model"]["config"]["layers"][1:4] = [{"class_name": "Flatten"}]
    run["fit"] = {"batch_size": 8, "epochs": 1, "steps_per_epoch": 3}
    (folder / "run.json").write_text(json.dumps(run))


def environment(**more):
    return {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", **more}


def two_free_ports():
    """The first of two neighbours, below the range of the kernel's own."""
    for port in range(20000 + os.getpid() % 10000, 32000):
        try:
            with socket.socket() as one, socket.socket() as two:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
                return port
        except OSError:
            continue
    raise AssertionError("no free ports")


def check_service(folder):
    check_unit(folder, block("ini", "[Service]"))
    check_unit(folder, re.search(r"^```ini\n(.*?)^```$", SECURITY,
                                 re.M | re.S).group(1))


def check_unit(folder, unit):
    if shutil.which("systemd-analyze") is None:
        print("no systemd-analyze: the unit is not checked")
        return
    path = folder / "ringlet.service"
    # verify needs the program to exist.
    path.write_text(unit.replace("/usr/local/bin/ringlet", f'"{PROGRAM}"'))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path],
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    said = [line for line in done.stdout.splitlines() if "ringlet" in line]
    assert not said, said


def check_slurm(folder):
    script = block("sh", "#SBATCH")
    (folder / "job.sh").write_text(script)
    subprocess.run(["bash", "-n", folder / "job.sh"], check=True)
    command = re.search(r"^srun (.*)$", script, re.M).group(1)
    port = two_free_ports()
    tasks = [subprocess.Popen(
        ["bash", "-c", command], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment(SLURM_PROCID=str(rank), SLURM_NTASKS="2",
                        SLURM_JOB_NODELIST="127.0.0.1",
                        SLURM_TASKS_PER_NODE="2",
                        SLURM_DISTRIBUTION="cyclic", RINGLET_PORT=str(port)))
        for rank in range(2)]
    try:
        for task in tasks:
            printed, _ = task.communicate(timeout=100)
            assert task.returncode == 0, printed
    finally:
        for task in tasks:
            task.kill()
    assert (folder / "model.safetensors").exists()


def check_tf_config(folder):
    script = block("sh", "TF_CONFIG")
    text = re.search(r"TF_CONFIG='(.*?)'", script, re.S).group(1)
    config = json.loads(text)
    assert config["task"]["index"] < len(config["cluster"]["worker"])
    # Unchanged, but for a single worker with an address of this host.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        config["cluster"]["worker"] = [
            "127.0.0.1:%d" % free.getsockname()[1]]
    done = subprocess.run(
        ["bash", "-c", script.replace(text, json.dumps(config))], cwd=folder,
        env=environment(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=100)
    assert done.returncode == 0, done.stdout


def check_kubernetes():
    try:
        import yaml
    except ImportError:
        print("no python3-yaml: the manifest is not read")
        return
    job = yaml.safe_load(block("yaml", "TFJob"))
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    assert worker["containers"][0]["name"] == "tensorflow"
    service, job = yaml.safe_load_all(block("yaml", "Indexed"))
    assert job["spec"]["template"]["spec"]["subdomain"] == (
        service["metadata"]["name"])
    rules = {rule["action"]: rule["onExitCodes"]["values"]
             for rule in job["spec"]["podFailurePolicy"]["rules"]}
    assert rules == {"FailJob": [2], "Ignore": [75]}, rules
    unit = block("ini", "[Service]")
    assert "RestartPreventExitStatus=2\n" in unit
    for text in (unit, block("yaml", "TFJob"), block("yaml", "Indexed")):
        assert "--save" in text


def check_recipes():
    options = (SOURCE / "meson_options.txt").read_text()
    for kind in ("bitbake", "make"):
        text = block(kind, "-Dblis=none")
        for option in re.findall(r"-D(\w+)=", text):
            assert f"option('{option}'" in options, option


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    run_json(place)
    check_service(place)
    check_slurm(place)
    check_tf_config(place)
    check_kubernetes()
    check_recipes()
