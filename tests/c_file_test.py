#!/usr/bin/python3
"""Random models as compiled C files compute what `ringlet predict` does.

    c_file_test.py BUILD [--count N] [--seed S] [--case I] [--cc CC ...]
        [--runner PROGRAM] [--big-endian]

The models are those of onnx_test.py. Each file is compiled as C99 by each of gcc
and clang that is installed, without a warning. The int8 files are checked on the
same examples: no undefined behaviour, the loss that `export` prints, and numbers
near the model's.
"""
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import onnx_test  # noqa: E402 (skips where there is no NumPy)
import numpy as np  # noqa: E402
import onnx_numpy  # noqa: E402

LIMIT = 1e-6  # of the largest number
INT8 = 0.1  # of the range of the outputs and 0, root of the mean square
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror", "-O1"]
MAIN = """
#include <stdio.h>
#include "m.h"
static float %s;
int main(void) {
  while (%s) {
    if (model_predict(%s) != 0) return 1;
%s  }
  return 0;
}
"""


def main_of(inputs, outputs):
    """A program that reads and writes one example after another."""
    arrays = [*(("x", i, n) for i, n in enumerate(inputs)),
              *(("y", i, n) for i, n in enumerate(outputs))]
    names = [f"{each}{i}" for each, i, _ in arrays]
    reads = [f"fread({each}, sizeof {each}, 1, stdin) == 1" for each in
             names[:len(inputs)]]
    writes = [f"    fwrite({each}, sizeof {each}, 1, stdout);\n" for each in
              names[len(inputs):]]
    return MAIN % (", ".join(f"{each}{i}[{n}]" for each, i, n in arrays),
                   " && ".join(reads), ", ".join(names), "".join(writes))


# The numbers of a row differ little compared with their distance from zero.
FAR_FROM_ZERO = [{"class_name": "Sequential", "config": {"name": "far", "layers": [
    {"class_name": each, "config": {"name": f"layer_{i}", **config}}
    for i, (each, config) in enumerate([
        ("InputLayer", {"batch_shape": [None, *shape]}),
        normalization,
        ("Dense", {"units": 5}),
    ])]}} for shape, normalization in (
        ([100], ("LayerNormalization", {})),
        ([50, 9], ("GroupNormalization", {"groups": 3})))]


SOUND = {"sampling_rate": 8000, "num_mel_bins": 20, "max_freq": 4000}
# From sound: in C with floats, in ringlet with doubles.
SOUND_LIMIT = 2e-5
SOUND_LAYERS = [
    ("MelSpectrogram", {**SOUND, "fft_length": 256, "sequence_stride": 100}),
    ("MelSpectrogram", {**SOUND, "fft_length": 250, "sequence_length": 200,
                        "sequence_stride": 128, "power_to_db": False,
                        "mag_exp": 1.5}),
    ("MFCC", {**SOUND, "sequence_length": 240, "sequence_stride": 160}),
    ("MFCC", {**SOUND, "sequence_length": 201, "fft_length": 201,
              "num_mfcc": None, "htk": False, "center": True,
              "power_to_db": True, "mag_exp": 2, "min_freq": 0}),
]


STFT = {"trainable": False, "frame_length": 100}
STFT_LAYERS = [("STFTSpectrogram", {**STFT, **config}) for config in (
    {"mode": "log", "padding": "same"},
    {"mode": "psd", "expand_dims": True, "window": "hamming",
     "periodic": True, "scaling": "spectrum"},
    {"mode": "stft", "frame_step": 33, "fft_length": 120},
    {"mode": "imag", "window": None, "expand_dims": True, "padding": "same"},
    {"mode": "magnitude", "scaling": None})]


def sound_model(kind, config):
    shape = [350, 2] if kind == "STFTSpectrogram" else [700]
    return {"class_name": "Sequential", "config": {"name": "sound", "layers": [
        {"class_name": "InputLayer", "config": {
            "name": "x", "batch_shape": [None, *shape]}},
        {"class_name": kind, "config": {"name": "features", **config}},
        {"class_name": "Flatten", "config": {"name": "row"}}]}}


def cases(options):
    for number in onnx_test.numbers_of(options, 3):
        yield number, onnx_test.Case(options.seed, number)
    if options.case is None:
        for model in FAR_FROM_ZERO:
            far = onnx_test.Case(options.seed, 0, model)
            far.x = (1 + 3e-6 + np.round(10 * far.x) / 1024).astype("f4")
            yield "far from zero", far
        for kind, config in SOUND_LAYERS + STFT_LAYERS:
            sound = onnx_test.Case(options.seed, 0, sound_model(kind, config))
            sound.limit = SOUND_LIMIT
            yield kind, sound


REFUSED = ("which has no int8 form", "not the model's end",
           "tokens that another layer computes", "reads the tokens",
           "with return_state or an initial state",
           "makes a mask, and int8 has none")
UNDEFINED = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]


def built(folder, xs, ys, command, case):
    """The outputs of the compiled m.c for the examples, or None."""
    (folder / "main.c").write_text(main_of([x[0].size for x in xs],
                                           [y[0].size for y in ys]))
    onnx_test.run(folder, *command, "m.c", "main.c", "-o", "m", "-lm")
    rows = np.concatenate([x.reshape(len(x), -1) for x in xs], axis=1)
    ran = subprocess.run([*case.runner, folder / "m"],
                         input=rows.astype(case.order).tobytes(),
                         stdout=subprocess.PIPE, check=True)
    got = np.frombuffer(ran.stdout, case.order)
    if got.size != sum(y.size for y in ys):
        return None
    got = got.reshape(len(rows), -1)
    ends = np.cumsum([y[0].size for y in ys])
    return [part.reshape(y.shape) for part, y in
            zip(np.split(got, ends[:-1], axis=1), ys)]


def check_int8(program, case, folder, compilers, xs, ys):
    """Returns the error, or None."""
    for i, y in enumerate(ys):
        np.save(folder / f"y{i}.npy", y)
    run = json.loads((folder / "run.json").read_text())
    files = [f"y{i}.npy" for i in range(len(ys))]
    examples = {"x": run["data"]["train"]["x"],
                "y": files if len(ys) > 1 else files[0]}
    run["data"] = {"train": examples, "validation": examples}
    (folder / "int8.json").write_text(json.dumps(run))
    ran = subprocess.run([program, "export", "int8.json", "--init",
                          "w.safetensors", "--quantize", "int8", "-o", "m.c"],
                         cwd=folder, stderr=subprocess.PIPE, text=True)
    if ran.returncode == 2 and any(why in ran.stderr for why in REFUSED):
        return None
    said = re.search(r"int8: loss \S+ -> ([^\s,]+)", ran.stderr)
    if ran.returncode != 0 or not said:
        return f"int8: {ran.returncode}, {ran.stderr}"
    for compiler in compilers:
        flags = UNDEFINED if compiler == "gcc" else []
        got = built(folder, xs, ys, [compiler, *FLAGS, *flags], case)
        if got is None:
            return f"{compiler}: int8: another number of them"
        losses = [np.square(each.astype("f8") - y).mean()
                  for each, y in zip(got, ys)]
        loss = sum(losses)
        if abs(loss - float(said[1])) > 1e-3 * loss + 1e-12:
            return f"{compiler}: int8: loss {loss:.4g}, and {said[0]}"
        case.error = max(
            math.sqrt(each) / max(max(y.max(), 0) - min(y.min(), 0), 1e-6)
            for each, y in zip(losses, ys))
    return None if case.error < INT8 else f"int8: {case.error:.3g} of the range off"


def check(program, case, folder, compilers):
    """Returns the error, or None."""
    case.write(folder)
    model_of = ("run.json", "--init", "w.safetensors")
    if '"AdditiveAttention"' in (folder / "run.json").read_text():
        ran = subprocess.run(
            [program, "export", *model_of, "-o", "m.c"], cwd=folder,
            stderr=subprocess.PIPE, text=True)
        refused = "an AdditiveAttention, which cannot be exported" in ran.stderr
        return None if ran.returncode == 2 and refused else ran.stderr
    limit = getattr(case, "limit", LIMIT)
    for name in ("m.c", "m.onnx"):
        onnx_test.run(folder, program, "export", *model_of, "-o", name)
    onnx_test.run(folder, program, "predict", *model_of, "--data", "run.json",
                  "--part", "train", "-o", "y.npz")
    with np.load(folder / "y.npz") as arrays:
        ys = [arrays[name] for name in arrays]
    xs = [case.x, *case.more.values()]
    with np.errstate(all="ignore"):
        exact = onnx_numpy.Model(folder / "m.onnx")(*xs)
    if not all(np.isfinite(y).all() for y in ys) or max(
            np.abs(each).max() for each in exact) > 1e6:
        return None
    for true, y in zip(exact, ys):
        rounding = np.abs(true - y).max()
        if limit != LIMIT and rounding > limit * np.abs(y).max():
            return f"ONNX: {rounding:.3g} off"
    for compiler in compilers:
        got = built(folder, xs, ys, [compiler, *FLAGS], case)
        if got is None:
            return f"{compiler}: another number of them"
        for one, y, true in zip(got, ys, exact):
            problem = onnx_test.differs(one, y, limit, np.abs(true - y).max())
            if problem:
                return f"{compiler}: {problem}"
    case.ported = case.ports() != (1, 1)
    return check_int8(program, case, folder, compilers, xs, ys)


def main():
    parser = onnx_test.arguments()
    parser.add_argument("--cc", action="append",
                        help="a compiler (gcc and clang)")
    parser.add_argument("--runner", default="",
                        help="what runs its programs: 'qemu-s390x-static -L DIR'")
    parser.add_argument("--big-endian", action="store_true")
    options = parser.parse_args()
    compilers = [each for each in options.cc or ("gcc", "clang")
                 if shutil.which(each)]
    if not compilers:
        print("skipped: needs gcc or clang")
        sys.exit(77)
    program = pathlib.Path(options.build).resolve() / "tools/ringlet/ringlet"
    computed = failed = ported = 0
    errors = []
    for number, case in cases(options):
        computed += 1
        case.runner = options.runner.split()
        case.order = ">f4" if options.big_endian else "<f4"
        case.error = None
        case.ported = False
        with tempfile.TemporaryDirectory(prefix="ringlet-c-") as folder:
            try:
                problem = check(program, case, pathlib.Path(folder), compilers)
            except AssertionError as error:
                problem = str(error)
        ported += case.ported
        if case.error is not None:
            errors.append(case.error)
        if problem:
            failed += 1
            kinds = [each["class_name"] for each in case.layers()]
            print(f"case {number}: {problem}\n  {' '.join(kinds)}", flush=True)
    print(f"{computed - failed} of {computed} models agree, by "
          f"{' and '.join(compilers)}, {ported} with several inputs or outputs; "
          f"{len(errors)} in int8, the middle one "
          f"{np.median(errors or [0]):.2g} of the range off")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
