#!/usr/bin/python3
"""All-reduce of ringlet beside PyTorch's Gloo, if that is installed.

  tests/bench_allreduce.py [build] [rounds]

Rounds of both take turns in one run; each line is the median over rounds of
the slowest rank's time.
"""
import os
import socket
import statistics
import subprocess
import sys
import time

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
SIZES = [(2777162, 20), (1, 500)]  # floats, all-reduces a round


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def times(commands):
    """Seconds of each all-reduce: the slowest rank's."""
    processes = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1"})
                 for c in commands]
    outputs = [p.communicate(timeout=300)[0] for p in processes]
    if any(p.returncode for p in processes):
        raise SystemExit("a worker failed: " + " ".join(commands[0]))
    columns = [[float(line) for line in out.splitlines()
                if line[:1].isdigit()] for out in outputs]
    return [max(row) for row in zip(*columns)][2:]


def ringlet(size, count, rounds, *keys):
    addresses = ",".join(f"127.0.0.1:{p}" for p in free_ports(size))
    return times([[f"{BUILD}/tests/ring_worker", str(r), addresses, str(count),
                   str(rounds), "bench=1", *keys] for r in range(size)])


def gloo(size, count, rounds):
    port = free_ports(1)[0]
    return times([[sys.executable, __file__, "--gloo", str(r), str(size),
                   str(port), str(count), str(rounds)] for r in range(size)])


def gloo_worker(rank, size, port, count, rounds):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}",
                            rank=rank, world_size=size)
    tensor = torch.ones(count)
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        print(f"{time.perf_counter() - start:.9f}")
    dist.destroy_process_group()


def main():
    try:
        import torch.distributed  # noqa: F401
        with_gloo = True
    except ImportError:
        with_gloo = False
    for size in (2, 4):
        for count, each in SIZES:
            kinds = {
                "ringlet, local sockets": lambda: ringlet(size, count, each),
                "ringlet, TCP": lambda: ringlet(size, count, each, "tcp=1"),
            }
            if with_gloo:
                kinds["gloo, TCP"] = lambda: gloo(size, count, each)
            seconds = {kind: [] for kind in kinds}
            for _ in range(ROUNDS):
                for kind, run in kinds.items():
                    seconds[kind] += run()
            for kind, all_seconds in seconds.items():
                median = statistics.median(all_seconds)
                ninth = sorted(all_seconds)[len(all_seconds) * 9 // 10]
                text = f"{size} workers, {4 * count:9d} bytes, {kind:24s}"
                text += f" median {median * 1e6:9.0f} us, p90 {ninth * 1e6:9.0f} us"
                if count > 1000:
                    text += f", {4e-6 * count / median:7.0f} MB/s"
                print(text, flush=True)


if len(sys.argv) > 1 and sys.argv[1] == "--gloo":
    gloo_worker(*map(int, sys.argv[2:]))
else:
    main()
