"""Keras's training of a RUN.json, in plain NumPy: what ringlet is held against.

Written from Keras's definitions, shares nothing with ringlet. All is computed
in float64 (or in float32, to learn how far rounding alone leads away):

    run = json of a RUN.json (fit.shuffle, fit.steps_per_epoch, ... as Keras)
    Fit(run, world, data, weights).results()

Images are (batch, height, width, channels), Conv2D kernels (height, width, in,
out), Dense kernels (in, out). A gradient is that of the mean over the whole
batch, of all workers together.
"""
import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

EPSILON = 1e-7  # Keras's backend epsilon


# --- activations --------------------------------------------------------------

def activate(name, z):
    if name == "relu":
        return np.maximum(z, 0)
    if name == "sigmoid":
        e = np.exp(-np.abs(z))
        return np.where(z >= 0, 1, e) / (1 + e)
    if name == "tanh":
        return np.tanh(z)
    if name == "softmax":
        e = np.exp(z - z.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    assert name == "linear", name
    return z


def activation_gradient(name, y, dy):
    if name == "relu":
        return np.where(y > 0, dy, 0)
    if name == "sigmoid":
        return dy * y * (1 - y)
    if name == "tanh":
        return dy * (1 - y * y)
    if name == "softmax":
        return y * (dy - (dy * y).sum(-1, keepdims=True))
    return dy


# --- layers -------------------------------------------------------------------

class Layer:
    """`build` gives the output's shape and fills `shapes`, those of the weights
    by name; `forward` keeps what `backward` needs."""
    activation = "linear"

    def __init__(self, config):
        self.config = config
        self.name = config["name"]
        self.shapes = {}
        self.weights = {}
        self.gradients = {}
        self.trainable = config.get("trainable", True)

    def regularizer(self, weight):
        """(l1, l2) of a weight; Keras 3 has no penalty of what is frozen."""
        if not self.trainable:
            return 0.0, 0.0
        entry = self.config.get(weight + "_regularizer")
        if not entry:
            return 0.0, 0.0
        config = entry["config"]
        return config.get("l1", 0.0), config.get("l2", 0.0)


class Identity(Layer):
    """Dropout: with rate 0, or where nothing is trained."""

    def build(self, shapes):
        return shapes[0]

    def forward(self, xs):
        return xs[0]

    def backward(self, dy):
        return [dy]


class View(Layer):
    def build(self, shapes):
        size = math.prod(shapes[0])
        target = list(self.config.get("target_shape", [-1]))
        if -1 in target:
            target[target.index(-1)] = size // -math.prod(target)
        assert math.prod(target) == size
        return tuple(target)

    def forward(self, xs):
        self.shape = xs[0].shape
        return xs[0].reshape(len(xs[0]), *self.build([xs[0].shape[1:]]))

    def backward(self, dy):
        return [dy.reshape(self.shape)]


class Activation(Layer):
    def __init__(self, config, activation=None):
        super().__init__(config)
        self.activation = activation or config["activation"]

    def build(self, shapes):
        return shapes[0]

    def forward(self, xs):
        self.z = xs[0]
        self.y = activate(self.activation, self.z)
        return self.y

    def backward(self, dy, of_logits=False):
        if of_logits:
            return [dy]
        return [activation_gradient(self.activation, self.y, dy)]


class Weighted(Layer):
    """activation(linear(x) + bias)."""

    def __init__(self, config):
        super().__init__(config)
        self.activation = config.get("activation") or "linear"

    def set_shapes(self, kernel):
        self.shapes["kernel"] = kernel
        if self.config.get("use_bias", True):
            self.shapes["bias"] = kernel[-1:]

    def forward(self, xs):
        self.x = xs[0]
        self.z = self.linear(self.x)
        if "bias" in self.shapes:
            self.z = self.z + self.weights["bias"]
        self.y = activate(self.activation, self.z)
        return self.y

    def backward(self, dy, of_logits=False):
        dz = dy if of_logits else activation_gradient(self.activation, self.y,
                                                      dy)
        if "bias" in self.shapes:
            self.gradients["bias"] = dz.reshape(-1, dz.shape[-1]).sum(0)
        return [self.linear_backward(dz)]


class Dense(Weighted):
    def build(self, shapes):
        self.set_shapes((shapes[0][-1], self.config["units"]))
        return (*shapes[0][:-1], self.config["units"])

    def linear(self, x):
        return x @ self.weights["kernel"]

    def linear_backward(self, dz):
        self.gradients["kernel"] = (self.x.reshape(-1, self.x.shape[-1]).T @
                                    dz.reshape(-1, dz.shape[-1]))
        return dz @ self.weights["kernel"].T


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


class Window:
    """Windows over an image, with TensorFlow's paddings."""

    def __init__(self, size, strides, padding):
        self.size, self.strides, self.padding = size, strides, padding

    def pads(self, shape):
        pads = []
        for size, window, stride in zip(shape, self.size, self.strides):
            total = 0
            if self.padding == "same":
                total = max((-(-size // stride) - 1) * stride + window - size, 0)
            pads.append((total // 2, total - total // 2))
        return pads

    def output(self, shape):
        return tuple((size + sum(pad) - window) // stride + 1
                     for size, window, stride, pad in
                     zip(shape, self.size, self.strides, self.pads(shape)))

    def cut(self, x, fill):
        """(batch, oh, ow, channels, kh, kw)."""
        self.shape = x.shape
        padded = np.pad(x, [(0, 0), *self.pads(x.shape[1:3]), (0, 0)],
                        constant_values=fill)
        self.padded = padded.shape
        windows = sliding_window_view(padded, self.size, (1, 2))
        return windows[:, ::self.strides[0], ::self.strides[1]]

    def paste(self, part):
        """The sum into an image of part(ky, kx), each (batch, oh, ow, c)."""
        image = None
        oh, ow = self.output(self.shape[1:3])
        for ky in range(self.size[0]):
            for kx in range(self.size[1]):
                d = part(ky, kx)
                if image is None:
                    image = np.zeros(self.padded, d.dtype)
                image[:, ky:ky + self.strides[0] * (oh - 1) + 1:self.strides[0],
                      kx:kx + self.strides[1] * (ow - 1) + 1:self.strides[1]
                      ] += d
        (top, _), (left, _) = self.pads(self.shape[1:3])
        return image[:, top:top + self.shape[1], left:left + self.shape[2]]


class Conv2D(Weighted):
    def __init__(self, config):
        super().__init__(config)
        self.window = Window(pair(config["kernel_size"]),
                             pair(config.get("strides", 1)),
                             config.get("padding", "valid"))

    def build(self, shapes):
        height, width, channels = shapes[0]
        filters = self.config["filters"]
        self.set_shapes((*self.window.size, channels, filters))
        return (*self.window.output((height, width)), filters)

    def linear(self, x):
        self.windows = self.window.cut(x, 0)
        return np.tensordot(self.windows, self.weights["kernel"],
                            ([4, 5, 3], [0, 1, 2]))

    def linear_backward(self, dz):
        self.gradients["kernel"] = np.tensordot(
            self.windows, dz, ([0, 1, 2], [0, 1, 2])).transpose(1, 2, 0, 3)
        kernel = self.weights["kernel"]
        return self.window.paste(lambda ky, kx: dz @ kernel[ky, kx].T)


class Pooling2D(Layer):
    def __init__(self, config, is_max):
        super().__init__(config)
        self.is_max = is_max
        size = pair(config.get("pool_size", 2))
        self.window = Window(size, pair(config.get("strides") or size),
                             config.get("padding", "valid"))

    def build(self, shapes):
        return (*self.window.output(shapes[0][:2]), shapes[0][2])

    def forward(self, xs):
        if self.is_max:
            windows = self.window.cut(xs[0], -np.inf)
            flat = windows.reshape(*windows.shape[:4], -1)
            self.first = flat.argmax(-1)
            return flat.max(-1)
        inside = self.window.cut(np.ones_like(xs[0][:1]), 0).sum((-1, -2))
        self.count = inside
        return self.window.cut(xs[0], 0).sum((-1, -2)) / inside

    def backward(self, dy):
        if self.is_max:
            width = self.window.size[1]
            return [self.window.paste(lambda ky, kx: np.where(
                self.first == ky * width + kx, dy, 0))]
        return [self.window.paste(lambda ky, kx: dy / self.count)]


class GlobalAveragePooling2D(Layer):
    def build(self, shapes):
        keeps = self.config.get("keepdims", False)
        return ((1, 1) if keeps else ()) + (shapes[0][2],)

    def forward(self, xs):
        self.shape = xs[0].shape
        mean = xs[0].mean((1, 2))
        return mean.reshape(len(mean), *self.build([self.shape[1:]]))

    def backward(self, dy):
        share = dy.reshape(len(dy), 1, 1, -1) / math.prod(self.shape[1:3])
        return [np.broadcast_to(share, self.shape).copy()]


class Add(Layer):
    def build(self, shapes):
        return shapes[0]

    def forward(self, xs):
        self.count = len(xs)
        return sum(xs[1:], xs[0])

    def backward(self, dy):
        return [dy] * self.count


class Concatenate(Layer):
    def build(self, shapes):
        return (*shapes[0][:-1], sum(shape[-1] for shape in shapes))

    def forward(self, xs):
        self.ends = np.cumsum([x.shape[-1] for x in xs])[:-1]
        return np.concatenate(xs, -1)

    def backward(self, dy):
        return np.split(dy, self.ends, -1)


LAYERS = {
    "Flatten": View, "Reshape": View, "Dropout": Identity,
    "Activation": Activation, "Dense": Dense, "Conv2D": Conv2D,
    "ReLU": lambda config: Activation(config, "relu"),
    "Softmax": lambda config: Activation(config, "softmax"),
    "MaxPooling2D": lambda config: Pooling2D(config, True),
    "AveragePooling2D": lambda config: Pooling2D(config, False),
    "GlobalAveragePooling2D": GlobalAveragePooling2D,
    "Add": Add, "Concatenate": Concatenate,
}


def names_in(node):
    """The layers that an inbound node of Keras 3 names, in order."""
    if isinstance(node, list):
        return [name for each in node for name in names_in(each)]
    return [node["config"]["keras_history"][0]]


class Model:
    """Of Keras's JSON; every layer has a name, the layers of a functional model
    stand behind their inputs."""

    def __init__(self, config):
        layers = config["config"]["layers"]
        functional = config["class_name"] == "Functional"
        self.input_name = layers[0]["config"]["name"]
        self.input_shape = tuple(layers[0]["config"]["batch_shape"][1:])
        self.layers, self.inputs = [], []
        shapes = {self.input_name: self.input_shape}
        last = self.input_name
        for entry in layers[1:]:
            layer = LAYERS[entry["class_name"]](entry["config"])
            inputs = (names_in(entry["inbound_nodes"][0]["args"])
                      if functional else [last])
            shapes[layer.name] = layer.build([shapes[name] for name in inputs])
            self.layers.append(layer)
            self.inputs.append(inputs)
            last = layer.name
        self.output_shape = shapes[last]
        self.noise = lambda t: t

    def weights(self):
        """(path, layer, name) of each weight."""
        return [(f"{layer.name}/{name}", layer, name)
                for layer in self.layers for name in layer.shapes]

    def forward(self, x):
        tensors = {self.input_name: x}
        for layer, inputs in zip(self.layers, self.inputs):
            tensors[layer.name] = self.noise(
                layer.forward([tensors[name] for name in inputs]))
        return tensors[self.layers[-1].name]

    def backward(self, dy, of_logits):
        gradients = {self.layers[-1].name: dy}
        for layer, inputs in zip(self.layers[::-1], self.inputs[::-1]):
            own = gradients.pop(layer.name)
            last = layer is self.layers[-1]
            parts = (layer.backward(own, True) if last and of_logits
                     else layer.backward(own))
            for name, weight in layer.gradients.items():
                layer.gradients[name] = self.noise(weight)
            for name, part in zip(inputs, parts):
                part = self.noise(part)
                gradients[name] = gradients.get(name, 0) + part

    def penalty(self):
        total = 0.0
        for _, layer, name in self.weights():
            l1, l2 = layer.regularizer(name)
            w = layer.weights[name]
            total += l1 * np.abs(w).sum() + l2 * (w * w).sum()
        return float(total)

    def whole_gradients(self):
        """Of the loss with the penalties, by the path of each trained weight."""
        result = {}
        for path, layer, name in self.weights():
            if not layer.trainable:
                continue
            l1, l2 = layer.regularizer(name)
            w = layer.weights[name]
            result[path] = layer.gradients[name] + l1 * np.sign(w) + 2 * l2 * w
        return result


# --- losses -------------------------------------------------------------------

def log_softmax(z):
    shifted = z - z.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def clip(p):
    """Clipped, and 1 where the gradient goes through."""
    # The bound as Keras has it: 1 - 1e-7 in float32.
    high = float(np.float32(1) - np.float32(EPSILON))
    return np.clip(p, EPSILON, high), (p >= EPSILON) & (p <= high)


def one_hot(labels, classes):
    return np.eye(classes)[labels]


class Loss:
    """Of one row of the last axis each, and its gradient by the predictions (or,
    with `takes_logits`, by the input of the last activation)."""

    HEADS = {"SparseCategoricalCrossentropy": "softmax",
             "CategoricalCrossentropy": "softmax",
             "BinaryCrossentropy": "sigmoid"}

    def __init__(self, config, model):
        self.kind = config["class_name"]
        self.config = config.get("config", {})
        self.from_logits = self.config.get("from_logits", False)
        self.smoothing = self.config.get("label_smoothing", 0.0)
        self.sparse = self.kind == "SparseCategoricalCrossentropy"
        # Keras goes back to the input of a softmax or sigmoid.
        self.takes_logits = (self.HEADS.get(self.kind, "") ==
                             model.layers[-1].activation)
        self.from_logits |= self.takes_logits

    def rows(self, p, y):
        """(loss, gradient) of each row: (..., K) to (...), (..., K)."""
        k = p.shape[-1]
        if self.kind in ("SparseCategoricalCrossentropy",
                         "CategoricalCrossentropy"):
            t = one_hot(y, k).astype(p.dtype) if self.sparse else y
            t = t * (1 - self.smoothing) + self.smoothing / k
            if self.from_logits:
                logs = log_softmax(p)
                weight = t.sum(-1, keepdims=True)
                return -(t * logs).sum(-1), np.exp(logs) * weight - t
            if self.sparse:
                q, through = clip(p)
                total = q.sum(-1, keepdims=True)
                logs = np.log(q) - np.log(total)
                return -(t * logs).sum(-1), through * (1 / total - t / q)
            total = p.sum(-1, keepdims=True)
            q, through = clip(p / total)
            dq = -t / q * through
            dot = (dq * p / total).sum(-1, keepdims=True)
            return -(t * np.log(q)).sum(-1), (dq - dot) / total
        if self.kind == "BinaryCrossentropy":
            t = y * (1 - self.smoothing) + self.smoothing / 2
            if self.from_logits:
                loss = np.maximum(p, 0) - p * t + np.log1p(np.exp(-np.abs(p)))
                d = activate("sigmoid", p) - t
            else:
                q, through = clip(p)
                loss = -(t * np.log(q) + (1 - t) * np.log(1 - q))
                d = through * ((1 - t) / (1 - q) - t / q)
        else:
            e = p - y
            if self.kind == "MeanSquaredError":
                loss, d = e * e, 2 * e
            elif self.kind == "MeanAbsoluteError":
                loss, d = np.abs(e), np.sign(e)
            else:
                assert self.kind == "Huber"
                delta = self.config.get("delta", 1.0)
                inner = np.abs(e) <= delta
                loss = np.where(inner, e * e / 2,
                                delta * np.abs(e) - delta * delta / 2)
                d = np.where(inner, e, delta * np.sign(e))
        return loss.mean(-1), d / k

    def __call__(self, model, p, y):
        """(per example, gradient of their mean, whether by the logits)."""
        z = model.layers[-1].z if self.takes_logits else p
        loss, d = self.rows(z, y)
        count = len(p)
        per_row = loss.size // count
        return (loss.reshape(count, -1).mean(1), d / (count * per_row),
                self.takes_logits)


# --- metrics ------------------------------------------------------------------

class Metric:
    """The sum over rows, and how many rows a hair's breadth would turn."""

    NEAR = 3e-5

    def __init__(self, config, loss, output):
        self.config = config.get("config", {}) if isinstance(config, dict) else {}
        self.kind = config["class_name"] if isinstance(config, dict) else config
        if self.kind == "accuracy":
            self.kind = ("SparseCategoricalAccuracy" if loss.sparse else
                         "BinaryAccuracy" if output[-1] == 1 else
                         "CategoricalAccuracy")

    def __call__(self, p, y):
        p = p.reshape(-1, p.shape[-1])
        y = y.reshape(-1) if self.kind.startswith("Sparse") else y.reshape(
            p.shape)
        if self.kind == "MeanSquaredError":
            return ((p - y) ** 2).mean(-1).sum(), 0, len(p)
        if self.kind == "MeanAbsoluteError":
            return np.abs(p - y).mean(-1).sum(), 0, len(p)
        if self.kind == "BinaryAccuracy":
            threshold = self.config.get("threshold", 0.5)
            near = (np.abs(p - threshold) < self.NEAR).mean(-1).sum()
            return ((p > threshold) == y).mean(-1).sum(), near, len(p)
        near_by = self.NEAR * np.maximum(1, np.abs(p).max(-1))
        if self.kind == "SparseTopKCategoricalAccuracy":
            k = self.config.get("k", 5)
            own = p[np.arange(len(p)), y][:, None]
            larger = (p > own).sum(-1)
            close = (np.abs(p - own) < near_by[:, None]).sum(-1) > 1
            return (larger < k).sum(), close.sum(), len(p)
        label = y if self.kind.startswith("Sparse") else y.argmax(-1)
        order = np.sort(p, -1)
        near = (order[:, -1] - order[:, -2] < near_by).sum()
        return (p.argmax(-1) == label).sum(), near, len(p)


# --- optimizers ---------------------------------------------------------------

def learning_rate(rate, step):
    if not isinstance(rate, dict):
        return rate
    c = rate["config"]
    if rate["class_name"] == "PiecewiseConstantDecay":
        for boundary, value in zip(c["boundaries"], c["values"]):
            if step <= boundary:
                return value
        return c["values"][-1]
    initial = c["initial_learning_rate"]
    if rate["class_name"] == "ExponentialDecay":
        p = step / c["decay_steps"]
        return initial * c["decay_rate"] ** (
            math.floor(p) if c.get("staircase") else p)
    assert rate["class_name"] == "CosineDecay"
    target = c.get("warmup_target")
    warmup = c.get("warmup_steps", 0)
    if target is None:
        target, warmup = initial, 0
    if step < warmup:
        return initial + (target - initial) * step / warmup
    part = min(step - warmup, c["decay_steps"]) / c["decay_steps"]
    alpha = c.get("alpha", 0.0)
    return target * ((1 - alpha) * 0.5 * (1 + math.cos(math.pi * part)) + alpha)


class Optimizer:
    DEFAULTS = {
        "SGD": {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False},
        "RMSprop": {"learning_rate": 0.001, "rho": 0.9, "momentum": 0.0,
                    "epsilon": 1e-7, "centered": False},
        "Adam": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999,
                 "epsilon": 1e-7, "amsgrad": False},
    }
    DEFAULTS["Adamax"] = {"learning_rate": 0.001, "beta_1": 0.9,
                          "beta_2": 0.999, "epsilon": 1e-7}
    DEFAULTS["AdamW"] = {**DEFAULTS["Adam"], "weight_decay": 0.004}

    def __init__(self, config):
        self.kind = config["class_name"]
        self.o = {**self.DEFAULTS[self.kind], **config.get("config", {})}
        self.iterations = 0
        self.slots = {}

    def clip(self, gradients):
        o = self.o
        if o.get("clipvalue"):
            c = o["clipvalue"]
            return {k: np.clip(g, -c, c) for k, g in gradients.items()}
        if o.get("clipnorm"):
            c = o["clipnorm"]
            return {k: g * (c / max(math.sqrt(float((g * g).sum())), c))
                    for k, g in gradients.items()}
        if o.get("global_clipnorm"):
            c = o["global_clipnorm"]
            norm = math.sqrt(sum(float((g * g).sum())
                                 for g in gradients.values()))
            factor = c / max(norm, c)
            return {k: g * factor for k, g in gradients.items()}
        return gradients

    def step(self, weights, gradients):
        """Changes the arrays of `weights` in place."""
        rate = learning_rate(self.o["learning_rate"], self.iterations)
        self.iterations += 1
        decay = self.o.get("weight_decay") or 0.0
        for path, g in self.clip(gradients).items():
            w = weights[path]
            slots = self.slots.setdefault(
                path, [np.zeros_like(w) for _ in range(3)])
            w -= w * w.dtype.type(decay * rate)
            w -= getattr(self, "of_" + self.kind.lower())(rate, g, slots)

    def of_sgd(self, rate, g, slots):
        mu, m = self.o["momentum"], slots[0]
        if mu == 0:
            return rate * g
        m[:] = mu * m - rate * g
        return -(mu * m - rate * g) if self.o["nesterov"] else -m

    def of_rmsprop(self, rate, g, slots):
        o, (v, a, m) = self.o, slots
        rho = o["rho"]
        v[:] = rho * v + (1 - rho) * g * g
        d = v
        if o["centered"]:
            a[:] = rho * a + (1 - rho) * g
            d = v - a * a
        change = rate * g / np.sqrt(d + o["epsilon"])
        if o["momentum"] == 0:
            return change
        m[:] = o["momentum"] * m + change
        return m

    def of_adam(self, rate, g, slots):
        o, (m, v, largest) = self.o, slots
        t = self.iterations
        alpha = rate * math.sqrt(1 - o["beta_2"] ** t) / (1 - o["beta_1"] ** t)
        m += (g - m) * (1 - o["beta_1"])
        v += (g * g - v) * (1 - o["beta_2"])
        if o["amsgrad"]:
            largest[:] = np.maximum(largest, v)
            v = largest
        return alpha * m / (np.sqrt(v) + o["epsilon"])

    of_adamw = of_adam

    def of_adamax(self, rate, g, slots):
        o, (m, u, _) = self.o, slots
        m += (g - m) * (1 - o["beta_1"])
        u[:] = np.maximum(o["beta_2"] * u, np.abs(g))
        return rate / (1 - o["beta_1"] ** self.iterations) * m / (
            u + o["epsilon"])


# --- the order of the examples ------------------------------------------------

MASK = (1 << 64) - 1


def mix(v):
    """SplitMix64's finaliser."""
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB & MASK
    return v ^ (v >> 31)


def permute(seed, epoch, n, i):
    """Where example i of n is taken from, as core/data/dataset.h's Permute says."""
    half = 1
    while half < 31 and 1 << 2 * half < n:
        half += 1
    low = (1 << half) - 1
    key = mix(seed + mix(epoch + 0x9E3779B97F4A7C15 & MASK) & MASK)
    v = i
    while True:
        left, right = v >> half, v & low
        for turn in range(8):
            left, right = right, left ^ mix(key ^ right + (turn << 40)) & low
        v = left << half | right
        if v < n:
            return v


# --- fit ----------------------------------------------------------------------

def disturbed(t, noise):
    """As float32 may round sums whose terms are of the tensor's size; what is
    exactly 0 stays so."""
    size = np.abs(t) + 0.5 * math.sqrt(float((t * t).mean()))
    return t + 2.0 ** -24 * noise.standard_normal(t.shape) * size * (t != 0)


class Fit:
    """One run of training. `data` is (x, y) of all examples as the model sees
    them, `validation` such a pair or None, `weights` arrays by path. `noise`
    is a random generator: values are then changed by as much as float32 may
    round them. `runs`: so often fit is called, one time after another."""

    def __init__(self, run, world, data, validation, weights, dtype=np.float64,
                 noise=None, runs=1):
        self.fit = run.get("fit", {})
        self.world, self.dtype, self.runs = world, dtype, runs
        self.model = Model(run["model"])
        if noise is not None:
            self.model.noise = lambda t: disturbed(t, noise)
        compile_ = run["compile"]
        self.loss = Loss(compile_["loss"], self.model)
        self.metrics = [Metric(each, self.loss, self.model.output_shape)
                        for each in compile_.get("metrics", [])]
        self.optimizer = Optimizer(compile_["optimizer"])
        self.weights = {}
        for path, layer, name in self.model.weights():
            w = weights[path].astype(dtype)
            if noise is not None:
                w = w * (1 + 2.0 ** -24 * noise.standard_normal(w.shape))
            layer.weights[name] = self.weights[path] = w
        self.data = self.cast(data)
        self.validation = self.cast(validation) if validation else None
        steps = self.fit.get("validation_steps")
        if validation and steps:
            size = self.fit.get("validation_batch_size") or self.fit.get(
                "batch_size", 32)
            self.validation = tuple(t[:steps * size * world]
                                    for t in self.validation)

    def cast(self, data):
        x, y = data
        x = x.astype(self.dtype).reshape(len(x), *self.model.input_shape)
        rows = self.model.output_shape
        if self.loss.sparse:
            return x, y.reshape(len(y), *rows[:-1])
        return x, y.astype(self.dtype).reshape(len(y), *rows)

    def batches(self):
        """For each epoch the list of its batches' indices."""
        fit, n = self.fit, len(self.data[0])
        size = fit.get("batch_size", 32) * self.world
        epochs = fit.get("epochs", 1)
        seed = fit.get("seed", 1)

        def at(k):
            epoch, i = divmod(k, n)
            return permute(seed, epoch, n, i) if fit.get("shuffle", True) else i

        steps = fit.get("steps_per_epoch")
        result = []
        for epoch in range(epochs):
            if steps:
                starts = [(epoch * steps + s) * size for s in range(steps)]
                result.append([[at(k) for k in range(s, s + size)]
                               for s in starts])
            else:
                order = [at(epoch * n + i) for i in range(n)]
                result.append([order[s:s + size] for s in range(0, n, size)])
        return result

    def measure(self, p, y, sums):
        for metric, total in zip(self.metrics, sums):
            total += metric(p, y)

    def evaluate(self, data, sizes=128):
        """[loss, metrics ...], and the share of turnable rows of each."""
        x, y = data
        total = 0.0
        sums = np.zeros((len(self.metrics), 3))
        for i in range(0, len(x), sizes):
            p = self.model.forward(x[i:i + sizes])
            per, _, _ = self.loss(self.model, p, y[i:i + sizes])
            total += float(per.astype(np.float64).sum())
            self.measure(p, y[i:i + sizes], sums)
        values = [total / len(x) + self.model.penalty()]
        return (values + list(sums[:, 0] / sums[:, 2]),
                [0.0] + list(sums[:, 1] / sums[:, 2]))

    def validates(self, epoch):
        freq = self.fit.get("validation_freq", 1)
        return self.validation is not None and (
            epoch % freq == 0 if isinstance(freq, int) else epoch in freq)

    def results(self):
        """Arrays by name: steps (S, 1 + metrics), steps_slack, epochs, val,
        val_slack, and weights/PATH."""
        steps, slacks, epochs, val, val_slacks = [], [], [], [], []
        for number, epoch in enumerate(self.batches() * self.runs):
            total, examples = 0.0, 0
            for index in epoch:
                x, y = self.data[0][index], self.data[1][index]
                p = self.model.forward(x)
                per, d, of_logits = self.loss(self.model, p, y)
                value = float(per.astype(np.float64).mean()) + (
                    self.model.penalty())
                sums = np.zeros((len(self.metrics), 3))
                self.measure(p, y, sums)
                self.model.backward(d.astype(self.dtype), of_logits)
                gradients = self.model.whole_gradients()
                self.optimizer.step(self.weights, gradients)
                steps.append([value, *(sums[:, 0] / sums[:, 2])])
                slacks.append([0.0, *(sums[:, 1] / sums[:, 2])])
                total += value * len(index)
                examples += len(index)
            epochs.append([total / examples])
            if self.validates(number % self.fit.get("epochs", 1) + 1):
                values, slack = self.evaluate(self.validation)
                val.append(values)
                val_slacks.append(slack)
        result = {"steps": np.array(steps), "steps_slack": np.array(slacks),
                  "epochs": np.array(epochs), "val": np.array(val),
                  "val_slack": np.array(val_slacks)}
        for path, w in self.weights.items():
            result["weights/" + path] = w.astype(np.float64)
        return result
