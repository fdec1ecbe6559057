"""Random models with a Masking, and examples for them; and models with a Dot."""
import numpy as np

import differential
from differential import pick


def add_states(b, x, rng):
    """An encoder, and a decoder of the same steps that begins with its states."""
    kind, config = differential.random_recurrence(rng, True)
    config["return_state"] = True
    if rng.random() < 0.4 and not config.get("go_backwards"):
        inner = {"class_name": kind, "config": {"name": "inner", **config}}
        both = {"layer": inner, "merge_mode": pick(rng, "concat", None)}
        y = b.add("Bidirectional", both, [x])
        states = b.states(y, "Bidirectional", both)
        if both["merge_mode"] is None:
            x = b.add("Multiply", {}, [y, f"{y}:1"])
        half = len(states) // 2
        initial = states[:half]
    else:
        y = b.add(kind, config, [x])
        initial = states = b.states(y, kind, config)
    config = {**config, "go_backwards": bool(rng.random() < 0.4)}
    y = b.add(kind, config, [x], initial_state=[b.tensor(each) for each in initial])
    last = b.states(y, kind, config)
    y = b.add("GlobalAveragePooling1D", {}, [y])
    return b.add("Concatenate", {}, [y, *last, *states])


def add_attention(b, x, rng):
    """Of x to itself, or to a Dense of it, which has the same mask."""
    width = b.shapes[x][1]
    causal = {"use_causal_mask": True} if rng.random() < 0.5 else {}
    value = key = []
    if rng.random() < 0.6:
        kind, config = pick(rng, ("Dense", {"units": width}), (
            "Conv1D", {"filters": width, "kernel_size": [1]}))
        value = [b.add(kind, config, [x])]
        key = pick(rng, [], [x])
    if not value:
        value = [x]
    if rng.random() < 0.5:
        return b.add(pick(rng, "Attention", "AdditiveAttention"),
                     {"use_scale": bool(rng.integers(2))},
                     [x, *value, *key], **causal)
    return b.add("MultiHeadAttention", {"num_heads": int(rng.integers(1, 4)),
                                        "key_dim": int(rng.integers(1, 6))},
                 [x, *value, *key], **causal)


def masked_model(rng):
    steps = int(pick(rng, 1, 2, int(rng.integers(3, 13))))
    width = int(rng.integers(1, 5))
    b = differential.Builder(rng, True, [steps, width], rng)
    x = b.add("Masking", {"mask_value": float(pick(rng, 0.0, 0.0, -1.5))}, [b.input])
    if rng.random() < 0.3:
        x = b.add("BatchNormalization", {}, [x])
    kind = rng.random()
    if kind < 0.25:
        x = add_states(b, x, rng)
    elif kind < 0.6:
        x = differential.add_recurrent(b, x, rng, bool(rng.integers(2)))
    elif kind < 0.9:
        x = add_attention(b, x, rng)
    if len(b.shapes[x]) == 2 and rng.random() < 0.5:
        x = b.add("GlobalAveragePooling1D", {"keepdims": bool(rng.integers(2))}, [x])
    b.add("Dense", {"units": 3}, [x])
    return b.json()


def dot_model(rng):
    """A Dot over any axes of two inputs."""
    rows, width = (int(n) for n in rng.integers(1, 9, 2))
    b = differential.Builder(rng, True, [rows, width], rng)
    ends, inputs = [], []
    size = int(pick(rng, rows, width))
    for _ in range(2):
        x = b.add("Dense", {"units": size}, [b.input])
        end = 2
        what = rng.random()
        if what < 0.3:
            x, end = b.add("GlobalMaxPooling1D", {}, [x]), 1
        elif what < 0.6:
            x, end = b.add("Permute", {"dims": [2, 1]}, [x]), 1
        ranked = len(b.shapes[x]) + 1
        ends.append(end - ranked if rng.random() < 0.3 else end)
        inputs.append(x)
    x = b.add("Dot", {"axes": ends, "normalize": bool(rng.integers(2))}, inputs)
    b.add("Dense", {"units": 3}, [x])
    return b.json()


def hide_steps(rng, model, x):
    """Gives some steps of the examples x the value of the model's Masking. In the
    first example these may be all."""
    for layer in model["config"]["layers"]:
        if layer["class_name"] != "Masking":
            continue
        hidden = rng.random(x.shape[:2]) < 0.4
        hidden[0] |= rng.random() < 0.3
        x[hidden] = np.float32(layer["config"].get("mask_value", 0.0))
