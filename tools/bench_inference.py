"""Parts of `make bench`: predictions, and how fast files of data are read."""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from bench_peers import (BUILD, C_MAIN, ONNX_RUNTIME, READERS, ROUNDS,
                         TORCH_NETWORKS, Contestant, has_module, has_torch)

SHAPES = {"mlp": [28, 28], "lenet5": [28, 28], "resnet8": [32, 32, 3],
          "ds_cnn": [49, 10, 1]}


def exported_c(folder, name):
    """The exported C file as a program, built for this processor."""
    inputs = 1
    for size in SHAPES[name]:
        inputs *= size
    main = pathlib.Path(folder, f"{name}_main.c")
    main.write_text(C_MAIN.replace("NAME", name).replace("INPUTS", str(inputs)))
    program = main.with_suffix("")
    subprocess.run(["cc", "-O3", "-march=native", "-DNDEBUG",
                    str(main), f"{folder}/{name}.c", "-lm", "-o", str(program)],
                   check=True)
    return Contestant(str(program))


def predictions():
    """Predictions beside PyTorch, ONNX Runtime, and the exported C file.

    RINGLET_ONNXRUNTIME is a folder where `npm install --ignore-scripts
    onnxruntime-node` was run.
    """
    with tempfile.TemporaryDirectory() as folder:
        own = Contestant(str(BUILD / "tests/step_bench"))
        for name in SHAPES:
            own.ask(f"export {name} {folder}")
        peers = {}
        if has_torch():
            peers["PyTorch"] = Contestant("/usr/bin/python3", "-c",
                                          TORCH_NETWORKS)
        runtime = os.environ.get("RINGLET_ONNXRUNTIME")
        if runtime:
            peers["ONNX Runtime"] = Contestant("node", "-e", ONNX_RUNTIME,
                                               runtime, folder,
                                               json.dumps(SHAPES))
        exported = {name: exported_c(folder, name) for name in SHAPES}
        print("\npredictions, milliseconds for a batch and how many times the "
              "peers' speed (goal: PyTorch 2, ONNX Runtime 1)")
        for name in SHAPES:
            for batch in (1, 32, 256):
                for threads in (1, 2):
                    print_predictions(
                        f"predict {name} {batch} {threads}", own,
                        {**peers, "exported C": exported[name]}
                        if threads == 1 else peers)
        for peer in (own, *peers.values(), *exported.values()):
            peer.close()


def print_predictions(command, own, peers):
    def milliseconds(peer):
        return float(peer.ask(command).split()[0])
    ours, ratios = [], {name: [] for name in peers}
    for _ in range(max(5, ROUNDS // 2)):
        ours.append(milliseconds(own))
        for name, peer in peers.items():
            ratios[name].append(milliseconds(peer) / ours[-1])
    _, name, batch, threads = command.split()
    print(f"  {name:8} batch {batch:>3}, {threads} thread(s): "
          f"{statistics.median(ours):8.3f}"
          + "".join(f"  {peer} {statistics.median(values):5.2f} x"
                    for peer, values in ratios.items()), flush=True)


def reading():
    """Files in the page cache, until all examples can be used, beside pandas and NumPy."""
    if not has_module("pandas"):
        print("\nreading: pandas is not installed (tools/deps.sh bench)")
        return
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        own = Contestant(str(BUILD / "tests/step_bench"))
        peer = Contestant("/usr/bin/python3", "-c", READERS)
        files = json.loads(peer.ask(f"write {folder}"))
        print("\nreading files, milliseconds and how many times the speed of "
              "pandas (CSV) and NumPy (goal 1)")
        for kind, path in files.items():
            ours, ratios = [], []
            for _ in range(max(5, ROUNDS // 2)):
                ours.append(float(own.ask(f"read {kind} {path}")))
                ratios.append(float(peer.ask(f"read {kind} {path}"))
                              / ours[-1])
            print(f"  {kind} {os.path.getsize(path) / 1e6:6.1f} MB: "
                  f"{statistics.median(ours):8.1f}  "
                  f"{statistics.median(ratios):5.2f} x", flush=True)
        own.close()
        peer.close()
