#!/usr/bin/env python3
"""Data larger than the stated memory train to one result, within that memory.

Each form of data trains with "memory" in small blocks: alone, with two threads,
as a job of two and three workers, and killed and resumed. All steps' logs and
models are compared byte for byte. Then large files train with little address
space. RINGLET_BUILD names the folder of the build.
"""
import array
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import made_runs
from made_runs import LOGITS_LOSS, PROGRAM, layer, sequential

DEADLINE = 240  # seconds, for what takes one
ENVIRONMENT = {k: v for k, v in made_runs.ENVIRONMENT.items()
               if k != "MALLOC_PERTURB_"}
SANITIZED = "sanitize" in os.environ.get("RINGLET_TEST_FLAGS", "")
EXAMPLES, VALUES = 1003, 16
FLAGS = ("--log-steps", "steps.csv", "--log-digests",
         "--save", "model.safetensors")


# --- files ------------------------------------------------------------------

def drawn(count, below):
    state = 1
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xffffffff
        yield (state >> 16) % below


def little(code, numbers):
    packed = array.array(code, numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def npy(descr, shape, data=b""):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + \
        header.encode() + data


def idx(kind, dims, data):
    return bytes([0, 0, kind, len(dims)]) + \
        b"".join(struct.pack(">I", d) for d in dims) + data


def wav(samples, channels=1):
    data = little("h", samples)
    form = struct.pack("<HHIIHH", 1, channels, 16000, 32000 * channels,
                       2 * channels, 16)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + \
        struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + \
        data


def write_files(folder):
    x = list(drawn(EXAMPLES * VALUES, 200))
    y = list(drawn(EXAMPLES, 4))
    for name, descr, code in (("f4", "<f4", "f"), ("f8", "<f8", "d"),
                              ("i2", "<i2", "h"), ("u1", "|u1", "B")):
        (folder / f"{name}.npy").write_bytes(
            npy(descr, (EXAMPLES, VALUES), little(code, x)))
    (folder / "y.npy").write_bytes(npy("<i4", (EXAMPLES,), little("i", y)))
    big = array.array("f", x)
    if sys.byteorder == "little":
        big.byteswap()
    (folder / "x.idx").write_bytes(idx(13, (EXAMPLES, VALUES), big.tobytes()))
    (folder / "y.idx").write_bytes(idx(8, (EXAMPLES,), bytes(y)))
    with open(folder / "d.csv", "w", encoding="utf-8") as table:
        for i in range(EXAMPLES):
            row = x[i * VALUES:(i + 1) * VALUES]
            table.write(",".join(map(str, row)) + f",k{y[i]}\n")
    for i in range(130):
        part = folder / "shapes" / f"k{i % 4}"
        part.mkdir(parents=True, exist_ok=True)
        (part / f"{i}.pgm").write_bytes(
            b"P5 4 4 255\n" + bytes(x[i * VALUES:(i + 1) * VALUES]))
        part = folder / "words" / f"k{i % 4}"
        part.mkdir(parents=True, exist_ok=True)
        (part / f"{i}.wav").write_bytes(wav(x[i * VALUES:(i + 1) * VALUES]))
    (folder / "long.wav").write_bytes(wav(x))


# --- runs -------------------------------------------------------------------

WINDOWS = {"sequence_length": VALUES, "sequence_stride": 5, "target_offset": 0,
           "target_length": VALUES, "target_columns": [0]}

# form -> (shape of x, data, fit)
FORMS = {
    "npy float32": ([VALUES], {"x": "f4.npy", "y": "y.npy"}),
    "npy float64": ([VALUES], {"x": "f8.npy", "y": "y.npy"}),
    "npy int16": ([VALUES], {"x": "i2.npy", "y": "y.npy"}),
    "npy uint8": ([VALUES], {"x": "u1.npy", "y": "y.npy"}),
    "idx float32": ([VALUES], {"images": "x.idx", "labels": "y.idx"}),
    "csv": ([VALUES], {"csv": "d.csv", "label": VALUES, "header": False}),
    "list": ([VALUES], {"x": ["f4.npy"], "y": ["y.idx"]}),
    "pictures": ([4, 4, 1], {"directory": "shapes", "memory": 2000}),
    "sound": ([VALUES], {"audio_directory": "words", "memory": 4000}),
    "recording": ([VALUES, 1], {"x": "long.wav", **WINDOWS}),
    "own order": ([VALUES], {"x": "f4.npy", "y": "y.npy",
                             "auto_shard_policy": "off"}),
}


def write_run(folder, form, callbacks=(), batch=4, **fields):
    shape, data = FORMS[form]
    data = {"scale": 1 / 255, "memory": "40K", **data, **fields}
    windows = "sequence_length" in data
    layers = [layer("InputLayer", batch_shape=[None, *shape]), layer("Flatten"),
              layer("Dense", units=VALUES if windows else 4)]
    if windows:
        layers.append(layer("Reshape", target_shape=[VALUES, 1]))
    run = {
        "model": sequential(*layers),
        "compile": {"optimizer": "adam", "loss": 
                    "mse" if windows else LOGITS_LOSS},
        "data": {"train": data},
        "fit": {"batch_size": batch, "epochs": 2, "seed": 3,
                "validation_split": 0.1},
        "callbacks": list(callbacks),
        "strategy": {"replicas": 3, "reduction": "exact"}}
    if form in ("pictures", "sound"):
        del run["fit"]["validation_split"]
        data["validation_split"] = 0.1
    (folder / "run.json").write_text(json.dumps(run))


def command_of(workers, *flags):
    launch = [PROGRAM, "launch", "-n", str(workers), "--"] if workers > 1 else []
    return [*launch, PROGRAM, "train", "run.json", *FLAGS, *flags]


def finish(folder, workers, *flags, **pipe):
    done = subprocess.run(
        command_of(workers, *flags), cwd=folder, env=ENVIRONMENT,
        timeout=DEADLINE, **pipe, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout.decode()
    return ((folder / "steps.csv").read_bytes(),
            (folder / "model.safetensors").read_bytes())


def killed(folder, form, workers):
    shutil.rmtree(folder / "backup", ignore_errors=True)
    log = folder / "steps.csv"
    log.unlink(missing_ok=True)
    write_run(folder, form, [layer("BackupAndRestore", backup_dir="backup",
                                   save_freq=3)])
    process = subprocess.Popen(
        command_of(1), cwd=folder, env=ENVIRONMENT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + DEADLINE
    while (not log.exists() or log.read_bytes().count(b"\n") < 6) and \
            process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return finish(folder, workers)[1]


def check_plan(folder, check):
    write_run(folder, "npy float32")
    plan = subprocess.run([PROGRAM, "plan", "run.json", "--limit", "64M", "--json"],
                          cwd=folder, env=ENVIRONMENT, capture_output=True)
    check("plan: the memory and the labels",
          json.loads(plan.stdout)["data"] == (40 << 10) + 4 * EXAMPLES)


def check_results(folder, check):
    for form in FORMS:
        write_run(folder, form)
        steps, model = finish(folder, 1)
        every_way = form in ("npy float32", "pictures")
        check(f"{form}: 2 threads",
              finish(folder, 1, "--threads", "2") == (steps, model))
        for workers in (2, 3) if every_way else (3,):
            check(f"{form}: {workers} workers",
                  finish(folder, workers) == (steps, model))
        for workers in (1, 2) if every_way else (1,):
            check(f"{form}: killed, goes on with {workers}",
                  killed(folder, form, workers) == model)
        if form in ("npy float32", "csv"):
            write_run(folder, form, memory="30K")
            check(f"{form}: another memory, another order",
                  finish(folder, 1)[1] != model)
            write_run(folder, form, memory="1GB")
            all_fit = finish(folder, 1)
            write_run(folder, form, memory=None, in_memory=True)
            check(f"{form}: all in memory", finish(folder, 1) == all_fit)
            key, name = ("x", "f4.npy") if "npy" in form else ("csv", "d.csv")
            write_run(folder, form, **{key: "/dev/stdin"})
            check(f"{form}: by standard input",
                  finish(folder, 1, input=(folder / name).read_bytes())
                  == (steps, model))
        for batch in (1, 100):
            write_run(folder, form, batch=batch, memory="60K")
            steps, model = finish(folder, 1)
            check(f"{form}: 3 workers, batch {batch}",
                  finish(folder, 3) == (steps, model))


# --- sizes ------------------------------------------------------------------

def check_sizes(folder, check):
    """Files with holes are read as zeros, and take no room on the disk."""
    size = 512 << 20
    rows = size // (4 * VALUES)
    with open(folder / "large.npy", "wb") as file:
        file.write(npy("<f4", (rows, VALUES)))
        file.truncate(file.tell() + rows * VALUES * 4)
    with open(folder / "large_y.npy", "wb") as file:
        file.write(npy("<i4", (rows,)))
        file.truncate(file.tell() + rows * 4)
    with open(folder / "large.wav", "wb") as file:
        head = wav([])
        file.write(head[:-4] + struct.pack("<I", size))
        file.truncate(len(head) + size)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (64 << 20,) * 2)

    def train(form, **data):
        write_run(folder, form, batch=32, **data)
        run = json.loads((folder / "run.json").read_text())
        run["fit"].update(steps_per_epoch=20, validation_steps=2)
        del run["strategy"]
        (folder / "run.json").write_text(json.dumps(run))
        return subprocess.run(
            [PROGRAM, "train", "run.json", "--no-save"], cwd=folder,
            env=ENVIRONMENT, preexec_fn=limit, timeout=DEADLINE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    for form, data in (
            ("npy float32", {"x": "large.npy", "y": "large_y.npy"}),
            ("recording", {"x": "large.wav"})):
        done = train(form, memory="16MB", **data)
        check(f"{form}: 512 MB in 64 MB {done.stdout if done.returncode else ''}",
              done.returncode == 0)
        done = train(form, memory="4K" if form == "recording" else "3K", **data)
        check(f"{form}: too little memory is an error",
              done.returncode == 2 and "give at least" in done.stdout)


def main():
    failures = 0

    def check(what, good):
        nonlocal failures
        failures += not good
        print(f"{'ok' if good else 'WRONG'}: {what}", flush=True)

    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        write_files(folder)
        check_plan(folder, check)
        check_results(folder, check)
        if not SANITIZED:
            check_sizes(folder, check)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
