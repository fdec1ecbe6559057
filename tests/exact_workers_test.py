#!/usr/bin/env python3
"""A run of four replicas gives the same steps and the same file on any workers.

All numbers are compared byte for byte. One to four real processes train on the
shipped data, in a ring and in a tree. They are connected by shared memory, sockets
or TCP, and use several threads and other kernels. Some runs are killed in the
middle and continue with another number of workers. RINGLET_BUILD
names the folder of the build.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from made_runs import ENVIRONMENT, LOGITS_LOSS, PROGRAM, fashion_mnist, layer, sequential

DEADLINE = 240  # seconds, for what takes one

MODEL = sequential(layer("InputLayer", batch_shape=[None, 28, 28]),
                   layer("Reshape", target_shape=[28, 28, 1]),
                   layer("Conv2D", filters=4, kernel_size=3, strides=2),
                   layer("BatchNormalization"), layer("ReLU"), layer("Flatten"),
                   layer("Dropout", rate=0.2),
                   layer("Dense", units=32, activation="tanh"),
                   layer("Dense", units=10))


def write_run(folder, name, strategy, callbacks=(), fit=None):
    run = {
        "model": MODEL,
        "compile": {
            "optimizer": {"class_name": "Adam",
                          "config": {"learning_rate": 0.003,
                                     "global_clipnorm": 1.0}},
            "loss": LOGITS_LOSS, "metrics": ["accuracy"]},
        "data": {"train": fashion_mnist("train"),
                 "validation": fashion_mnist("t10k")},
        "fit": {"batch_size": 8, "epochs": 2, "steps_per_epoch": 7,
                **(fit or {})},
        "callbacks": list(callbacks), "strategy": strategy}
    (folder / name).write_text(json.dumps(run))


def command_of(workers, name, *flags):
    launch = [PROGRAM, "launch", "-n", str(workers), "--"] if workers > 1 else []
    return [*launch, PROGRAM, "train", name, *flags]


def train(folder, workers, communication="auto", threads=1, reduction="exact",
          replicas=4, **variables):
    """The steps' log and the model, as bytes."""
    write_run(folder, "run.json", {"replicas": replicas, "reduction": reduction,
                                   "communication": communication})
    done = subprocess.run(
        command_of(workers, "run.json", "--log-steps", "steps.csv",
                   "--log-digests", "--save", "model.safetensors",
                   "--threads", str(threads)),
        cwd=folder, env=dict(ENVIRONMENT, **variables), timeout=DEADLINE,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return ((folder / "steps.csv").read_bytes(),
            (folder / "model.safetensors").read_bytes())


def kernel_sets():
    """The kernels that fuse, as those of the undisturbed run do."""
    said = subprocess.run([PROGRAM, "--version", "--verbose"], text=True,
                          capture_output=True, check=True).stdout
    return [name for name in ("haswell", "zen", "generic", "fma") if name in said]


def killed(folder, before, after, strategy):
    """Returns the model of a run that is killed with `before` workers and continues
    with `after`."""
    shutil.rmtree(folder / "backup", ignore_errors=True)
    (folder / "steps.csv").unlink(missing_ok=True)
    write_run(folder, "killed.json", strategy,
              [{"class_name": "BackupAndRestore",
                "config": {"backup_dir": "backup", "save_freq": 3}}])
    flags = ("--log-steps", "steps.csv", "--log-digests",
             "--save", "model.safetensors")
    process = subprocess.Popen(
        command_of(before, "killed.json", *flags), cwd=folder, env=ENVIRONMENT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + DEADLINE
    log = folder / "steps.csv"
    while (not log.exists() or log.read_bytes().count(b"\n") < 6) and \
            process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run(command_of(after, "killed.json", *flags), cwd=folder,
                          env=ENVIRONMENT, timeout=DEADLINE, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return (folder / "model.safetensors").read_bytes()


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        steps, model = train(folder, 1)
        assert steps.count(b"\n") == 15, steps

        def check(what, good):
            nonlocal failures
            failures += not good
            print(f"{'ok' if good else 'OTHER BITS'}: {what}", flush=True)

        for what, run in {
                "2 workers": {"workers": 2},
                "2 workers, without shared memory":
                    {"workers": 2, "RINGLET_SHM": "0"},
                "3 workers, tree": {"workers": 3, "communication": "tree"},
                "3 workers, ring, 2 threads":
                    {"workers": 3, "communication": "ring", "threads": 2},
                "4 workers": {"workers": 4},
                "4 workers, small buckets":
                    {"workers": 4, "communication":
                     {"implementation": "ring", "bytes_per_pack": 3000}},
                **{f"2 workers, {name}":
                       {"workers": 2, "RINGLET_KERNELS": name}
                   for name in kernel_sets()}}.items():
            other_steps, other = train(folder, **run)
            check(what, other_steps == steps and other == model)
        strategy = {"replicas": 4, "reduction": "exact"}
        for before, after in ((3, 2), (1, 4)):
            check(f"killed with {before}, gone on with {after}",
                  killed(folder, before, after, strategy) == model)
        # Sums of floats differ, so the comparisons above can fail.
        check("sums of floats differ",
              train(folder, 2, reduction="ring")[1] != model)
        # A sum of two floats has one order.
        alone = train(folder, 1, reduction="ring", replicas=2)
        for shared in "10":
            check(f"2 replicas of 2 workers, floats, RINGLET_SHM={shared}",
                  train(folder, 2, reduction="ring", replicas=2,
                        RINGLET_SHM=shared) == alone)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
