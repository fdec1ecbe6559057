#!/usr/bin/python3
"""Some steps of the networks of MLPerf Tiny equal PyTorch's (torch_parity.py).

    tiny_parity_test.py BUILD

The data are random; the runs have one worker or two. Rounding alone soon leads two
trainings away from each other; how soon depends on the CPU. It does not with a
large epsilon of Adam, nor in MobileNet's 27 layers with small steps. So the limits
here test the formulas.
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch_parity  # noqa: E402 (skips where there is no PyTorch)
import numpy as np  # noqa: E402

SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "samples/tiny"
BATCH, STEPS = 8, 5
NETWORKS = {  # name -> data, shape, classes, learning rate
    "autoencoder": ("hum", (640,), 0, "0.001"),
    "ds_cnn": ("words", (49, 10, 1), 12, "0.001"),
    "mobilenet": ("images96", (96, 96, 3), 2, "0.00001"),
    "resnet8": ("images32", (32, 32, 3), 10, "0.001")}


def make_data(folder):
    random = np.random.default_rng(1)
    for name, shape, classes, _ in NETWORKS.values():
        for part, count in (("train", BATCH * STEPS), ("test", BATCH)):
            x = random.integers(0, 256, (count, *shape), np.uint8)
            if not classes:
                np.save(folder / f"{name}_{part}.npy",
                        x.astype(np.float32) / 128 - 1)
                continue
            np.save(folder / f"{name}_{part}_x.npy", x)
            np.save(folder / f"{name}_{part}_y.npy",
                    random.integers(0, classes, count).astype(np.uint8))


def main(build):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data").mkdir()
        make_data(pathlib.Path(folder) / "data")
        for name, (_, _, _, rate) in NETWORKS.items():
            for workers in ("1", "2"):
                failed += torch_parity.main([
                    build, str(SAMPLES / f"{name}.json"), "steps",
                    "--data", folder, "--steps", str(STEPS),
                    "--batch", str(BATCH), "--workers", workers,
                    "--epsilon", "0.01", "--rate", rate])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
