"""Parts of the RUN.json files that tests write, and the program that they run."""
import os
import pathlib

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("RINGLET_BUILD", SOURCE / "build")).resolve() / \
    "tools/ringlet/ringlet"
# Without TF_CONFIG, which would make the program a worker of another job, and
# without TMPDIR.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("TF_CONFIG", "TMPDIR")}
LOGITS_LOSS = {"class_name": "SparseCategoricalCrossentropy", "config": {"from_logits": True}}


def layer(class_name, **config):
    return {"class_name": class_name, "config": config}


def sequential(*layers):
    return layer("Sequential", layers=list(layers))


def fashion_mnist(name):
    """The shipped examples as data: "train" or "t10k"."""
    data = SOURCE / "data/fashion-mnist-mini"
    return {"images": str(data / f"{name}-images-idx3-ubyte.gz"),
            "labels": str(data / f"{name}-labels-idx1-ubyte.gz"), "scale": 1 / 255}
