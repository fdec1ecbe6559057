#!/usr/bin/env python3
"""The output and files of `ringlet train`, as a user sees them.

Runs real processes on the shipped data. Tests their lines through a pipe and on a
terminal, their files, and signals. RINGLET_BUILD
names the folder of the build.
"""
import gzip
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from made_runs import ENVIRONMENT, LOGITS_LOSS, PROGRAM, SOURCE, layer, sequential

DEADLINE = 120  # seconds, for what takes a second


class Folder:
    """A folder of its own with data and a RUN.json in it."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.environment = dict(ENVIRONMENT)
        data = self.path / "data"
        data.mkdir(parents=True)
        for file in (SOURCE / "data/fashion-mnist-mini").glob("*.gz"):
            shutil.copy(file, data)
        self.write()

    def write(self, name="run.json", units=8, fit=None, callbacks=(),
              scale=1 / 255, rate=0.01, images="train-images-idx3-ubyte.gz"):
        def part(images, labels):
            return {"images": f"data/{images}", "labels": f"data/{labels}",
                    "scale": scale}
        run = {
            "model": sequential(layer("InputLayer", batch_shape=[None, 28, 28]),
                                layer("Flatten"),
                                layer("Dense", units=units, activation="relu"),
                                layer("Dense", units=10)),
            "compile": {
                "optimizer": {"class_name": "SGD",
                              "config": {"learning_rate": rate}},
                "loss": LOGITS_LOSS, "metrics": ["accuracy"]},
            "data": {"train": part(images, "train-labels-idx1-ubyte.gz"),
                     "validation": part("t10k-images-idx3-ubyte.gz",
                                        "t10k-labels-idx1-ubyte.gz")},
            "fit": {"batch_size": 16, "epochs": 2, "steps_per_epoch": 3,
                    **(fit or {})},
            "callbacks": list(callbacks)}
        (self.path / name).write_text(json.dumps(run))

    def start(self, *arguments, **options):
        return subprocess.Popen(
            [PROGRAM, *arguments], cwd=options.pop("cwd", self.path),
            env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, **options)

    def run(self, *arguments, code=0, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == code, (arguments, process.returncode, out,
                                            err)
        return out, err

    def models(self):
        return {p.name: p.read_bytes() for p in self.path.glob("*.safetensors*")}


def metadata(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length])["__metadata__"]


def wait_for(stream, text):
    """The lines of `stream`, of which none was read, up to one with `text`."""
    said, end = b"", time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if select.select([stream], [], [], 1)[0]:
            more = os.read(stream.fileno(), 4096)
            assert more, said
            said += more
            if text in said.decode() and said.endswith(b"\n"):
                return said.decode().splitlines()
    sys.exit(f"no line with {text!r} in {said}")


ENDLESS = {"epochs": 10 ** 9, "steps_per_epoch": 3}
KEEPS = "the trained model goes to "


def test_lines_come_through_a_pipe_as_they_are_made(folder):
    # The run has no end, so a line left in a buffer would never arrive.
    folder.write(fit={**ENDLESS, "steps_per_epoch": 10 ** 9})
    process = folder.start("train", "run.json", "--no-save")
    lines = wait_for(process.stdout, "Epoch 1/")
    process.kill()
    process.communicate()
    assert lines[0].startswith("run.json: 1000000000 epochs of 1000000000 "
                               "steps, batch size 16, 1 thread"), lines
    # The first of all is there before data are read.
    folder.write(images="none.gz")
    out, err = folder.run("train", "run.json", code=2)
    assert out == "run.json: 2 epochs of 3 steps, batch size 16, 1 thread\n", out
    assert re.fullmatch(r"error: .*none\.gz.*\n", err), err


def test_a_run_keeps_its_model(folder):
    out, err = folder.run("train", "run.json")
    lines = out.splitlines()
    assert err == "" and KEEPS + "run.safetensors" in lines[1], out
    assert lines[-1] == ("the model is in run.safetensors; to use it: ringlet "
                         "evaluate run.safetensors --data run.json"), out
    used, _ = folder.run(*lines[-1].split("ringlet ")[1].split())
    assert "accuracy" in used, used
    first = folder.models()
    # The same run gives the same file, and takes its place.
    folder.run("train", "run.json")
    assert folder.models() == first
    # Another does not, whatever decides it: flags, fields, data.
    names = ["run.safetensors"]

    def another(*flags):
        out, _ = folder.run("train", "run.json", *flags)
        names.append(f"run-{len(names)}.safetensors")
        assert f"{KEEPS}{names[-1]}, for run.safetensors is of another run" \
            in out, out
        assert sorted(folder.models()) == sorted(names), folder.models().keys()
        assert folder.models()["run.safetensors"] == first["run.safetensors"]

    another("--seed", "2")
    another("--no-shuffle")
    another("--init", "run.safetensors")
    folder.write(rate=0.02)
    another()
    folder.write(units=9)
    another()
    folder.write(callbacks=["TerminateOnNaN"])
    another()
    # Files of one name and size that hold something else.
    folder.write()
    for part in ("images-idx3", "labels-idx1"):
        (folder.path / f"data/train-{part}-ubyte.gz").rename(
            folder.path / "data/kept")
        shutil.copy(folder.path / f"data/t10k-{part}-ubyte.gz",
                    folder.path / f"data/train-{part}-ubyte.gz")
        (folder.path / "data/kept").rename(
            folder.path / f"data/t10k-{part}-ubyte.gz")
    another()


def test_every_example_decides_which_run_it_is(folder):
    images = bytearray(gzip.decompress(
        (folder.path / "data/train-images-idx3-ubyte.gz").read_bytes()))
    count = (len(images) - 16) // 784
    changed = folder.path / "data/changed"
    folder.write(images="changed")

    def of_another_run():
        changed.write_bytes(images)
        out, _ = folder.run("train", "run.json")
        return "is of another run" in out

    assert not of_another_run()
    # They are read in blocks; of each the first and the last counts too.
    for example in (0, 1, 82, 83, 84, 255, 256, count // 2, count - 1):
        at = 16 + 784 * example + example % 784
        images[at] ^= 1
        assert of_another_run(), example
        images[at] ^= 1
        assert not of_another_run(), example


def test_files_that_are_not_of_the_run_stay(folder):
    for content in (b"", b"mine", bytes(1000)):
        (folder.path / "run.safetensors").write_bytes(content)
        out, _ = folder.run("train", "run.json")
        assert KEEPS + "run-1.safetensors" in out, out
        assert (folder.path / "run.safetensors").read_bytes() == content
    (folder.path / "run.safetensors").unlink()
    (folder.path / "run.safetensors").mkdir()
    folder.run("train", "run.json", code=2)
    (folder.path / "run.safetensors").rmdir()
    # A file that a user saved has no mark of a run.
    folder.run("train", "run.json", "--save", "run.safetensors")
    assert "run" not in metadata(folder.path / "run.safetensors")
    mine = folder.models()["run.safetensors"]
    out, _ = folder.run("train", "run.json")
    assert KEEPS + "run-1.safetensors" in out, out
    assert folder.models()["run.safetensors"] == mine


def test_the_same_bytes_wherever_it_runs(folder):
    with tempfile.TemporaryDirectory() as name:
        other = Folder(pathlib.Path(name) / "a folder")
        folder.run("train", "run.json")
        out, _ = other.run("train", "../a folder/run.json", "--threads", "1")
        assert out.endswith(" --data '../a folder/run.json'\n"), out
        assert folder.models() == other.models()
        (other.path / "sub").mkdir()
        other.run("train", "../run.json", cwd=other.path / "sub")
        assert (other.path / "sub/run.safetensors").read_bytes() == \
            folder.models()["run.safetensors"]


def test_nothing_or_elsewhere_where_it_is_asked_for(folder):
    out, _ = folder.run("train", "run.json", "--no-save")
    assert "no model is saved (--no-save)" in out and not folder.models(), out
    _, err = folder.run("train", "run.json", "--no-save", "--save", "m", code=2)
    assert "do not go together" in err, err
    for name in ("m.keras", "m.h5", "M.H5", "m.pt", "m.onnx", "m.npz"):
        out, err = folder.run("train", "run.json", "--save", name, code=2)
        assert out == "" and "must end in `.safetensors`" in err, (out, err)
    assert not folder.models() and not list(folder.path.glob("m*"))
    out, _ = folder.run("train", "run.json", "--save", "m.v2")
    assert KEEPS + "m.v2\n" in out and (folder.path / "m.v2").exists(), out
    # With verbose 0 nothing is printed.
    folder.write(fit={"verbose": 0})
    assert folder.run("train", "run.json") == ("", "")
    assert list(folder.models()) == ["run.safetensors"]


def checkpoint(**config):
    return {"class_name": "ModelCheckpoint", "config": config}


def test_a_checkpoint_of_the_whole_model_is_enough(folder):
    folder.write(callbacks=[checkpoint(filepath="c/{epoch}.safetensors")])
    out, _ = folder.run("train", "run.json")
    assert "ModelCheckpoint saves the model as c/{epoch}.safetensors" in out, out
    assert "the model is in c/2.safetensors;" in out, out
    assert not folder.models()
    # A callback of weights alone is none, nor one that has saved nothing.
    for callback in (checkpoint(filepath="c/w.weights.safetensors",
                                save_weights_only=True),
                     checkpoint(filepath="c/n.safetensors", save_freq=1000)):
        folder.write(callbacks=[callback])
        out, _ = folder.run("train", "run.json")
        kept = folder.models()
        assert len(kept) == 1 and next(iter(kept)) in out.splitlines()[-1], out
        (folder.path / next(iter(kept))).unlink()


def test_a_folder_that_cannot_be_written_is_reported_at_once(folder):
    if os.geteuid() == 0:
        # Root may write everywhere but on a file system that takes nothing.
        out, err = folder.run("train", str(folder.path / "run.json"), code=2,
                              cwd="/proc")
        assert "Epoch" not in out, out
    else:
        closed = folder.path / "closed"
        closed.mkdir(mode=0o500)
        out, err = folder.run("train", "../run.json", code=1, cwd=closed)
        assert out == "", out
    assert "--save MODEL" in err and "--no-save" in err, err


def interrupt(folder, number, *flags):
    process = folder.start("train", "run.json", *flags)
    wait_for(process.stdout, "Epoch 2/")
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + number, (process.returncode, out, err)
    lines = err.splitlines()
    assert lines[0].startswith("interrupted: the step will be finished"), err
    assert re.match(r"error: interrupted after epoch \d+(, step \d of 3)?: ",
                    lines[1]), err
    assert len(lines) == 2, err
    return lines[1]


def test_a_signal_saves_what_there_is(folder):
    folder.run("train", "run.json")
    finished = folder.models()
    for i, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
        folder.write(fit=ENDLESS)
        error = interrupt(folder, number)
        name = "run-interrupted" + (f"-{i}" if i else "") + ".safetensors"
        assert f"the model so far is in {name};" in error, error
        said = re.search(r"after (.*?):", error).group(1)
        assert metadata(folder.path / name)["interrupted"] == said
        folder.run("evaluate", name, "--data", "run.json")
    # The file is not taken for a result, and no result is lost.
    assert folder.models()["run.safetensors"] == finished["run.safetensors"]
    folder.write()
    shutil.copy(folder.path / name, folder.path / "run.safetensors")
    out, _ = folder.run("train", "run.json")
    assert KEEPS + "run-1.safetensors" in out, out
    folder.write(fit=ENDLESS)
    assert "in m-interrupted.safetensors;" in interrupt(
        folder, signal.SIGINT, "--save", "m.safetensors")
    # Ignored where the shell has it ignored.
    process = folder.start("train", "run.json", "--no-save", preexec_fn=lambda:
                           signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for(process.stdout, "Epoch 2/")
    process.send_signal(signal.SIGHUP)
    wait_for(process.stdout, "Epoch")
    process.send_signal(signal.SIGINT)  # --no-save: as it is by default
    process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGINT


def test_the_second_signal_ends_at_once(folder):
    # Each step takes seconds, so that the second signal arrives before the step
    # has ended.
    folder.write(units=8000, fit={"batch_size": 2000, "epochs": 1000})
    process = folder.start("train", "run.json")
    wait_for(process.stdout, "Epoch 1/")
    process.send_signal(signal.SIGINT)
    wait_for(process.stderr, "interrupted: ")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGTERM, process.returncode
    assert not folder.models()


def test_a_job_ends_together(folder):
    for workers in (2, 3):
        folder.write(fit=ENDLESS)
        process = folder.start("launch", "-n", str(workers), "--", PROGRAM,
                               "train", "run.json")
        lines = wait_for(process.stdout, "Epoch 2/")
        assert f"on each of {workers} workers" in lines[0], lines
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == 130, (process.returncode, out, err)
        assert "lost" not in err and "launcher" not in err, err
        ends = re.findall(r"^\[\d\] error: interrupted after (.*?): ", err, re.M)
        assert len(ends) == workers and len(set(ends)) == 1, err
        models = folder.models()
        assert list(models) == ["run-interrupted.safetensors"], models.keys()
        (folder.path / "run-interrupted.safetensors").unlink()


def test_a_backup_goes_on_and_says_where(folder):
    backup = {"class_name": "BackupAndRestore",
              "config": {"backup_dir": "backup", "save_freq": 2}}
    folder.write(fit=ENDLESS, callbacks=[backup])
    process = folder.start("train", "run.json")
    wait_for(process.stdout, "Epoch 3/")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 75 and not folder.models(), (out, err)
    place = re.search(r"interrupted before epoch (\d+), step (\d+)", err)
    epoch, step = map(int, place.groups())
    folder.write(fit={"epochs": epoch + 1}, callbacks=[backup])
    out, _ = folder.run("train", "run.json")
    says = re.search(r"^continues at (.*), from backup/backup-\d+\.safetensors$",
                     out, re.M)
    assert says.group(1) == (f"the end of epoch {epoch}" if step == 4 else
                             f"epoch {epoch}, step {step} of 3"), (says, place)
    assert list(folder.models()) == ["run.safetensors"]


def on_a_terminal(folder, *arguments, code=0):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder.path)
        os.execve(PROGRAM, [PROGRAM, *arguments], folder.environment)
    out = b""
    try:
        while data := os.read(terminal, 4096):
            out += data
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, out
    return out.decode().replace("\r\n", "\n")


def test_messages_begin_lines_of_their_own(folder):
    folder.write(rate=1e30, fit={"epochs": 3, "steps_per_epoch": 9},
                 callbacks=["TerminateOnNaN"])
    out = on_a_terminal(folder, "train", "run.json", "--no-save")
    assert "\u2501" in out  # a bar
    assert re.search(r"^Batch \d: Invalid loss, terminating training$", out,
                     re.M), out
    # A warning in the middle of an epoch.
    folder.write(fit={"steps_per_epoch": 40}, callbacks=[
        checkpoint(filepath="/proc/none/c.safetensors", save_freq=5)])
    out = on_a_terminal(folder, "train", "run.json", "--no-save", code=1)
    found = re.findall(r"(.)warning: the model was not saved", out, re.S)
    assert found and set(found) == {"\n"}, out


def test_numbers_that_look_wrong_are_reported(folder):
    folder.write(scale=255)
    _, err = folder.run("train", "run.json", "--no-save")
    assert err.count("warning: the training data reach 65025 ") == 1, err
    assert "1/255 = 0.00392156862745098, not 255" in err, err
    # Bytes that are small need no scale.
    images = folder.path / "data/train-images-idx3-ubyte.gz"
    pixels = gzip.decompress(images.read_bytes())
    small = pixels[16:].translate(bytes(b // 100 for b in range(256)))
    images.write_bytes(gzip.compress(pixels[:16] + small, 1))
    folder.write(scale=1)
    _, err = folder.run("train", "run.json", "--no-save")
    assert err == "", err
    folder.write(scale=1 / 255, rate=1e30, fit={"epochs": 4})
    out, err = folder.run("train", "run.json", "--no-save")
    assert err.count("add the callback TerminateOnNaN") == 1, err
    assert err.splitlines()[-1] == ("warning: the training has diverged in "
                                    "epoch 1: the model is of no use"), err
    folder.write()
    one = {min(os.sched_getaffinity(0))}
    _, err = folder.run("train", "run.json", "--no-save", "--threads", "2",
                        preexec_fn=lambda: os.sched_setaffinity(0, one))
    assert err == ("warning: 2 threads for 1 usable core: this is slower than "
                   "1\n"), err
    _, err = folder.run("train", "run.json", "--no-save", "--threads", "1",
                        preexec_fn=lambda: os.sched_setaffinity(0, one))
    assert err == "", err


def main():
    # Sets the default actions: nohup and a shell's background would pass on that
    # the signals are ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tests = [(name, test) for name, test in globals().items()
             if name.startswith("test_")]
    for name, test in tests:
        with tempfile.TemporaryDirectory() as path:
            began = time.monotonic()
            test(Folder(pathlib.Path(path) / "run"))
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


main()
