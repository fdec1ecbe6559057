#!/usr/bin/env python3
"""`make bench`: speeds as ratios to a limit or a peer of the same run.

    tools/bench.py BUILD [PART ...]

Every round measures each contestant once, so that a busy machine disturbs all
alike; what is printed are medians. PyTorch takes part where it is installed
for /usr/bin/python3, and dlib where its headers are. RINGLET_BENCH_ROUNDS: of
them (15); RINGLET_BENCH_EPOCHS: of LeNet-5's whole run (1; the goal is of 10).
"""
import json
import math
import os
import pathlib
import pty
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from bench_inference import predictions, reading
from bench_peers import (BUILD, ROOT, ROUNDS, TORCH, TORCH_LENET5,
                         TORCH_NETWORKS, Contestant, has_torch)
from chart import Chart

EPOCHS = int(os.environ.get("RINGLET_BENCH_EPOCHS", "1"))
GFLOP = 1.11  # of a step of the tutorials' model at batch 64
MINI = ROOT / "data/fashion-mnist-mini"
BIG = pathlib.Path("/usr/share/datasets/fashion-mnist")


def machine():
    model = next((line.split(":")[1].strip()
                  for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), "unknown processor")
    print(f"machine: {model}, {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}")
    version = subprocess.run(
        [str(BUILD / "tools/ringlet/ringlet"), "--version", "--verbose"],
        stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    print(*version[1:3], sep="\n")


def steps():
    ringlet = Contestant(str(BUILD / "tests/step_bench"))
    torch = (Contestant("/usr/bin/python3", "-c", TORCH) if has_torch()
             else None)
    times = {}
    for _ in range(ROUNDS):
        for _ in range(3):
            times.setdefault("gemm", []).append(float(ringlet.ask("gemm")))
        for threads in (1, 2):
            for _ in range(3):
                times.setdefault(("ringlet", threads), []).append(
                    float(ringlet.ask(f"step {threads}")))
            if torch:
                times.setdefault(("torch", threads), []).append(
                    float(torch.ask(f"step {threads}")))
    median = {key: statistics.median(values) for key, values in times.items()}
    limit = GFLOP / median["gemm"] * 1e3
    print(f"\ntraining step of the tutorials' model, batch 64 "
          f"(medians of {ROUNDS} rounds)")
    print(f"  limit on one core: {GFLOP} GFLOP at {median['gemm']:.1f} "
          f"GFLOP/s of a product 512^3 = {limit:.2f} ms")
    one, two = median["ringlet", 1], median["ringlet", 2]
    print(f"  1 thread : {one:6.2f} ms = {one / limit:.2f} x the limit"
          f"   (goal 1.15)")
    print(f"  2 threads: {two:6.2f} ms = {two / one:.3f} x one thread"
          f" (goal 0.62)")
    for threads in (1, 2) if torch else ():
        peer = median["torch", threads]
        print(f"  PyTorch, {threads} thread(s): {peer:6.2f} ms = "
              f"{peer / median['ringlet', threads]:.2f} x ringlet's time "
              f"(goal 1.6)")
    if not torch:
        print("  PyTorch: not installed (apt-get install python3-torch)")
    for threads in (1, 2):
        words = ringlet.ask(f"layers {threads}").split()
        print(f"  pieces, {threads} thread(s), milliseconds:")
        for name, phase, value in zip(*[iter(words)] * 3):
            print(f"    {name + ' ' + phase:24} {value}")
    print(f"  model's memory at batch 64: "
          f"{int(ringlet.ask('bytes')) / 1e6:.1f} MB")
    ringlet.close()
    if torch:
        torch.close()


def dlib_peer():
    """tests/dlib_bench, which is built for the processor where dlib is."""
    if subprocess.run(["pkg-config", "--exists", "dlib-1"]).returncode != 0:
        return None
    program = BUILD / "dlib_bench"
    source = ROOT / "tests/dlib_bench.cc"
    if not program.exists() or (program.stat().st_mtime
                                < source.stat().st_mtime):
        libraries = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "dlib-1"], check=True,
            stdout=subprocess.PIPE, text=True).stdout.split()
        subprocess.run(["c++", "-std=c++17", "-O3", "-march=native", "-DNDEBUG",
                        str(source), "-o", str(program), *libraries],
                       check=True)
    return Contestant(str(program))


def networks():
    """Small networks beside PyTorch and dlib, Adam, by batch and threads."""
    own = Contestant(str(BUILD / "tests/step_bench"))
    peers = {"PyTorch": Contestant("/usr/bin/python3", "-c", TORCH_NETWORKS)
             if has_torch() else None, "dlib": dlib_peer()}
    peers = {name: peer for name, peer in peers.items() if peer}
    cases = [(name, batch, threads)
             for name in ("mlp", "lenet5", "resnet8", "ds_cnn")
             for batch in (1, 32, 64, 256) for threads in (1, 2)]

    def knows(peer, case):  # dlib: one thread, no depthwise layers, no
        # BatchNormalization of one example
        return peer != "dlib" or (case[0] != "ds_cnn" and case[2] == 1
                                  and case[:2] != ("resnet8", 1))
    times = {}
    for _ in range(max(3, ROUNDS // 3)):
        for case in cases:
            for name, peer in {"": own, **peers}.items():
                if knows(name, case):
                    times.setdefault((case, name), []).append(
                        float(peer.ask("train %s %d %d" % case).split()[0]))
    print("\ntraining step of small networks, Adam, milliseconds and how many "
          "times the peers' speed\n  (goal: of PyTorch's lenet5 3, resnet8 and "
          "ds_cnn 2, mlp at batch 1 4)")
    for case in cases:
        ours = statistics.median(times[case, ""])
        line = "  %-8s batch %3d, %d thread(s): " % case + f"{ours:8.3f}"
        for name in peers:
            if knows(name, case):
                theirs = statistics.median(times[case, name])
                line += f"  {name} {theirs / ours:5.2f} x"
        print(line)
    for name in ("PyTorch", "dlib"):
        if name not in peers:
            print(f"  {name}: not installed (tools/deps.sh bench)")
    for peer in (own, *peers.values()):
        peer.close()


# The goal: how many times PyTorch's speed.
SEQUENCES = {("lstm", 32): 2, ("lstm", 1): 2, ("gru", 32): 2, ("gru", 1): 2,
             ("embedding", 32): 2, ("unet", 32): 1.3, ("transformer", 32): 1.3}


def sequences():
    """Recurrent layers, a U-Net and a transformer, Adam, beside PyTorch.

    A round's two steps follow each other, and what is printed is the median
    of the rounds' ratios. With one thread also that of its processor time,
    which other programs disturb less.
    """
    if not has_torch():
        print("\nsequences: PyTorch is not installed (tools/deps.sh bench)")
        return
    own = Contestant(str(BUILD / "tests/step_bench"))
    torch = Contestant("/usr/bin/python3", "-c", TORCH_NETWORKS)
    print("\ntraining step of recurrent and other networks, Adam: how many "
          "times PyTorch's speed")
    for (name, batch), goal in SEQUENCES.items():
        for threads in (1, 2):
            walls, used, ours = [], [], []
            for _ in range(ROUNDS):
                line = f"train {name} {batch} {threads}"
                (wall, processor), (their_wall, their_processor) = (
                    map(float, peer.ask(line).split()) for peer in (own, torch))
                ours.append(wall)
                walls.append(their_wall / wall)
                used.append(their_processor / processor)
            text = f"  {name:12} batch {batch:2}, {threads} thread(s): " \
                   f"{statistics.median(ours):8.3f} ms, " \
                   f"{statistics.median(walls):5.2f} x"
            if threads == 1:
                text += f", of processor time {statistics.median(used):5.2f} x"
            print(f"{text} (goal {goal})", flush=True)
    own.close()
    torch.close()


def layer(kind, **config):
    """As RUN.json has it."""
    return {"class_name": kind, "config": config}


def data_of(name):
    """Of the large data set: train or t10k."""
    return {"images": f"{BIG}/{name}-images-idx3-ubyte.gz",
            "labels": f"{BIG}/{name}-labels-idx1-ubyte.gz",
            "scale": 1 / 255}


def tutorial_json(optimizer, train, fit, strategy=None):
    """A RUN.json of the tutorials' model."""
    layers = [layer("InputLayer", batch_shape=[None, 28, 28]),
              layer("Reshape", target_shape=[28, 28, 1]),
              layer("Conv2D", filters=32, kernel_size=3, activation="relu"),
              layer("Flatten"), layer("Dense", units=128, activation="relu"),
              layer("Dense", units=10)]
    run = {"model": layer("Sequential", layers=layers),
           "compile": {"optimizer": optimizer,
                       "loss": layer("SparseCategoricalCrossentropy",
                                     from_logits=True)},
           "data": {"train": train}, "fit": fit}
    if strategy:
        run["strategy"] = strategy
    return run


def lenet5_json(folder):
    """A RUN.json of LeNet-5 over the 60,000 images."""
    layers = [layer("InputLayer", batch_shape=[None, 28, 28]),
              layer("Reshape", target_shape=[28, 28, 1]),
              layer("Conv2D", filters=6, kernel_size=5, padding="same",
                    activation="relu"), layer("MaxPooling2D"),
              layer("Conv2D", filters=16, kernel_size=5, activation="relu"),
              layer("MaxPooling2D"), layer("Flatten"),
              layer("Dense", units=120, activation="relu"),
              layer("Dense", units=84, activation="relu"),
              layer("Dense", units=10)]
    run = {"model": layer("Sequential", layers=layers),
           "compile": {"optimizer": layer("Adam", learning_rate=3e-4),
                       "loss": layer("SparseCategoricalCrossentropy",
                                     from_logits=True),
                       "metrics": ["accuracy"]},
           "data": {"train": data_of("train")},
           "fit": {"batch_size": 128, "epochs": EPOCHS}}
    train = pathlib.Path(folder, "train.json")
    train.write_text(json.dumps(run))
    run["data"] = {"validation": data_of("t10k")}
    test = pathlib.Path(folder, "test.json")
    test.write_text(json.dumps(run))
    return train, test


def lenet5_run():
    """From exec to exit, beside what PyTorch takes from its first step on."""
    if not BIG.exists():
        return
    ringlet = str(BUILD / "tools/ringlet/ringlet")
    times, points = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        train, test = lenet5_json(folder)
        saved = f"{folder}/model.safetensors"
        for _ in range(3 if EPOCHS < 3 else 1):
            for threads in (1, 2):
                begin = time.perf_counter()
                subprocess.run([ringlet, "train", str(train), "--save", saved,
                                "--threads", str(threads)], check=True,
                               stdout=subprocess.DEVNULL)
                times.setdefault(("ringlet", threads), []).append(
                    time.perf_counter() - begin)
                out = subprocess.run(
                    [ringlet, "evaluate", saved, "--data", str(test), "--part",
                     "validation"], check=True, stdout=subprocess.PIPE,
                    text=True).stdout
                points.setdefault("ringlet", []).append(
                    float(re.findall(r"accuracy: ([0-9.]+)", out)[-1]))
                if not has_torch():
                    continue
                out = subprocess.run(
                    ["/usr/bin/python3", "-c", TORCH_LENET5, str(BIG),
                     str(EPOCHS), str(threads)], check=True,
                    stdout=subprocess.PIPE, text=True).stdout.split()
                times.setdefault(("torch", threads), []).append(float(out[0]))
                points.setdefault("torch", []).append(float(out[1]))
    print(f"\nLeNet-5, 60,000 images, batch 128, Adam, {EPOCHS} epoch(s), "
          "from exec to exit")
    for threads in (1, 2):
        own = statistics.median(times["ringlet", threads])
        goal = " (goal 12 s)" if threads == 2 and EPOCHS == 10 else ""
        line = f"  {threads} thread(s): {own:6.2f} s{goal}"
        if ("torch", threads) in times:
            peer = statistics.median(times["torch", threads])
            line += f"; PyTorch's loop {peer:6.2f} s = {peer / own:.2f} x " \
                    "ringlet's time (goal 3)"
        print(line)
    print("  test accuracy: " + ", ".join(
        f"{name} {statistics.mean(values):.4f}"
        for name, values in points.items()) + " (goal: within 0.003)")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def step_workers(*arguments, size=2):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(size)]
    return [Contestant(str(BUILD / "tests/step_bench"), *arguments,
                       TF_CONFIG=json.dumps(
                           {"cluster": {"worker": addresses},
                            "task": {"type": "worker", "index": i}}))
            for i in range(size)]


def close_all(jobs):
    """Workers wait for each other's end."""
    everyone = sum(jobs.values(), [])
    for worker in everyone:
        worker.process.stdin.close()
    for worker in everyone:
        worker.process.wait()


def step_of(pair, command):
    for worker in pair:
        worker.tell(command)
    return max(float(worker.answer("step").split()[0]) for worker in pair)


def workers():
    """Two workers on two cores against one on one: weak scaling."""
    pairs = {"ring": step_workers(), "exact": step_workers("exact")}
    alone = Contestant(str(BUILD / "tests/step_bench"))
    ones, times = [], {name: [] for name in pairs}
    for _ in range(3 * ROUNDS):
        ones.append(float(alone.ask("step 1")))
        for name, pair in pairs.items():
            times[name].append(step_of(pair, "step 1"))
    one, two = statistics.median(ones), statistics.median(times["ring"])
    exact = statistics.median(times["exact"])
    print(f"\none worker on one core: {one:.2f} ms a step of 64; two workers "
          f"on two: {two:.2f} ms a step of 128 = {two / one:.2f} x (goal 1.25); "
          f"with exact sums {exact:.2f} ms = {exact / two:.3f} x (goal 1.05)")
    for network in ("lenet5", "resnet8"):
        command = f"train {network} 64 1"
        ratios = []
        for _ in range(3 * ROUNDS):
            ring, exact = (step_of(pair, command) for pair in pairs.values())
            ratios.append(exact / ring)
        print(f"  {network}: exact sums {statistics.median(ratios):.3f} x ring's")
    close_all(pairs)
    alone.close()


def usage_of(commands):
    """Seconds until all of these processes end; those of their processors."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    begin, before = time.perf_counter(), used()
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                  env={**os.environ, "RINGLET_INSECURE": "1"})
                 for command in commands]
    if any([process.wait() for process in processes]):
        sys.exit(f"bench: {commands[0]} failed")
    return time.perf_counter() - begin, used() - before


def processes():
    """Workers of one machine as whole processes, beside as many processes that
    train alone at the same time: they share caches and memory, too."""
    ringlet, steps = str(BUILD / "tools/ringlet/ringlet"), 150
    mini = {"images": str(MINI / "train-images-idx3-ubyte.gz"),
            "labels": str(MINI / "train-labels-idx1-ubyte.gz"),
            "scale": 1 / 255}
    with tempfile.TemporaryDirectory() as folder:
        trains = {}
        for kind in ("alone", "ring", "exact"):
            file = pathlib.Path(folder, f"{kind}.json")
            file.write_text(json.dumps(tutorial_json(
                layer("SGD", learning_rate=.001), mini,
                {"batch_size": 64, "steps_per_epoch": steps, "verbose": 0},
                None if kind == "alone" else
                {"reduction": kind, "timeout": 60})))
            trains[kind] = [ringlet, "train", str(file), "--threads", "1"]
        for size in (2, 4):
            jobs = {kind: [[ringlet, "launch", "-n", str(size), "--", *train]]
                    for kind, train in trains.items()}
            jobs["alone"] = size * [trains["alone"]]
            times = {kind: [] for kind in jobs}
            for i in range(max(3, ROUNDS // 3)):
                for kind in list(jobs)[::1 if i % 2 == 0 else -1]:
                    times[kind].append(usage_of(jobs[kind]))
            print_processes(size, steps, times)


def print_processes(size, steps, times):
    def ratio(kind, other, at):
        return statistics.median(
            a[at] / b[at] for a, b in zip(times[kind], times[other]))
    wall, used = map(statistics.median, zip(*times["alone"]))
    print(f"\n{size} processes of {steps} steps of the tutorials' model, alone "
          f"side by side: {wall:.2f} s, {used / size / steps * 1e3:.2f} ms of "
          "a processor for each step")
    for kind, other, goal in (("ring", "alone", 1.10), ("exact", "ring", 1.03)):
        print(f"  {size} workers, {kind}: {ratio(kind, other, 0):.3f} x the "
              f"time of {other} (goal {goal}), {ratio(kind, other, 1):.3f} x "
              "its processor time", flush=True)


# Of bytes over a connection, between two processes: the reader says when it has
# all, and prints the seconds since both were ready.
SOCKET = r"""
import socket, sys, time
sender = sys.argv[1] == "0"
if sender:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print("up", flush=True)
    peer, _ = listener.accept()
else:
    while True:
        try:
            peer = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
            break
        except ConnectionRefusedError:
            time.sleep(.01)
    print("up", flush=True)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for line in sys.stdin:
    count, rounds = map(int, line.split())
    data = memoryview(bytearray(4 * count))
    for _ in range(rounds):
        peer.recv(1) if sender else peer.send(b"r")
        begin = time.perf_counter()
        if sender:
            peer.sendall(data)
            peer.recv(1)
        else:
            at = 0
            while at < len(data):
                at += peer.recv_into(data[at:])
            peer.send(b"e")
        print(time.perf_counter() - begin, end=" ")
    print(flush=True)
"""

GLOO = r"""
import sys, time
import torch, torch.distributed
torch.set_num_threads(1)
rank, size, port = map(int, sys.argv[1:])
torch.distributed.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
print("up", flush=True)
for line in sys.stdin:
    count, rounds = map(int, line.split())
    tensor = torch.zeros(count)
    for _ in range(rounds):
        torch.distributed.barrier()
        begin = time.perf_counter()
        torch.distributed.all_reduce(tensor)
        print(time.perf_counter() - begin, end=" ")
    print(flush=True)
"""


def ring_workers(size, *keys, bench="1"):
    addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(size))
    return [Contestant(str(BUILD / "tests/ring_worker"), str(rank), addresses,
                       "0", "0", f"bench={bench}", "timeout=60", *keys)
            for rank in range(size)]


def gloo_workers(size):
    port = str(free_ports(1)[0])
    return [Contestant("/usr/bin/python3", "-c", GLOO, str(rank), str(size),
                       port, OMP_NUM_THREADS="1") for rank in range(size)]


def all_reduces():
    """A short and a long vector, by ringlet and by Gloo in turns."""
    print(f"\nall-reduce on this machine (medians of {ROUNDS} rounds, of the "
          f"slowest rank)")
    for size in (2, 4):
        jobs = {"shared": ring_workers(size),
                "AF_UNIX": ring_workers(size, "socket=1"),
                "TCP": ring_workers(size, "tcp=1"),
                "sealed": ring_workers(size, "tcp=1", "key=bench")}
        if has_torch():
            jobs["Gloo"] = gloo_workers(size)
        for worker in sum(jobs.values(), []):
            worker.answer("up")
        for floats, each, name, goals in (
                (1, 200, "4 bytes", {"shared": 10}),
                (2777162, 8, "11.1 MB",
                 {"shared": 3 if size == 2 else 2, "TCP": 1.3})):
            times = {kind: [] for kind in jobs}
            for _ in range(ROUNDS):
                for kind, job in jobs.items():
                    times[kind] += timed(job, floats, each)
            median = {kind: statistics.median(values)
                      for kind, values in times.items()}
            for kind, seconds in median.items():
                line = f"  {size} workers, {name}, {kind:8}" \
                       f"{seconds * 1e6:9.0f} us"
                if floats > 1:
                    line += f" = {4e-6 * floats / seconds:6.0f} MB/s"
                if kind != "Gloo" and "Gloo" in median:
                    line += f" = {median['Gloo'] / seconds:.2f} x Gloo's speed"
                    line += f" (goal {goals[kind]})" if kind in goals else ""
                print(line, flush=True)
        close_all(jobs)
    if not has_torch():
        print("  Gloo: not installed (apt-get install python3-torch)")


def timed(job, floats, rounds):
    """Seconds of each all-reduce: the slowest rank's. The first is lost."""
    for worker in job:
        worker.tell(f"{floats} {rounds}")
    ranks = [[float(word) for word in worker.answer("all-reduce").split()]
             for worker in job]
    return [max(one) for one in zip(*ranks)][1:]


def elastic_run(policy):
    """Seconds of an epoch of two workers that nobody disturbs: the medians of
    all but the first, in which they meet."""
    run = tutorial_json("adam", data_of("train"),
                        {"batch_size": 64, "epochs": 3, "steps_per_epoch": 120,
                         "verbose": 2},
                        {"policy": policy, "reduction": "exact", "replicas": 4,
                         "timeout": 60})
    if policy == "shrink":
        run["strategy"]["min_workers"] = 1
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "run.json")
        file.write_text(json.dumps(run))
        workers = [subprocess.Popen(
            [str(BUILD / "tools/ringlet/ringlet"), "train", str(file),
             "--threads", "1"], text=True, stdout=subprocess.PIPE,
            env={**os.environ, "RINGLET_INSECURE": "1",
                 "TF_CONFIG": json.dumps(
                     {"cluster": {"worker": addresses},
                      "task": {"type": "worker", "index": i}})})
            for i in range(2)]
        ends = [time.perf_counter() for line in workers[0].stdout
                if line.startswith("120/120")]
        for worker in workers:
            worker.communicate()
            if worker.returncode != 0:
                sys.exit(f"bench: a worker of policy {policy} failed")
    return statistics.median(b - a for a, b in zip(ends, ends[1:]))


def elastic():
    """What it costs that workers may leave, and that one comes."""
    if BIG.exists():
        policies = ["wait", "shrink"]
        rounds = []
        for i in range(ROUNDS):
            order = policies if i % 2 == 0 else policies[::-1]
            rounds.append({policy: elastic_run(policy) for policy in order})
        wait, shrink = (statistics.median(each[policy] for each in rounds)
                        for policy in policies)
        ratio = statistics.median(each["shrink"] / each["wait"]
                                  for each in rounds)
        print(f"\ntwo workers, 120 steps of the tutorials' model with Adam: "
              f"{wait:.3f} s; where they may leave {shrink:.3f} s = "
              f"{ratio:.3f} x (goal 1.02)")
    port = str(free_ports(1)[0])
    floats = 2777162
    jobs = {"a plain socket": [
        Contestant("/usr/bin/python3", "-c", SOCKET, str(i), port)
        for i in range(2)],
        "TCP": ring_workers(2, "tcp=1", bench="broadcast"),
        "TCP, sealed": ring_workers(2, "tcp=1", "key=bench",
                                    bench="broadcast")}
    times = {kind: [] for kind in jobs}
    for worker in sum(jobs.values(), []):
        worker.answer("up")
    for _ in range(ROUNDS):
        for kind, job in jobs.items():
            times[kind] += timed(job, floats, 8)
    plain = statistics.median(times["a plain socket"])
    print("the state that one that comes is given, 11.1 MB from one process to "
          "another")
    for kind, values in times.items():
        seconds = statistics.median(values)
        line = f"  {kind:14}{seconds * 1e3:7.2f} ms"
        if kind != "a plain socket":
            line += f" = {plain / seconds:.2f} x its speed"
        print(line + (" (goal 0.5)" if kind == "TCP" else ""))
    close_all(jobs)


def saves():
    """A checkpoint of the tutorials' model, beside the disk and the memory."""
    ringlet = Contestant(str(BUILD / "tests/step_bench"))
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rows = [[float(v) for v in ringlet.ask(f"save {folder}").split()]
                for _ in range(ROUNDS)]
    ringlet.close()
    pause, memcpy, durable, plain, load, mb = map(statistics.median,
                                                  zip(*rows))
    print(f"\ncheckpoint of {mb:.1f} MB: training pauses {pause:.2f} ms (goal "
          f"1; memcpy {memcpy:.2f} ms)")
    print(f"  durable after {durable:.1f} ms = {mb / durable * 1e3:.0f} MB/s "
          f"(plain write and fsync: {plain:.1f} ms = "
          f"{mb / plain * 1e3:.0f} MB/s)")
    print(f"  loaded and verified in {load:.1f} ms = "
          f"{mb / load * 1e3:.0f} MB/s")


def until(command, text):
    """Seconds from exec until the program's terminal shows `text`."""
    begin = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    seen = b""
    while text not in seen:
        try:
            chunk = os.read(fd, 4096)
        except OSError:
            chunk = b""
        if not chunk:
            sys.exit(f"bench: {command[0]} never showed {text!r}")
        seen += chunk
    seconds = time.perf_counter() - begin
    os.close(fd)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return seconds


def peak(command):
    """Peak resident bytes of a program run to its end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"bench: {command[0]} failed")
    return usage.ru_maxrss * 1024


def start_and_memory():
    demo = str(BUILD / "samples/fashion_mnist")
    first = [until([demo, str(MINI)], b" 1/32") for _ in range(ROUNDS)]
    print(f"\nfrom exec to the first step finished, shipped data: "
          f"{statistics.median(first) * 1e3:.0f} ms (goal 60)")
    data = sum(len_unpacked(path) for path in sorted(MINI.glob("*.gz")))
    used = peak([demo, str(MINI)])
    print(f"peak memory of the demo, shipped data: {used / 1e6:.1f} MB = "
          f"{(used - data) / 1e6:.1f} MB + the data set (goal 60)")


def len_unpacked(path):
    import gzip
    return len(gzip.decompress(path.read_bytes()))


def micro():
    program = BUILD / "tests/micro_bench"
    if not program.exists():
        return
    out = subprocess.run(
        [str(program), "--benchmark_format=json",
         "--benchmark_min_time=0.2"],
        check=True, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL).stdout
    print("\nmicrobenchmarks")
    for b in json.loads(out)["benchmarks"]:
        extra = ""
        if "GFLOP/s" in b:
            extra = f"{b['GFLOP/s']:8.1f} GFLOP/s"
        if "bytes_per_second" in b:
            extra = f"{b['bytes_per_second'] / 1e6:8.0f} MB/s"
        print(f"  {b['name']:28} {b['real_time']:14.1f} {b['time_unit']} "
              f"{extra}")


def growth():
    """Time of a step over batch, width, depth, threads and workers."""
    own = Contestant(str(BUILD / "tests/step_bench"))

    def step(network, batch, threads=1):
        return min(float(own.ask(f"train {network} {batch} {threads}")
                         .split()[0]) for _ in range(max(3, ROUNDS // 3)))
    powers = [2 ** i for i in range(11)]
    series = {"batch, mlp": {n: step("mlp", n) / n for n in powers},
              "batch, lenet5": {n: step("lenet5", n) / n for n in powers},
              "batch, resnet8": {n: step("resnet8", n) / n
                                 for n in powers[:9]},
              # Without the products of the first and the last layer.
              "width": {n: (step(f"dense_{n}_3", 64) - step(f"dense_{n}_1", 64))
                        / n ** 2 for n in powers[4:]},
              "depth": {n: step(f"dense_128_{n}", 64) / n
                        for n in powers[:7]}}
    machine_series = {
        "threads, tutorial": {n: step("tutorial", 64, n) for n in powers[:5]},
        "threads, resnet8": {n: step("resnet8", 64, n) for n in powers[:5]},
        "workers": {n: step_of_workers(n) for n in powers[:5]}}
    own.close()
    draw_growth("Time for each unit of work, least = 1",
                "examples of a batch, units of a layer, layers", series,
                "speed_growth.svg", least=min)
    draw_growth(f"Time of a step on {os.cpu_count()} cores, one = 1",
                "threads, workers", machine_series, "speed_growth_machine.svg",
                least=lambda values: next(iter(values)))


def step_of_workers(size):
    workers = step_workers(size=size)
    times = [step_of(workers, "step 1") for _ in range(max(3, ROUNDS // 3))]
    close_all({"": workers})
    return min(times)


def draw_growth(title, x_title, series, name, least):
    """Lines of values over powers of two; each divided by its `least`."""
    print(f"\n{title} ({x_title})")
    logs = {}
    for line, values in series.items():
        one = least(values.values())
        print(f"  {line:18}" + "".join(f" {n}: {value / one:.2f}"
                                       for n, value in values.items()))
        logs[line] = [(math.log2(n), math.log2(value / one))
                      for n, value in values.items()]
    points = sum(logs.values(), [])
    chart = Chart(title, x_title, (0, max(x for x, _ in points), 1),
                  (min(0, math.floor(min(y for _, y in points))),
                   max(1, math.ceil(max(y for _, y in points))), 1),
                  lambda x: f"{2 ** x:g}", lambda y: f"{2 ** y:g}")
    for line, values in logs.items():
        chart.draw(line, values)
    chart.write(BUILD / name)


PARTS = {part.__name__: part for part in (
    steps, networks, sequences, predictions, reading, lenet5_run, workers,
    processes, all_reduces, elastic, saves, start_and_memory, growth, micro)}
machine()
for part in sys.argv[2:] or PARTS:
    PARTS[part]()
