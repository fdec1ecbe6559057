"""ONNX files read and computed in NumPy, float64: of opset 13 the operators that
ringlet writes, by the text of the ONNX specification."""
import functools
import math
import struct

import numpy as np

from protobuf import fields

erf = np.vectorize(math.erf, otypes=[float])


# --- the messages of onnx.proto -------------------------------------------------

def texts(message, number):
    return [bytes(each).decode() for each in message.get(number, [])]


def tensor(message):
    dtype = {1: "<f4", 7: "<i8"}[message[2][0]]
    values = np.frombuffer(message[9][0], dtype).reshape(message.get(1, []))
    return values.astype(float) if dtype == "<f4" else values


def attribute(data):
    message = fields(data)
    value = {1: lambda: struct.unpack("<f", message[2][0])[0],
             2: lambda: message[3][0],
             3: lambda: bytes(message[4][0]).decode(),
             6: lambda: [struct.unpack("<f", each)[0] for each in message[7]],
             7: lambda: message[8],
             8: lambda: [bytes(each).decode() for each in message[9]],
             }[message[20][0]]()
    return texts(message, 1)[0], value


def value_info(data):
    """(name, dimensions: a number, or a name where it is open)."""
    message = fields(data)
    shape = fields(fields(fields(message[2][0])[1][0])[2][0])
    dims = [fields(dim) for dim in shape.get(1, [])]
    return texts(message, 1)[0], [
        dim[1][0] if 1 in dim else texts(dim, 2)[0] for dim in dims]


class Model:
    def __init__(self, path):
        message = fields(memoryview(path.read_bytes()))
        self.ir_version = message[1][0]
        self.opset = fields(message[8][0])[2][0]
        graph = fields(message[7][0])
        self.name = texts(graph, 2)[0]
        self.nodes = [fields(node) for node in graph.get(1, [])]
        self.inputs = [value_info(each) for each in graph[11]]
        self.outputs = [value_info(each) for each in graph[12]]
        self.constants = {}
        for data in graph.get(5, []):
            each = fields(data)
            self.constants[texts(each, 8)[0]] = tensor(each)

    def operators(self):
        return [texts(node, 4)[0] for node in self.nodes]

    def __call__(self, *xs):
        assert len(xs) == len(self.inputs)
        values = {**self.constants, "": None, **{
            name: x.astype(float) for (name, _), x in zip(self.inputs, xs)}}
        for node in self.nodes:
            attributes = dict(map(attribute, node.get(5, [])))
            outputs = texts(node, 2)
            result = OPERATORS[texts(node, 4)[0]](
                *[values[each] for each in texts(node, 1)], **attributes)
            results = result if isinstance(result, tuple) else (result,)
            assert len(outputs) <= len(results) and outputs[-1]
            for output, value in zip(outputs, results):
                assert output not in values or not output, (
                    output + " is made twice")
                values[output] = value if output else None
        for name, dims in self.outputs:
            assert list(values[name].shape[1:]) == dims[1:], name
        return [values[name] for name, _ in self.outputs]


# --- operators ------------------------------------------------------------------

def windows(x, fill, kernel_shape, strides, pads, dilations=None):
    """(N, C, positions ..., taps ...) of x (N, C, ...)."""
    axes = len(kernel_shape)
    dilations = dilations or [1] * axes
    x = np.pad(x, [(0, 0), (0, 0)] + [
        (pads[i], pads[i + axes]) for i in range(axes)], constant_values=fill)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations)]
    cut = np.lib.stride_tricks.sliding_window_view(
        x, extent, tuple(range(2, 2 + axes)))
    steps = [slice(None), slice(None)]
    steps += [slice(None, None, s) for s in strides]
    steps += [slice(None, None, d) for d in dilations]
    return cut[tuple(steps)]


def conv(x, w, b=None, *, kernel_shape, strides=None, pads=None, dilations=None,
         group=1):
    axes = len(kernel_shape)
    assert list(w.shape[2:]) == kernel_shape
    cut = windows(x, 0.0, kernel_shape, strides or [1] * axes,
                  pads or [0] * 2 * axes, dilations)
    parts = []
    for part, kernel in zip(np.split(cut, group, 1), np.split(w, group)):
        taps = tuple(range(2 + axes, 2 + 2 * axes))
        y = np.tensordot(part, kernel, ((1, *taps), tuple(range(1, 2 + axes))))
        parts.append(np.moveaxis(y, -1, 1))
    y = np.concatenate(parts, 1)
    return y if b is None else y + b.reshape(-1, *[1] * axes)


def conv_transpose(x, w, b=None, *, kernel_shape, strides, pads, dilations,
                   output_padding):
    axes = len(kernel_shape)
    assert list(w.shape[2:]) == kernel_shape
    whole = [(n - 1) * s + (k - 1) * d + 1 + more for n, s, k, d, more in zip(
        x.shape[2:], strides, kernel_shape, dilations, output_padding)]
    y = np.zeros((len(x), w.shape[1], *whole))
    for tap in np.ndindex(*kernel_shape):
        at = tuple(slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(
            tap, dilations, strides, x.shape[2:]))
        y[(..., *at)] += np.moveaxis(
            np.tensordot(x, w[(..., *tap)], (1, 0)), -1, 1)
    y = y[(..., *(slice(pads[i], y.shape[i + 2] - pads[i + axes])
                  for i in range(axes)))]
    return y if b is None else y + b.reshape(-1, *[1] * axes)


def max_pool(x, **window):
    cut = windows(x, -np.inf, **window)
    return cut.max(tuple(range(x.ndim, cut.ndim)))


def average_pool(x, **window):
    cut = windows(x, np.nan, **window)  # padding does not count
    return np.nanmean(cut, tuple(range(x.ndim, cut.ndim)))


def over_image(reduce):
    return lambda x: reduce(x, tuple(range(2, x.ndim)), keepdims=True)


def batch_normalization(x, scale, b, mean, variance, *, epsilon):
    scale, b, mean, variance = (t.reshape(-1, *[1] * (x.ndim - 2))
                                for t in (scale, b, mean, variance))
    return (x - mean) / np.sqrt(variance + epsilon) * scale + b


def pad(x, pads, value=0, *, mode="constant"):
    count = x.ndim
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, [(pads[i], pads[i + count]) for i in range(count)],
                  mode=mode, **more)


def cut(x, starts, ends, axes, steps=None):
    at = [slice(None)] * x.ndim
    for start, end, axis, step in zip(
            starts, ends, axes, [1] * len(axes) if steps is None else steps):
        # The least number, with a negative step, means from the end on.
        before = step < 0 and end < -x.shape[axis]
        at[axis] = slice(int(start), None if before else int(end), int(step))
    return x[tuple(at)]


def resize(x, roi, scales, *, mode, nearest_mode,
           coordinate_transformation_mode):
    assert (mode, nearest_mode, coordinate_transformation_mode, roi) == (
        "nearest", "floor", "asymmetric", None)
    for axis, scale in enumerate(scales):
        x = np.repeat(x, int(scale), axis)
    return x


def recurrent(step, gates, states):
    """RNN, LSTM and GRU in one direction: (all outputs, the last states)."""
    def run(x, w, r, b=None, lengths=None, *initial, hidden_size, direction, activations,
            activation_alpha=(), activation_beta=(), **more):
        w, r = w[0], r[0]
        assert w.shape[0] == r.shape[0] == gates * hidden_size
        b = np.zeros(2 * len(w)) if b is None else b[0]
        numbers = list(zip(activation_alpha, activation_beta))
        functions = []
        for name in activations:
            with_numbers = name in ("Affine", "HardSigmoid")
            functions.append(functools.partial(
                FUNCTIONS[name], *(numbers.pop(0) if with_numbers else ())))
        assert not numbers
        assert lengths is None and len(initial) in (0, states)
        assert all(each.shape == (1, x.shape[1], hidden_size)
                   for each in initial)
        state = [each[0] for each in initial] or [
            np.zeros((x.shape[1], hidden_size))] * states
        order = range(len(x))
        ys = [None] * len(x)
        for t in order if direction == "forward" else reversed(order):
            state = step(x[t], state, w, r, *np.split(b, 2), functions, **more)
            ys[t] = state[0]
        return np.stack(ys)[:, None], *(each[None] for each in state)
    return run


def rnn_step(x, state, w, r, wb, rb, functions):
    return [functions[0](x @ w.T + wb + state[0] @ r.T + rb)]


def lstm_step(x, state, w, r, wb, rb, functions):
    h, c = state
    f, g, last = functions
    zi, zo, zf, zc = np.split(x @ w.T + wb + h @ r.T + rb, 4, 1)
    c = f(zf) * c + f(zi) * g(zc)
    return [f(zo) * last(c), c]


def gru_step(x, state, w, r, wb, rb, functions, *, linear_before_reset):
    (h,), (f, g) = state, functions
    xz, xr, xh = np.split(x @ w.T + wb, 3, 1)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh = np.split(rb, 3)
    z, reset = f(xz + h @ rz.T + bz), f(xr + h @ rr.T + br)
    if linear_before_reset:
        new = g(xh + reset * (h @ rh.T + bh))
    else:
        new = g(xh + (reset * h) @ rh.T + bh)
    return [(1 - z) * new + z * h]


FUNCTIONS = {
    "Tanh": np.tanh, "Sigmoid": lambda x: 0.5 + 0.5 * np.tanh(x / 2),
    "Relu": lambda x: np.maximum(x, 0),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.logaddexp(0, x),
    "Affine": lambda alpha, beta, x: alpha * x + beta,
    "HardSigmoid": lambda alpha, beta, x: np.clip(alpha * x + beta, 0, 1),
}


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def cumulated(x, axis, reverse):
    (axis,) = axis
    return np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis)


def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n
                      for i, n in enumerate(shape)])


OPERATORS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
    "Log": np.log, "Pow": np.power, "Max": np.maximum, "Min": np.minimum, "MatMul": np.matmul,
    "Relu": lambda x: np.maximum(x, 0),
    "LeakyRelu": lambda x, alpha=0.01: np.where(x < 0, alpha * x, x),
    "PRelu": lambda x, slope: np.where(x < 0, slope * x, x),
    "ThresholdedRelu": lambda x, alpha=1.0: np.where(x > alpha, x, 0),
    "Elu": lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x), x),
    "Selu": lambda x: 1.05070102214813232421875 * np.where(
        x > 0, x, 1.67326319217681884765625 * np.expm1(x)),
    "Clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "Sigmoid": lambda x: 0.5 + 0.5 * np.tanh(x / 2), "Tanh": np.tanh,
    "HardSigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "Exp": np.exp, "Erf": erf, "Sqrt": np.sqrt,
    "Softplus": lambda x: np.logaddexp(0, x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softmax": softmax,
    "LogSoftmax": lambda x, axis: np.log(softmax(x, axis)),
    "Identity": lambda x: x,
    "Flatten": lambda x, axis: x.reshape(math.prod(x.shape[:axis]), -1),
    "Reshape": reshape, "Pad": pad, "Slice": cut, "Resize": resize,
    "Transpose": lambda x, perm: x.transpose(perm),
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "ReduceMax": lambda x, axes, keepdims: x.max(
        tuple(axes), keepdims=bool(keepdims)),
    "ReduceMean": lambda x, axes, keepdims: x.mean(
        tuple(axes), keepdims=bool(keepdims)),
    "ReduceL2": lambda x, axes, keepdims: np.sqrt((x * x).sum(
        tuple(axes), keepdims=bool(keepdims))),
    "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": max_pool, "AveragePool": average_pool,
    "GlobalAveragePool": over_image(np.mean),
    "GlobalMaxPool": over_image(np.max),
    "BatchNormalization": batch_normalization,
    "RNN": recurrent(rnn_step, 1, 1), "LSTM": recurrent(lstm_step, 4, 2),
    "GRU": recurrent(gru_step, 3, 1),
    "Less": np.less, "Equal": np.equal, "Not": np.logical_not, "Where": np.where,
    "CumSum": cumulated, "Cast": lambda x, to: x.astype({1: float, 7: int, 9: bool}[to]),
    "Gather": lambda x, indices, axis: x.take(indices, axis),
    "Shape": lambda x: np.array(x.shape),
    "Expand": lambda x, shape: np.broadcast_to(x, shape),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
}
