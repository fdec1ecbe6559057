"""Keras's training of a RUN.json in NumPy: the reference of ringlet.

Written from Keras's definitions, it shares no code with ringlet. It computes in
float64, or in float32 to measure the effect of rounding:

    run = json of a RUN.json (fit.shuffle, fit.steps_per_epoch, ... as Keras)
    Fit(run, world, data, weights).results()

Images are (batch, height, width, channels), Conv2D kernels (height, width, in,
out), Dense kernels (in, out). A gradient is that of the mean over the whole
batch, of all workers together.
"""
import copy
import functools
import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from keras_activations import activate, activation_gradient, log_softmax
import recurrent_oracle
import spectrogram_oracle

EPSILON = 1e-7  # Keras's backend epsilon


# --- layers -------------------------------------------------------------------

class Layer:
    """`build` gives the output's shape and fills `shapes`, those of the weights
    by name; `forward` keeps what `backward` needs."""
    activation = "linear"
    terms = None  # of backward: what cancels in its result, of the same shape

    def __init__(self, config):
        self.config = config
        self.name = config["name"]
        self.shapes = {}
        self.weights = {}
        self.gradients = {}
        self.state = ()  # names of weights that no gradient trains
        self.parts = None  # while training: of each worker (begin, end)
        self.trainable = config.get("trainable", True)
        self.noise = None  # of the model
        self.mask = None  # of the first input: (batch, steps), or None
        self.masks = []  # of all inputs

    def pass_mask(self, xs, masks):
        """The mask of the output of an input `xs` with `masks`."""
        return None

    def off(self, t):
        """By how much float32 may round `t`, where it is disturbed: else 0."""
        return self.noise(np.zeros_like(t), terms=t)

    def place(self, weight):
        """The config with a weight's settings, and the weight's name there."""
        return self.config, weight

    def setting(self, weight, kind):
        """A weight's regularizer or constraint, or None."""
        config, name = self.place(weight)
        return config.get(f"{name}_{kind}")

    def regularizer(self, weight):
        """(l1, l2) of a weight; Keras 3 has no penalty of what is frozen."""
        if not self.trainable or weight in self.state:
            return 0.0, 0.0
        if weight.startswith("lora_"):  # "kernel" of "lora_kernel_a"
            weight = weight[len("lora_"):-len("_a")]
        entry = self.setting(weight, "regularizer")
        config = entry["config"] if entry else {}
        return config.get("l1", 0.0), config.get("l2", 0.0)


class Identity(Layer):
    """Layers that pass their input on here: Dropout, noise and augmentation, with a
    rate or factor of 0 or outside of training."""

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
        return [activation_gradient(self.activation, self.z, self.y, dy)]


class SoftmaxOver(Layer):
    """Softmax over other axes than the last alone."""

    def build(self, shapes):
        axis = self.config["axis"]
        self.axes = tuple(axis if isinstance(axis, list) else [axis])
        return shapes[0]

    def forward(self, xs):
        e = np.exp(xs[0] - xs[0].max(self.axes, keepdims=True))
        self.y = e / e.sum(self.axes, keepdims=True)
        return self.y

    def backward(self, dy):
        return [self.y * (dy - (dy * self.y).sum(self.axes, keepdims=True))]


def softmax_layer(config):
    if config.get("axis", -1) == -1:
        return Activation(config, "softmax")
    return SoftmaxOver(config)


class PReLU(Layer):
    def build(self, shapes):
        shared = self.config.get("shared_axes") or []
        self.shapes["alpha"] = tuple(
            1 if i in shared else n for i, n in enumerate(shapes[0], 1))
        return shapes[0]

    def forward(self, xs):
        x = self.x = xs[0]
        return np.where(x < 0, self.weights["alpha"] * x, x)

    def backward(self, dy):
        x, alpha = self.x, self.weights["alpha"]
        d = np.where(x < 0, x * dy, 0).sum(0)
        shared = tuple(i for i, n in enumerate(alpha.shape) if n == 1)
        self.gradients["alpha"] = d.sum(shared, keepdims=True)
        return [np.where(x > 0, dy, np.where(x < 0, alpha * dy, 0))]


class Curve(Layer):
    """ReLU, LeakyReLU, ELU with their parameters."""

    def __init__(self, config, kind):
        super().__init__(config)
        self.elu = kind == "ELU"
        self.alpha = config.get("alpha", 1.0)
        top = config.get("max_value")
        self.top = math.inf if top is None else top
        self.slope = config.get("negative_slope",
                                0.3 if kind == "LeakyReLU" else 0.0)
        self.threshold = config.get("threshold", 0.0)

    def build(self, shapes):
        return shapes[0]

    def forward(self, xs):
        x = self.x = xs[0]
        if self.elu:
            y = np.where(x > 0, x, self.alpha * np.expm1(np.minimum(x, 0)))
        else:
            y = np.where(x > self.threshold, np.minimum(x, self.top),
                         self.slope * (x - self.threshold))
        return y.astype(x.dtype)

    def backward(self, dy):
        x = self.x
        if self.elu:
            d = np.where(x > 0, 1, self.alpha * np.exp(np.minimum(x, 0)))
        else:
            relu6 = self.top == 6 and self.threshold == 0
            passes = x < self.top if relu6 else x <= self.top
            d = np.where(x > self.threshold, passes, self.slope)
        return [(dy * d).astype(dy.dtype)]


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
        dz = dy if of_logits else activation_gradient(
            self.activation, self.z, self.y, dy)
        if "bias" in self.shapes:
            self.gradients["bias"] = dz.reshape(-1, dz.shape[-1]).sum(0)
        return [self.linear_backward(dz)]


class Dense(Weighted):
    def build(self, shapes):
        self.set_shapes((shapes[0][-1], self.config["units"]))
        set_lora(self, "kernel")
        return (*shapes[0][:-1], self.config["units"])

    def linear(self, x):
        return x @ with_lora(self, "kernel")

    def linear_backward(self, dz):
        add_gradients(self, "kernel", self.x.reshape(-1, self.x.shape[-1]).T @
                      dz.reshape(-1, dz.shape[-1]))
        return dz @ with_lora(self, "kernel").T


def set_lora(layer, name):
    """Adds the matrices of LoRA to the layer's shapes; `name` is then state."""
    rank = layer.config.get("lora_rank")
    if rank:
        rows, columns = layer.shapes[name]
        layer.shapes[f"lora_{name}_a"] = (rows, rank)
        layer.shapes[f"lora_{name}_b"] = (rank, columns)
        layer.state = (*layer.state, name)


def lora(layer, name):
    """A, B and alpha / rank."""
    rank = layer.config["lora_rank"]
    return (layer.weights[f"lora_{name}_a"], layer.weights[f"lora_{name}_b"],
            (layer.config.get("lora_alpha") or rank) / rank)


def with_lora(layer, name):
    if not layer.config.get("lora_rank"):
        return layer.weights[name]
    a, b, scale = lora(layer, name)
    return layer.weights[name] + scale * (a @ b)


def add_gradients(layer, name, gradient):
    """`gradient` is that of the merged matrix."""
    if not layer.config.get("lora_rank"):
        layer.gradients[name] = gradient
        return
    a, b, scale = lora(layer, name)
    layer.gradients[f"lora_{name}_a"] = scale * gradient @ b.T
    layer.gradients[f"lora_{name}_b"] = scale * a.T @ gradient


def pair(value, axes=2):
    """Returns a pair for one number, or for a list with a number for each axis. A
    layer of one axis computes on images of height 1."""
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    return (1,) * (2 - axes) + values


class Plane(Layer):
    """A layer over images, `axes` 2 or 1: of (steps, channels) it makes images
    of one row. Its own `image_...` see images alone."""
    axes = 2

    def build(self, shapes):
        if self.axes == 2:
            return self.image_build(shapes[0])
        shape = self.image_build((1, *shapes[0]))
        return shape[1:] if len(shape) == 3 else shape

    def image(self, x):
        return x if self.axes == 2 else x[:, None]

    def plain(self, y):
        return y if self.axes == 2 or y.ndim < 4 else y[:, 0]

    def forward(self, xs):
        return self.plain(self.image_forward(self.image(xs[0])))

    def backward(self, dy):
        if dy.ndim == self.axes + 2:
            dy = self.image(dy)
        return [self.plain(self.image_backward(dy))]


class Window:
    """Windows over an image, with TensorFlow's paddings."""

    def __init__(self, size, strides, padding, dilation=(1, 1)):
        self.size, self.strides, self.padding = size, strides, padding
        self.dilation = dilation
        self.extent = tuple((n - 1) * d + 1 for n, d in zip(size, dilation))

    def pads(self, shape):
        pads = []
        for size, extent, stride in zip(shape, self.extent, self.strides):
            total = 0
            if self.padding == "same":
                total = max((-(-size // stride) - 1) * stride + extent - size, 0)
            before = total // 2
            if self.padding == "causal":
                total = before = extent - 1
            pads.append((before, total - before))
        return pads

    def output(self, shape):
        return tuple((size + sum(pad) - extent) // stride + 1
                     for size, extent, stride, pad in
                     zip(shape, self.extent, self.strides, self.pads(shape)))

    def cut(self, x, fill):
        """(batch, oh, ow, channels, kh, kw)."""
        self.shape = x.shape
        padded = np.pad(x, [(0, 0), *self.pads(x.shape[1:3]), (0, 0)],
                        constant_values=fill)
        self.padded = padded.shape
        windows = sliding_window_view(padded, self.extent, (1, 2))
        return windows[:, ::self.strides[0], ::self.strides[1], :,
                       ::self.dilation[0], ::self.dilation[1]]

    def paste(self, part):
        """The sum into an image of part(ky, kx), each (batch, oh, ow, c)."""
        image = None
        oh, ow = self.output(self.shape[1:3])
        for ky in range(self.size[0]):
            for kx in range(self.size[1]):
                d = part(ky, kx)
                if image is None:
                    image = np.zeros(self.padded, d.dtype)
                top, left = ky * self.dilation[0], kx * self.dilation[1]
                image[:, top:top + self.strides[0] * (oh - 1) + 1:
                      self.strides[0],
                      left:left + self.strides[1] * (ow - 1) + 1:
                      self.strides[1]] += d
        (top, _), (left, _) = self.pads(self.shape[1:3])
        return image[:, top:top + self.shape[1], left:left + self.shape[2]]


def window_of(config, axes):
    return Window(pair(config["kernel_size"], axes),
                  pair(config.get("strides", 1), axes),
                  config.get("padding", "valid"),
                  pair(config.get("dilation_rate", 1), axes))


class Conv(Weighted):
    """Convolutions in groups: a depthwise one has as many as channels."""

    def __init__(self, config, axes=2):
        super().__init__(config)
        self.axes = axes
        self.window = window_of(config, axes)

    def outer(self, shape):
        """Returns the shape (steps, channels) for the shape of an image."""
        return shape if self.axes == 2 else shape[1:]

    def build(self, shapes):
        channels = shapes[0][-1]
        image = (1,) * (2 - self.axes) + tuple(shapes[0][:-1])
        filters, self.groups = self.count(channels)
        self.outputs = filters
        self.set_kernels(channels, filters)
        return self.outer((*self.window.output(image), filters))

    def count(self, channels):
        return self.config["filters"], self.config.get("groups", 1)

    def set_kernels(self, channels, filters):
        self.set_shapes((*self.outer(self.window.size),
                         channels // self.groups, filters))

    def split(self, t, axis=-1):
        return np.split(t, self.groups, axis)

    def convolve(self, x, kernel):
        """Convolves an image with a kernel (kh, kw, channels of a group, filters)."""
        self.windows = self.window.cut(x, 0)
        return np.concatenate([
            np.tensordot(cut, part, ([4, 5, 3], [0, 1, 2]))
            for cut, part in zip(self.split(self.windows, 3),
                                 self.split(kernel))], -1)

    def convolve_backward(self, dz, kernel):
        """(by the kernel, by the image)."""
        dk = np.concatenate([
            np.tensordot(cut, d, ([0, 1, 2], [0, 1, 2])).transpose(1, 2, 0, 3)
            for cut, d in zip(self.split(self.windows, 3), self.split(dz))], -1)
        dx = self.window.paste(lambda ky, kx: np.concatenate([
            d @ part[ky, kx].T
            for d, part in zip(self.split(dz), self.split(kernel))], -1))
        return dk, dx

    def image(self, t):
        return t if self.axes == 2 else t[:, None]

    def kernel(self, name="kernel"):
        """Returns the kernel as (kh, kw, channels of a group, filters)."""
        w = self.weights[name]
        return w if self.axes == 2 else w[None]

    def linear(self, x):
        y = self.convolve(self.image(x), self.kernel())
        return y if self.axes == 2 else y[:, 0]

    def linear_backward(self, dz):
        dk, dx = self.convolve_backward(self.image(dz), self.kernel())
        self.gradients["kernel"] = dk.reshape(self.shapes["kernel"])
        return dx if self.axes == 2 else dx[:, 0]


class DepthwiseConv(Conv):
    def count(self, channels):
        return channels * self.config.get("depth_multiplier", 1), channels

    def set_kernels(self, channels, filters):
        self.set_shapes((*self.outer(self.window.size), channels,
                         filters // channels))
        if "bias" in self.shapes:
            self.shapes["bias"] = (filters,)

    def kernel(self, name="kernel"):
        w = self.weights[name]
        return w.reshape(*self.window.size, 1, -1)

    def place(self, weight):
        return self.config, "depthwise" if weight == "kernel" else weight


class SeparableConv(DepthwiseConv):
    def build(self, shapes):
        y = super().build(shapes)
        return (*y[:-1], self.config["filters"])

    def set_kernels(self, channels, filters):
        ones = (1,) * self.axes
        self.shapes["depthwise_kernel"] = (
            *self.outer(self.window.size), channels, filters // channels)
        self.shapes["pointwise_kernel"] = (*ones, filters,
                                           self.config["filters"])
        if self.config.get("use_bias", True):
            self.shapes["bias"] = (self.config["filters"],)

    def point(self):
        return self.weights["pointwise_kernel"].reshape(self.outputs, -1)

    def linear(self, x):
        self.middle = self.convolve(self.image(x),
                                    self.kernel("depthwise_kernel"))
        y = self.middle @ self.point()
        return y if self.axes == 2 else y[:, 0]

    def linear_backward(self, dz):
        dz = self.image(dz)
        dp = np.tensordot(self.middle, dz, ([0, 1, 2], [0, 1, 2]))
        self.gradients["pointwise_kernel"] = dp.reshape(
            self.shapes["pointwise_kernel"])
        dk, dx = self.convolve_backward(dz @ self.point().T,
                                        self.kernel("depthwise_kernel"))
        self.gradients["depthwise_kernel"] = dk.reshape(
            self.shapes["depthwise_kernel"])
        return dx if self.axes == 2 else dx[:, 0]

    def place(self, weight):
        return self.config, weight.removesuffix("_kernel")


class ConvTranspose(Conv):
    """The reverse of a convolution from the output to the input."""

    def build(self, shapes):
        image = (1,) * (2 - self.axes) + tuple(shapes[0][:-1])
        more = self.config.get("output_padding")
        more = (None,) * 2 if more is None else pair(more, self.axes)
        self.sizes = tuple(self.size(*each, self.window.padding) for each in zip(
            image, self.window.extent, self.window.strides,
            (0,) * (2 - self.axes) + more[2 - self.axes:]))
        assert self.window.output(self.sizes) == image
        self.groups = 1
        filters = self.config["filters"]
        self.set_shapes((*self.outer(self.window.size), filters, shapes[0][-1]))
        if "bias" in self.shapes:
            self.shapes["bias"] = (filters,)
        return self.outer((*self.sizes, filters))

    @staticmethod
    def size(n, extent, stride, more, padding):
        if padding == "same":
            return n * stride if more is None else (
                (n - 1) * stride + extent % 2 + more)
        if more is None:
            more = max(stride - extent, 0)
        return (n - 1) * stride + extent + more

    def linear(self, x):
        x, kernel = self.image(x), self.kernel()
        blank = np.zeros((len(x), *self.sizes, kernel.shape[2]), x.dtype)
        self.window.cut(blank, 0)
        y = self.window.paste(lambda ky, kx: x @ kernel[ky, kx].T)
        return y if self.axes == 2 else y[:, 0]

    def linear_backward(self, dz):
        x, kernel = self.image(self.x), self.kernel()
        cut = self.window.cut(self.image(dz), 0)
        dk = np.tensordot(cut, x, ([0, 1, 2], [0, 1, 2])).transpose(1, 2, 0, 3)
        self.gradients["kernel"] = dk.reshape(self.shapes["kernel"])
        dx = np.tensordot(cut, kernel, ([4, 5, 3], [0, 1, 2]))
        return dx if self.axes == 2 else dx[:, 0]


class Pooling(Plane):
    def __init__(self, config, is_max, axes=2):
        super().__init__(config)
        self.is_max, self.axes = is_max, axes
        size = pair(config.get("pool_size", 2), axes)
        strides = config.get("strides")
        self.window = Window(size, pair(strides, axes) if strides else size,
                             config.get("padding", "valid"))

    def image_build(self, shape):
        return (*self.window.output(shape[:2]), shape[2])

    def image_forward(self, x):
        if self.is_max:
            windows = self.window.cut(x, -np.inf)
            flat = windows.reshape(*windows.shape[:4], -1)
            self.first = flat.argmax(-1)
            return flat.max(-1)
        inside = self.window.cut(np.ones_like(x[:1]), 0).sum((-1, -2))
        self.count = inside
        return self.window.cut(x, 0).sum((-1, -2)) / inside

    def image_backward(self, dy):
        if self.is_max:
            width = self.window.size[1]
            return self.window.paste(lambda ky, kx: np.where(
                self.first == ky * width + kx, dy, 0))
        return self.window.paste(lambda ky, kx: dy / self.count)


class Masking(Layer):
    def build(self, shapes):
        return shapes[0]

    def pass_mask(self, xs, masks):
        return (xs[0] != self.config.get("mask_value", 0.0)).any(-1)

    def forward(self, xs):
        self.counts = self.pass_mask(xs, [])[..., None]
        return np.where(self.counts, xs[0], 0)

    def backward(self, dy):
        return [np.where(self.counts, dy, 0)]


class GlobalPooling(Layer):
    def __init__(self, config, is_max, axes=2):
        super().__init__(config)
        self.is_max, self.axes = is_max, axes

    def build(self, shapes):
        keeps = self.config.get("keepdims", False)
        return ((1,) * self.axes if keeps else ()) + (shapes[0][-1],)

    def forward(self, xs):
        self.x = x = xs[0].reshape(len(xs[0]), -1, xs[0].shape[-1])
        self.shape = xs[0].shape
        self.share = None
        if self.mask is not None and self.axes == 1 and not self.is_max:
            counts = self.mask[..., None].astype(x.dtype)
            self.share = counts / np.maximum(1, counts.sum(1, keepdims=True))
            y = (x * self.share).sum(1)
        else:
            y = x.max(1) if self.is_max else x.mean(1)
        return y.reshape(len(y), *self.build([self.shape[1:]]))

    def backward(self, dy):
        dy = dy.reshape(len(dy), 1, -1)
        if self.is_max:  # Keras shares it among equals
            held = self.x == self.x.max(1, keepdims=True)
            share = np.where(held, dy / held.sum(1, keepdims=True), 0)
        elif self.share is not None:
            share = dy * self.share
        else:
            share = np.broadcast_to(dy / self.x.shape[1], self.x.shape).copy()
        return [share.reshape(self.shape)]


class Borders(Plane):
    """ZeroPadding and Cropping."""

    def __init__(self, config, pads, axes=2):
        super().__init__(config)
        self.pads, self.axes = pads, axes
        ends = config.get("padding" if pads else "cropping", 1 if pads or
                          axes == 1 else 0)
        if axes == 1:
            ends = [0, ends]
        elif isinstance(ends, int):
            ends = [ends, ends]
        self.ends = [(e, e) if isinstance(e, int) else tuple(e) for e in ends]

    def image_build(self, shape):
        sign = 1 if self.pads else -1
        return (*(n + sign * sum(e) for n, e in zip(shape, self.ends)), shape[2])

    def pad(self, x):
        return np.pad(x, [(0, 0), *self.ends, (0, 0)])

    def crop(self, x):
        (top, bottom), (left, right) = self.ends
        return x[:, top:x.shape[1] - bottom, left:x.shape[2] - right]

    def image_forward(self, x):
        return self.pad(x) if self.pads else self.crop(x)

    def image_backward(self, dy):
        return self.crop(dy) if self.pads else self.pad(dy)


class UpSampling(Plane):
    def __init__(self, config, axes=2):
        super().__init__(config)
        self.axes = axes
        self.size = pair(config.get("size", 2), axes)

    def image_build(self, shape):
        return (shape[0] * self.size[0], shape[1] * self.size[1], shape[2])

    def image_forward(self, x):
        return x.repeat(self.size[0], 1).repeat(self.size[1], 2)

    def image_backward(self, dy):
        n, h, w, c = dy.shape
        kh, kw = self.size
        return dy.reshape(n, h // kh, kh, w // kw, kw, c).sum((2, 4))


class Resized(Plane):
    """Resizing, CenterCrop, and RandomCrop without training."""

    def __init__(self, config, kind):
        super().__init__(config)
        self.kind, self.size = kind, (config["height"], config["width"])

    def box(self, shape):
        """(begin, pixels) of the part that is resized, of each axis."""
        config = self.config
        parts = []
        fits = all(n >= new for n, new in zip(shape, self.size))
        for axis, (n, new) in enumerate(zip(shape[:2], self.size)):
            other = int(float(shape[1 - axis] * new) / self.size[1 - axis])
            if self.kind == "CenterCrop" and fits:
                parts.append(((n - new) // 2, new))
            elif config.get("pad_to_aspect_ratio"):
                border = max(other - n, 0) // 2
                parts.append((-border, n + 2 * border))
            elif self.kind == "Resizing" and \
                    not config.get("crop_to_aspect_ratio"):
                parts.append((0, n))
            else:
                part = max(min(n, other), 1)
                parts.append(((n - part) // 2, part))
        return parts

    def image_build(self, shape):
        nearest = self.config.get("interpolation") == "nearest"
        self.matrices, self.fills = [], []
        for n, new, (begin, part) in zip(shape, self.size, self.box(shape)):
            matrix, fill = np.zeros((new, n)), np.zeros(new)
            for i in range(new):
                at = max((i + 0.5) * part / new - 0.5, 0)
                low = (2 * i + 1) * part // (2 * new) if nearest else int(at)
                share = 0 if nearest else at - low
                for k, weight in (low, 1 - share), (low + 1, share):
                    k = begin + min(k, part - 1)
                    if 0 <= k < n:
                        matrix[i, k] += weight
                    else:
                        fill[i] += weight
            self.matrices.append(matrix)
            self.fills.append(fill)
        return (*self.size, shape[2])

    def image_forward(self, x):
        down, across = self.matrices
        inside = np.outer(*(1 - fill for fill in self.fills))[..., None]
        return (np.einsum("ph,nhwc,qw->npqc", down, x, across) +
                (1 - inside) * self.config.get("fill_value", 0))

    def image_backward(self, dy):
        return np.einsum("ph,npqc,qw->nhwc", self.matrices[0], dy,
                         self.matrices[1])


class Permute(Layer):
    def build(self, shapes):
        self.axes = [0, *self.config["dims"]]
        return tuple(shapes[0][d - 1] for d in self.config["dims"])

    def forward(self, xs):
        return xs[0].transpose(self.axes)

    def backward(self, dy):
        return [dy.transpose(np.argsort(self.axes))]


def sum_to(d, shape):
    """The gradient of what was broadcast."""
    lead = d.ndim - len(shape)
    for axis in range(d.ndim - 1, 0, -1):
        of = axis - lead
        if of < 1 or (shape[of] == 1 and d.shape[axis] != 1):
            d = d.sum(axis, keepdims=True)
    return d.reshape(shape)


class Merge(Layer):
    """Add and similar layers: shapes as NumPy broadcasts them behind the batch."""

    def __init__(self, config, kind):
        super().__init__(config)
        self.kind = kind

    def build(self, shapes):
        return np.broadcast_shapes(*shapes)

    def forward(self, xs):
        self.shapes_in = [x.shape for x in xs]
        rank = max(x.ndim for x in xs)
        self.xs = [x.reshape(len(x), *[1] * (rank - x.ndim), *x.shape[1:])
                   for x in xs]
        if self.kind in ("Maximum", "Minimum"):
            best = np.maximum if self.kind == "Maximum" else np.minimum
            self.y = self.xs[0]
            for x in self.xs[1:]:
                self.y = best(self.y, x)
            return self.y
        y = self.xs[0]
        for x in self.xs[1:]:
            y = (y - x if self.kind == "Subtract" else
                 y * x if self.kind == "Multiply" else y + x)
        return y / y.dtype.type(len(xs)) if self.kind == "Average" else y

    def backward(self, dy):
        parts = []
        free = np.ones(dy.shape, bool)  # not yet given to an input
        for i, x in enumerate(self.xs):
            d = dy
            if self.kind == "Average":
                d = dy / dy.dtype.type(len(self.xs))
            elif self.kind == "Subtract" and i == 1:
                d = -dy
            elif self.kind == "Multiply":
                for k, other in enumerate(self.xs):
                    d = d * other if k != i else d
            elif self.kind in ("Maximum", "Minimum"):
                own = free & (x == self.y)
                free &= ~own
                d = np.where(own, dy, 0)
            shape = (len(dy), *[1] * (dy.ndim - len(self.shapes_in[i])),
                     *self.shapes_in[i][1:])
            parts.append(sum_to(d, shape).reshape(self.shapes_in[i]))
        return parts


MERGES = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")


class Concatenate(Layer):
    def build(self, shapes):
        return (*shapes[0][:-1], sum(shape[-1] for shape in shapes))

    def forward(self, xs):
        self.ends = np.cumsum([x.shape[-1] for x in xs])[:-1]
        return np.concatenate(xs, -1)

    def backward(self, dy):
        return np.split(dy, self.ends, -1)


class Dot(Layer):
    """Of inputs with one or two axes besides the batch."""

    def build(self, shapes):
        axes = self.config["axes"]
        self.ends = [each if each > 0 else each + len(shape) + 1 for each, shape
                     in zip(axes if isinstance(axes, list) else [axes] * 2, shapes)]
        rest = [size for shape, end in zip(shapes, self.ends)
                for axis, size in enumerate(shape, 1) if axis != end]
        return tuple(rest) or (1,)

    def as_rows(self, x, i):
        """(batch, rows, numbers that are summed)."""
        x = np.moveaxis(x, self.ends[i], -1)
        return x if x.ndim == 3 else x[:, None]

    def forward(self, xs):
        self.xs = [self.as_rows(x, i) for i, x in enumerate(xs)]
        self.given = [x.shape for x in xs]
        self.factors = [1.0, 1.0]
        if self.config.get("normalize"):
            with np.errstate(divide="ignore"):
                self.factors = [np.minimum(
                    1 / np.sqrt((x * x).sum(-1, keepdims=True)),
                    x.dtype.type(1e7)) for x in self.xs]
            self.xs = [x * f for x, f in zip(self.xs, self.factors)]
        y = self.xs[0] @ self.xs[1].swapaxes(1, 2)
        rest = [n for shape, end in zip(self.given, self.ends)
                for axis, n in enumerate(shape) if axis not in (0, end)]
        return y.reshape(len(y), *(rest or [1]))

    def backward(self, dy):
        a, b = self.xs
        dy = dy.reshape(len(dy), a.shape[1], b.shape[1])
        ds = [dy @ b, dy.swapaxes(1, 2) @ a]
        if self.config.get("normalize"):
            ds = [(d - x * (d * x).sum(-1, keepdims=True) * (f < 1e7)) * f
                  for d, x, f in zip(ds, self.xs, self.factors)]
        return [np.moveaxis(d if len(shape) == 3 else d[:, 0], -1, end)
                for d, shape, end in zip(ds, self.given, self.ends)]


class BatchNormalization(Layer):
    """Each worker's part of the batch has statistics of its own; the moving ones
    are the mean of theirs, where a worker without examples has the old ones.
    `synchronized`: the batch has them as one."""

    def build(self, shapes):
        width = shapes[0][-1:]
        names = ["moving_mean", "moving_variance"]
        if self.config.get("center", True):
            names.insert(0, "beta")
        if self.config.get("scale", True):
            names.insert(0, "gamma")
        self.shapes = {name: width for name in names}
        self.state = names[-2:]
        return shapes[0]

    def forward(self, xs):
        w = self.weights
        self.axes = tuple(range(xs[0].ndim - 1))
        self.moves = self.parts is not None and self.trainable
        apart = self.moves and not self.config.get("synchronized", False)
        self.cuts = self.parts if apart else [(0, len(xs[0]))]
        kept = 1 - self.config.get("momentum", 0.99)
        means, variances = [], []
        self.hat, self.deviation = np.empty_like(xs[0]), []
        for begin, end in self.cuts:
            x = xs[0][begin:end]
            mean, variance = w["moving_mean"], w["moving_variance"]
            if self.moves and begin < end:
                # Far from 0, for their deviation, the rounding of a mean that
                # is kept outweighs all others; in backward too. So does the
                # sum of the distances from one of the rows.
                rows = self.rows(begin, end, x)
                if len(rows) == 0:
                    mean, variance = 0 * mean, 0 * mean
                else:
                    mean, variance = rows.mean(0), rows.var(0)
                    far = np.abs(rows - mean).max(0)
                    mean = mean + self.off(np.maximum(np.abs(mean), far))
            means.append(mean)
            variances.append(variance)
            self.deviation.append(np.sqrt(
                variance + self.config.get("epsilon", 1e-3)))
            self.hat[begin:end] = (x - mean) / self.deviation[-1]
        y = self.hat * w.get("gamma", 1) + w.get("beta", 0)
        if self.moves:
            for name, all_of in (("moving_mean", means),
                                 ("moving_variance", variances)):
                # A change is rounded as what it takes away.
                off = self.off(w[name])
                w[name] += kept * (np.mean(all_of, 0) - w[name]) + off
            np.maximum(w["moving_variance"], 0, out=w["moving_variance"])
        return y

    def rows(self, begin, end, x):
        """Those of these examples that count."""
        x = x.reshape(-1, x.shape[-1])
        if self.mask is None:
            return x
        return x[self.mask[begin:end].reshape(-1).astype(bool)]

    def backward(self, dy):
        w = self.weights
        if "gamma" in self.shapes:
            self.gradients["gamma"] = (dy * self.hat).sum(self.axes)
        if "beta" in self.shapes:
            self.gradients["beta"] = dy.sum(self.axes)
        dx, self.terms = np.empty_like(dy), np.empty_like(dy)
        for (begin, end), deviation in zip(self.cuts, self.deviation):
            if begin == end:
                continue
            d, hat = dy[begin:end] * w.get("gamma", 1), self.hat[begin:end]
            self.terms[begin:end] = d / deviation
            if self.moves:
                count = max(1, len(self.rows(begin, end, d)))
                along = (d.sum(self.axes) +
                         hat * (d * hat).sum(self.axes)) / count
                if self.mask is not None:
                    along = along * self.mask[begin:end, ..., None]
                d = d - along
            dx[begin:end] = d / deviation
        return [dx]


class LayerNormalization(Layer):
    def build(self, shapes):
        axis = self.config.get("axis", -1)
        self.axes = tuple(sorted(
            each if each > 0 else len(shapes[0]) + 1 + each
            for each in (axis if isinstance(axis, list) else [axis])))
        self.shapes = {name: tuple(shapes[0][each - 1] for each in self.axes)
                       for name, flag in (("gamma", "scale"), ("beta", "center"))
                       if self.config.get(flag, True)}
        return shapes[0]

    def forward(self, xs):
        x, w = xs[0], self.weights
        self.rest = tuple(each for each in range(x.ndim)
                          if each not in self.axes)
        self.deviation = np.sqrt(x.var(self.axes, keepdims=True) +
                                 self.config.get("epsilon", 1e-3))
        self.hat = (x - x.mean(self.axes, keepdims=True)) / self.deviation
        return self.hat * w.get("gamma", 1) + w.get("beta", 0)

    def backward(self, dy):
        if "gamma" in self.shapes:
            self.gradients["gamma"] = (dy * self.hat).sum(self.rest)
        if "beta" in self.shapes:
            self.gradients["beta"] = dy.sum(self.rest)
        d = dy * self.weights.get("gamma", 1)
        self.terms = d / self.deviation
        d = (d - d.mean(self.axes, keepdims=True) -
             self.hat * (d * self.hat).mean(self.axes, keepdims=True))
        return [d / self.deviation]


class UnitNormalization(LayerNormalization):
    def build(self, shapes):
        self.config = {**self.config, "scale": False, "center": False}
        return super().build(shapes)

    def forward(self, xs):
        self.square = (xs[0] * xs[0]).sum(self.axes, keepdims=True)
        self.norm = np.sqrt(np.maximum(self.square, 1e-12))
        self.y = xs[0] / self.norm
        return self.y

    def backward(self, dy):
        self.terms = dy / self.norm
        along = (dy * self.y).sum(self.axes, keepdims=True)
        return [(dy - self.y * np.where(self.square > 1e-12, along, 0)) / self.norm]


class Affine(Layer):
    """Rescaling and Normalization, (x - minus) * times + plus."""

    def __init__(self, config):
        super().__init__(config)
        values = [np.array(config[name], float) for name in
                  (("mean", "variance") if "mean" in config else
                   ("scale", "offset"))]
        if "mean" not in config:
            self.minus, (self.times, self.plus) = 0, values
            return
        deviation = np.maximum(np.sqrt(values[1]), EPSILON)
        self.minus, self.times, self.plus = values[0], 1 / deviation, 0
        if config.get("invert"):
            self.minus, self.times, self.plus = 0, deviation, values[0]

    def build(self, shapes):
        return shapes[0]

    def forward(self, xs):
        y = (xs[0] - self.minus) * self.times + self.plus
        return y.astype(xs[0].dtype)

    def backward(self, dy):
        return [(dy * self.times).astype(dy.dtype)]


class Recurrent(Layer):
    def __init__(self, config, kind):
        super().__init__(config)
        self.kind = kind

    def build(self, shapes):
        steps, features = shapes[0]
        self.shapes.update(recurrent_oracle.weight_shapes(
            self.config, self.kind, features))
        units = self.config["units"]
        return ((steps, units) if self.config.get("return_sequences")
                else (units,))

    def forward(self, xs):
        self.recurrence = recurrent_oracle.Recurrence(
            self.kind, self.config, self.weights)
        y = self.recurrence.forward(*xs, mask=self.mask)
        self.inputs = len(xs)
        self.states, self.d_states = self.recurrence.last, [0.0, 0.0]
        return y

    def backward(self, dy):
        dx = self.recurrence.backward(dy, tuple(
            d + np.zeros_like(self.recurrence.last[0]) for d in self.d_states))
        self.gradients.update(self.recurrence.gradients)
        return [dx, *self.recurrence.d_first][:self.inputs]

    def place(self, weight):
        return self.config, weight.replace("recurrent_kernel", "recurrent")


class RecurrentState(Layer):
    """A tensor of a layer with return_state, from 1 on."""

    def __init__(self, source, tensor):
        super().__init__({"name": source.name})
        self.source, self.tensor = source, tensor

    def build(self, shapes):
        if self.is_output():
            return shapes[0]
        inner = self.source.config.get("layer", {"config": self.source.config})
        return (inner["config"]["units"],)

    def is_output(self):
        """True for the backward layer's output, where none is merged."""
        return (self.tensor == 1 and
                self.source.config.get("merge_mode", "") is None)

    def forward(self, xs):
        self.zeros = np.zeros_like(xs[0])
        return self.source.states[self.tensor - 1]

    def backward(self, dy):
        self.source.d_states[self.tensor - 1] += dy
        return [self.zeros]


class Bidirectional(Layer):
    def __init__(self, config):
        super().__init__(config)
        inner, self.kind = config["layer"]["config"], config["layer"]["class_name"]
        name = inner["name"].removeprefix("forward_")
        inner = {**inner, "zero_output_for_mask": inner.get(
            "return_sequences", False)}
        self.both = {"forward_" + name: inner,
                     "backward_" + name: {**inner, "go_backwards": True}}
        self.mode = config.get("merge_mode", "concat")

    def build(self, shapes):
        for name, inner in self.both.items():
            for weight, shape in recurrent_oracle.weight_shapes(
                    inner, self.kind, shapes[0][1]).items():
                self.shapes[f"{name}/{weight}"] = shape
        units = inner["units"] * (2 if self.mode == "concat" else 1)
        return ((shapes[0][0], units) if inner.get("return_sequences")
                else (units,))

    def turned(self, y, name):
        """The backward layer's steps in the order of the input."""
        turns = name.startswith("backward_") and y.ndim == 3
        return y[:, ::-1] if turns else y

    def forward(self, xs):
        self.runs = {name: recurrent_oracle.Recurrence(
            self.kind, inner, {weight: self.weights[f"{name}/{weight}"]
                               for weight in recurrent_oracle.weight_shapes(
                                   inner, self.kind, xs[0].shape[2])})
                     for name, inner in self.both.items()}
        self.count = 2 if self.kind == "LSTM" else 1  # of states
        half = len(xs) // 2
        self.inputs = len(xs)
        first = dict(zip(self.runs, (xs[1:1 + half], xs[1 + half:])))
        a, b = self.ys = [
            self.turned(run.forward(xs[0], *first[name], mask=self.mask), name)
            for name, run in self.runs.items()]
        self.states = [each for run in self.runs.values()
                       for each in run.last[:self.count]]
        self.outputs = 1 if self.mode else 2
        if not self.mode:
            self.states = [b, *self.states]
        self.d_states = [0.0] * len(self.states)
        return {"concat": lambda: np.concatenate([a, b], -1),
                "sum": lambda: a + b, "mul": lambda: a * b,
                "ave": lambda: (a + b) / 2, None: lambda: a}[self.mode]()

    def backward(self, dy):
        a, b = self.ys
        dys = {"concat": lambda: np.split(dy, 2, -1), "sum": lambda: [dy, dy],
               "mul": lambda: [dy * b, dy * a],
               "ave": lambda: [dy / 2, dy / 2],
               None: lambda: [dy, self.d_states[0] + np.zeros_like(b)]}[
                   self.mode]()
        d_states = self.d_states[self.outputs - 1:]
        dx, d_first = 0, []
        for i, ((name, run), d) in enumerate(zip(self.runs.items(), dys)):
            last = d_states[i * self.count:(i + 1) * self.count]
            dx = dx + run.backward(self.turned(d, name), tuple(
                each + np.zeros_like(self.states[-1]) for each in (*last, 0.0)[:2]))
            d_first += run.d_first[:self.count]
            for weight, gradient in run.gradients.items():
                self.gradients[f"{name}/{weight}"] = gradient
        return [dx, *d_first][:self.inputs]

    def place(self, weight):
        name, own = weight.split("/")
        return Recurrent(self.both[name], self.kind).place(own)


class Chain(Layer):
    """A Sequential as one layer."""

    def __init__(self, config):
        super().__init__(config)
        self.parts = [LAYERS[each["class_name"]](each["config"])
                      for each in config["layers"]
                      if each["class_name"] != "InputLayer"]

    def build(self, shapes):
        shape = shapes[0]
        for part in self.parts:
            shape = part.build([shape])
            for name, of in part.shapes.items():
                self.shapes[f"{part.name}/{name}"] = of
        return shape

    def forward(self, xs):
        self.parts = [copy.copy(part) for part in self.parts]
        for part in self.parts:
            part.weights = {name: self.weights[f"{part.name}/{name}"]
                            for name in part.shapes}
            part.gradients = {}
            xs = [part.forward(xs)]
        return xs[0]

    def backward(self, dy):
        for part in self.parts[::-1]:
            dy, = part.backward(dy)
            for name, gradient in part.gradients.items():
                self.gradients[f"{part.name}/{name}"] = gradient
        return [dy]

    def place(self, weight):
        part, name = weight.split("/", 1)
        return next(each for each in self.parts
                    if each.name == part).place(name)


class TimeDistributed(Layer):
    def __init__(self, config):
        super().__init__(config)
        inner = config["layer"]
        self.inner = LAYERS[inner["class_name"]](inner["config"])

    def build(self, shapes):
        output = self.inner.build([shapes[0][1:]])
        self.shapes, self.state = self.inner.shapes, self.inner.state
        return (shapes[0][0], *output)

    def forward(self, xs):
        x = xs[0]
        self.inner = copy.copy(self.inner)
        self.inner.weights, self.inner.gradients = self.weights, {}
        if self.mask is not None and self.mask.ndim > 2:
            self.inner.mask = self.mask.reshape(-1, *self.mask.shape[2:])
        y = self.inner.forward([x.reshape(-1, *x.shape[2:])])
        return y.reshape(*x.shape[:2], *y.shape[1:])

    def backward(self, dy):
        dx, = self.inner.backward(dy.reshape(-1, *dy.shape[2:]))
        self.gradients.update(self.inner.gradients)
        return [dx.reshape(*dy.shape[:2], *dx.shape[1:])]

    def place(self, weight):
        return self.inner.place(weight)


class Attention(Layer):
    """Over the inputs themselves, as one head of (batch, heads, steps, size)."""

    def build(self, shapes):
        if self.config.get("use_scale"):
            self.shapes["scale"] = ()
        return (shapes[0][0], shapes[1][1])

    def scores_of(self, query, key, scale):
        self.scores = query @ key.swapaxes(-1, -2)
        return self.scores * scale

    def scores_backward(self, dz, scale):
        query, key, _ = self.spans
        return (dz @ key * scale, dz.swapaxes(-1, -2) @ query * scale,
                (dz * self.scores).sum())

    def attend(self, query, key, value, scale):
        z = self.scores_of(query, key, scale)
        sees = np.ones(z.shape, bool)
        if self.config.get("use_causal_mask"):
            sees &= np.tri(*z.shape[-2:], dtype=bool)
        for mask, axis in zip(self.masks, (-1, -2, -2)):
            if mask is not None:
                sees &= np.expand_dims(mask, axis)[:, None]
        # A query that sees nothing has -1e9 everywhere in Keras.
        self.sees_any = sees.any(-1, keepdims=True)
        self.p = activate("softmax", np.where(
            sees, z, np.where(self.sees_any, -np.inf, 0)).astype(z.dtype))
        self.spans = query, key, value
        return self.p @ value

    def attend_backward(self, dc, scale):
        """The gradients of query, key and value, and of the scale."""
        value = self.spans[2]
        dp = dc @ value.swapaxes(-1, -2)
        dz = self.p * (dp - (dp * self.p).sum(-1, keepdims=True))
        dz = dz * self.sees_any
        dq, dk, ds = self.scores_backward(dz, scale)
        return dq, dk, self.p.swapaxes(-1, -2) @ dc, ds

    def forward(self, xs):
        self.has_key = len(xs) > 2
        self.scale = self.weights.get("scale", xs[0].dtype.type(1))
        self.masks = self.masks[:2]
        return self.counted(self.attend(
            *(x[:, None] for x in (xs[0], xs[-1], xs[1])), self.scale)[:, 0])

    def counted(self, y):
        return y if self.mask is None else y * self.mask[..., None]

    def backward(self, dy):
        dy = self.counted(dy)
        dq, dk, dv, ds = self.attend_backward(dy[:, None], self.scale)
        if "scale" in self.shapes:
            self.gradients["scale"] = np.array(ds)
        dq, dk, dv = dq[:, 0], dk[:, 0], dv[:, 0]
        return [dq, dv, dk] if self.has_key else [dq, dv + dk]


class AdditiveAttention(Attention):
    def build(self, shapes):
        if self.config.get("use_scale", True):
            self.shapes["scale"] = (shapes[0][1],)
        return (shapes[0][0], shapes[1][1])

    def scores_of(self, query, key, scale):
        self.tanh = np.tanh(query[..., :, None, :] + key[..., None, :, :])
        return (self.tanh * scale).sum(-1)

    def scores_backward(self, dz, scale):
        d = dz[..., None] * scale * (1 - self.tanh * self.tanh)
        return d.sum(-2), d.sum(-3), (dz[..., None] * self.tanh).sum(
            (0, 1, 2, 3))


class MultiHeadAttention(Attention):
    def build(self, shapes):
        heads, key = self.config["num_heads"], self.config["key_dim"]
        value = self.config.get("value_dim") or key
        kernels = {"query": (shapes[0][1], heads, key),
                   "key": (shapes[-1][1], heads, key),
                   "value": (shapes[1][1], heads, value),
                   "attention_output": (heads, value, shapes[0][1])}
        for name, shape in kernels.items():
            self.shapes[name + "_kernel"] = shape
            if self.config.get("use_bias", True):
                self.shapes[name + "_bias"] = (
                    shape[2:] if name == "attention_output" else shape[1:])
        return shapes[0]

    def place(self, weight):
        return self.config, weight.rsplit("_", 1)[1]

    def forward(self, xs):
        self.inputs = {"query": xs[0], "key": xs[-1], "value": xs[1]}
        self.has_key = len(xs) > 2
        self.factor = xs[0].dtype.type(1 / math.sqrt(self.config["key_dim"]))
        heads = {}
        for name, x in self.inputs.items():
            z = np.tensordot(x, self.weights[name + "_kernel"], 1)
            heads[name] = (z + self.weights.get(name + "_bias", 0)).transpose(
                0, 2, 1, 3)
        self.context = self.attend(**heads, scale=self.factor)
        w = self.weights
        return np.tensordot(self.context.transpose(0, 2, 1, 3),
                            w["attention_output_kernel"], 2) + w.get(
                                "attention_output_bias", 0)

    def gradient(self, name, dz, x, axes):
        """Of a projection's weights."""
        self.gradients[name + "_kernel"] = np.tensordot(x, dz, (axes, axes))
        if name + "_bias" in self.shapes:
            self.gradients[name + "_bias"] = dz.sum(axes)

    def backward(self, dy):
        context = self.context.transpose(0, 2, 1, 3)
        self.gradient("attention_output", dy, context, (0, 1))
        dc = np.tensordot(dy, self.weights["attention_output_kernel"], (2, 2))
        d = self.attend_backward(dc.transpose(0, 2, 1, 3), self.factor)
        dx = {}
        for (name, x), dz in zip(self.inputs.items(), d):
            dz = dz.transpose(0, 2, 1, 3)
            self.gradient(name, dz, x, (0, 1))
            dx[name] = np.tensordot(dz, self.weights[name + "_kernel"],
                                    ((2, 3), (1, 2)))
        if self.has_key:
            return [dx["query"], dx["value"], dx["key"]]
        return [dx["query"], dx["value"] + dx["key"]]


class PositionEmbedding(Layer):
    def build(self, shapes):
        self.shapes["embeddings"] = (self.config["sequence_length"],
                                     shapes[0][-1])
        return shapes[0]

    def forward(self, xs):
        rows = self.weights["embeddings"][:xs[0].shape[-2]]
        return np.broadcast_to(rows, xs[0].shape).copy()

    def backward(self, dy):
        d = np.zeros_like(self.weights["embeddings"])
        d[:dy.shape[-2]] = dy.reshape(-1, *dy.shape[-2:]).sum(0)
        self.gradients["embeddings"] = d
        return [np.zeros_like(dy)]


class Embedding(Layer):
    """Of whole numbers; a gradient reaches none of them."""

    def build(self, shapes):
        self.shapes["embeddings"] = (self.config["input_dim"],
                                     self.config["output_dim"])
        return (*shapes[0], self.config["output_dim"])

    def forward(self, xs):
        self.x = xs[0]
        self.rows = np.rint(xs[0]).astype(int)
        return self.weights["embeddings"][self.rows]

    def backward(self, dy):
        d = np.zeros_like(self.weights["embeddings"])
        np.add.at(d, self.rows, dy)
        self.gradients["embeddings"] = d
        return [np.zeros_like(self.x)]


class GroupNormalization(Layer):
    def build(self, shapes):
        self.groups, channels = self.config.get("groups", 32), shapes[0][-1]
        if self.groups == -1:
            self.groups = channels
        if self.config.get("center", True):
            self.shapes["beta"] = (channels,)
        if self.config.get("scale", True):
            self.shapes["gamma"] = (channels,)
        return shapes[0]

    def grouped(self, x):
        return x.reshape(len(x), -1, self.groups, x.shape[-1] // self.groups)

    def forward(self, xs):
        x = self.grouped(xs[0])
        mean = x.mean((1, 3), keepdims=True)
        variance = ((x - mean) ** 2).mean((1, 3), keepdims=True)
        self.inverse = 1 / np.sqrt(variance + self.config.get("epsilon", 1e-3))
        self.normal = (x - mean) * self.inverse
        y = self.normal.reshape(xs[0].shape)
        return y * self.weights.get("gamma", 1) + self.weights.get("beta", 0)

    def backward(self, dy):
        axes = tuple(range(dy.ndim - 1))
        normal = self.normal.reshape(dy.shape)
        if "gamma" in self.shapes:
            self.gradients["gamma"] = (dy * normal).sum(axes)
        if "beta" in self.shapes:
            self.gradients["beta"] = dy.sum(axes)
        g = self.grouped(dy * self.weights.get("gamma", 1))
        self.terms = (g * self.inverse).reshape(dy.shape)
        mean = g.mean((1, 3), keepdims=True)
        product = (g * self.normal).mean((1, 3), keepdims=True)
        return [((g - mean - self.normal * product) *
                 self.inverse).reshape(dy.shape)]


class RepeatVector(Layer):
    def build(self, shapes):
        return (self.config["n"], *shapes[0])

    def forward(self, xs):
        return np.repeat(xs[0][:, None], self.config["n"], 1)

    def backward(self, dy):
        return [dy.sum(1)]


class Spectrogram(Layer):
    def __init__(self, config, kind):
        super().__init__(config)
        self.kind = kind

    def features(self, x):
        return spectrogram_oracle.features(self.kind, self.config, x)

    def build(self, shapes):
        return self.features(np.zeros(shapes[0])).shape

    def forward(self, xs):
        return np.array([self.features(x) for x in xs[0]])


LAYERS = {
    "STFTSpectrogram": lambda config: Spectrogram(config, "STFTSpectrogram"),
    "MelSpectrogram": lambda config: Spectrogram(config, "MelSpectrogram"),
    "MFCC": lambda config: Spectrogram(config, "MFCC"),
    "Bidirectional": Bidirectional, "TimeDistributed": TimeDistributed,
    "Sequential": Chain, "Masking": Masking, "GroupNormalization": GroupNormalization,
    "RepeatVector": RepeatVector, "Attention": Attention,
    "AdditiveAttention": AdditiveAttention,
    "MultiHeadAttention": MultiHeadAttention,
    "PositionEmbedding": PositionEmbedding, "Embedding": Embedding,
    "BatchNormalization": BatchNormalization,
    "LayerNormalization": LayerNormalization,
    "UnitNormalization": UnitNormalization,
    "Dot": Dot,
    "Rescaling": Affine, "Normalization": Affine,
    "Flatten": View, "Reshape": View, "Dropout": Identity,
    "Activation": Activation, "Dense": Dense, "Permute": Permute,
    "ReLU": lambda config: Curve(config, "ReLU"),
    "LeakyReLU": lambda config: Curve(config, "LeakyReLU"),
    "ELU": lambda config: Curve(config, "ELU"),
    "Softmax": softmax_layer, "PReLU": PReLU,
    "SpatialDropout1D": Identity, "SpatialDropout2D": Identity,
    "GaussianNoise": Identity, "GaussianDropout": Identity,
    "AlphaDropout": Identity,
    "Concatenate": Concatenate,
    **{f"Random{change}": Identity for change in (
        "Flip", "Translation", "Rotation", "Zoom", "Contrast", "Brightness")},
}
for resized in "Resizing", "CenterCrop", "RandomCrop":
    LAYERS[resized] = functools.partial(Resized, kind=resized)
for merge in MERGES:
    LAYERS[merge] = functools.partial(Merge, kind=merge)
for recurrent in recurrent_oracle.GATES:
    LAYERS[recurrent] = functools.partial(Recurrent, kind=recurrent)


def add_images(axes):
    """The layers over images, of two axes and of one."""
    def make(kind, *more):
        return lambda config: kind(config, *more, axes)

    for name, layer in (
            ("Conv", make(Conv)), ("DepthwiseConv", make(DepthwiseConv)),
            ("SeparableConv", make(SeparableConv)),
            ("MaxPooling", make(Pooling, True)),
            ("AveragePooling", make(Pooling, False)),
            ("GlobalMaxPooling", make(GlobalPooling, True)),
            ("GlobalAveragePooling", make(GlobalPooling, False)),
            ("ZeroPadding", make(Borders, True)),
            ("Cropping", make(Borders, False)),
            ("UpSampling", make(UpSampling))):
        LAYERS[f"{name}{axes}D"] = layer
    LAYERS[f"Conv{axes}DTranspose"] = make(ConvTranspose)


add_images(2)
add_images(1)


# --- masks --------------------------------------------------------------------

def same_mask(layer, xs, masks):
    return masks[0]


def of_sequences(config):
    return lambda layer, xs, masks: (
        masks[0] if config(layer).get("return_sequences") else None)


def merged_mask(layer, xs, masks):
    if any(mask is None for mask in masks):
        return None
    return functools.reduce(np.logical_or, masks)


Embedding.pass_mask = lambda layer, xs, masks: (
    xs[0] != 0 if layer.config.get("mask_zero") else None)
Recurrent.pass_mask = of_sequences(lambda layer: layer.config)
Bidirectional.pass_mask = of_sequences(
    lambda layer: layer.config["layer"]["config"])
RecurrentState.pass_mask = lambda layer, xs, masks: (
    masks[0] if layer.is_output() else None)
Merge.pass_mask = Concatenate.pass_mask = merged_mask
for kind in (Identity, Activation, PReLU, Curve, Dense, LayerNormalization,
             GroupNormalization, Affine, TimeDistributed, PositionEmbedding,
             Attention, MultiHeadAttention, BatchNormalization):
    kind.pass_mask = same_mask


MODELS = ("Sequential", "Functional")
# The layers with one argument, the list of their inputs.
LISTS = (*MERGES, "Concatenate", "Dot", "Attention", "AdditiveAttention")


def calls_in(node):
    """The tensors, (layer, call, number), that an inbound node of Keras 3 names."""
    if isinstance(node, list):
        return [call for each in node for call in calls_in(each)]
    return [tuple(node["config"]["keras_history"])]


class Rows:
    """Arrays of several inputs or outputs, as one over the examples."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __getitem__(self, at):
        return Rows([each[at] for each in self.arrays])

    def __len__(self):
        return len(self.arrays[0])


class Head:
    """One output of a model, as if it were the only one."""

    def __init__(self, model, end):
        self.layers = [model.layers[model.outputs.index(end)]]
        self.output_shape = model.shapes[end]


class Model:
    """A model of Keras's JSON; every layer has a name. `layers` are the calls, each
    with the names of its `inputs` and its own in `outputs`; the calls of a nested
    model are among them. A layer that is called again is a copy with the same
    weights, whose gradients are added to those of the first."""

    def __init__(self, config):
        given = {each["config"]["name"]: tuple(each["config"]["batch_shape"][1:])
                 for each in config["config"]["layers"]
                 if each["class_name"] == "InputLayer"}
        self.input_names = list(given)  # which stand in their order
        self.input_shape = given[self.input_names[0]]
        self.layers, self.inputs, self.outputs = [], [], []
        self.firsts = {}  # by path
        self.shapes = dict(given)
        self.ends = self.expand(config, "", self.input_names, True)
        self.heads = [Head(self, end) for end in self.ends]
        self.output_shape = self.heads[0].output_shape
        self.noise = lambda t, terms=None: t

    def expand(self, config, path, given, trainable):
        """Calls the layers of a model with `given`; the names of its outputs."""
        entries = config["config"]["layers"]
        functional = config["class_name"] == "Functional"
        inputs = [each for each in entries if each["class_name"] == "InputLayer"]
        last = (inputs[0]["config"]["name"], 0)
        tensors = {(each["config"]["name"], 0): name
                   for each, name in zip(inputs, given)}
        waiting = []
        for entry in entries:
            if entry in inputs:
                continue
            # Keras takes the making of a Functional for its first call.
            first = int(entry["class_name"] == "Functional")
            nodes = ([calls_in(node["args"]) +
                      calls_in(node["kwargs"].get("initial_state", []))
                      for node in entry["inbound_nodes"]]
                     if functional else [[(*last, 0)]])
            for number, inputs in enumerate(nodes, first):
                last = (entry["config"]["name"], number)
                waiting.append((last, entry, inputs))
        while waiting:
            ready = next(call for call in waiting
                         if all(each[:2] in tensors for each in call[2]))
            waiting.remove(ready)
            last, entry, inputs = ready
            tensors[last] = self.call(entry, path,
                                      [self.tensor(tensors, *each)
                                       for each in inputs],
                                      trainable)
        ends = config["config"].get("output_layers", [])
        return [self.tensor(tensors, *each) for each in ends] or [
            tensors[last]]

    def tensor(self, tensors, name, number, tensor):
        """The name of a layer's tensor."""
        output = tensors[name, number]
        if tensor == 0:
            return output
        state = f"{output}:{tensor}"
        if state not in self.shapes:
            layer = RecurrentState(
                self.layers[self.outputs.index(output)], tensor)
            layer.name = layer.source.name
            self.shapes[state] = layer.build([self.shapes[output]])
            self.layers.append(layer)
            self.inputs.append([output])
            self.outputs.append(state)
        return state

    def call(self, entry, path, inputs, trainable):
        path += entry["config"]["name"]
        trainable = trainable and entry["config"].get("trainable", True)
        if entry["class_name"] in MODELS:
            return self.expand(entry, path + "/", inputs, trainable)[0]
        shapes = [self.shapes[each] for each in inputs]
        if path in self.firsts:
            layer = copy.copy(self.firsts[path])
            layer.gradients = {}
        else:
            # An attention has an argument of its call.
            node = entry.get("inbound_nodes") or [{}]
            layer = LAYERS[entry["class_name"]](
                {**entry["config"], **node[0].get("kwargs", {})})
            layer.name, layer.trainable = path, trainable
            self.firsts[path] = layer
        name = f"{path}#{len(self.layers)}"
        self.shapes[name] = layer.build(shapes)
        self.layers.append(layer)
        self.inputs.append(inputs)
        self.outputs.append(name)
        return name

    def weights(self):
        """(path, layer, name) of each weight."""
        return [(f"{layer.name}/{name}", layer, name)
                for layer in self.firsts.values() for name in layer.shapes]

    def forward(self, x, parts=None):
        """`parts`: of a training step, where each worker's examples lie. A list
        where there are several outputs."""
        tensors = dict(zip(self.input_names,
                           x.arrays if isinstance(x, Rows) else [x]))
        masks = {}
        for layer, inputs, output in zip(self.layers, self.inputs, self.outputs):
            layer.parts, layer.noise = parts, self.noise
            xs = [tensors[name] for name in inputs]
            given = [masks.get(name) for name in inputs]
            layer.mask, layer.masks = given[0], given
            mask = layer.pass_mask(xs, given)
            y = tensors[output] = self.noise(layer.forward(xs))
            if mask is not None and (mask.ndim >= y.ndim or
                                     mask.shape != y.shape[:mask.ndim]):
                mask = None  # these steps are gone
            masks[output] = layer.output_mask = mask
        if len(self.ends) > 1:
            return Rows([tensors[end] for end in self.ends])
        return tensors[self.ends[0]]

    def backward(self, dys, of_logits):
        """Computes all gradients from `dys`, those of the outputs."""
        gradients = dict(zip(self.ends, dys))
        logits = {end for end, of in zip(self.ends, of_logits) if of}
        calls = list(zip(self.layers, self.inputs, self.outputs))
        for layer, inputs, output in calls[::-1]:
            own = gradients.pop(output)
            parts = (layer.backward(own, True) if output in logits
                     else layer.backward(own))
            for name, weight in layer.gradients.items():
                layer.gradients[name] = self.noise(weight)
            for name, part in zip(inputs, parts):
                part = self.noise(part, terms=layer.terms)
                gradients[name] = gradients.get(name, 0) + part
        for layer in self.layers:
            first = self.firsts[layer.name]
            for name in layer.gradients if layer is not first else ():
                first.gradients[name] = (first.gradients[name] +
                                         layer.gradients[name])

    def penalty(self):
        total = 0.0
        for _, layer, name in self.weights():
            l1, l2 = layer.regularizer(name)
            w = layer.weights[name]
            total += l1 * np.abs(w).sum() + l2 * (w * w).sum()
        return float(total)

    def constrain(self):
        """Changes the trained weights that have a constraint."""
        for _, layer, name in self.weights():
            entry = layer.setting(name, "constraint")
            if entry and layer.trainable:
                w = layer.weights[name]
                w[...] = constrained(w, entry["class_name"], entry["config"])

    def whole_gradients(self):
        """The gradients of the loss with the penalties, by path of the trained weight."""
        result = {}
        for path, layer, name in self.weights():
            if not layer.trainable or name in layer.state:
                continue
            l1, l2 = layer.regularizer(name)
            w = layer.weights[name]
            result[path] = layer.gradients[name] + l1 * np.sign(w) + 2 * l2 * w
        return result


# --- constraints --------------------------------------------------------------

def constrained(w, kind, config):
    if kind == "NonNeg":
        return w * (w >= 0)
    axis = config.get("axis", 0)
    axis = tuple(axis) if isinstance(axis, list) else axis
    norm = np.sqrt((w * w).sum(axis, keepdims=True))
    if kind == "UnitNorm":
        return w / (EPSILON + norm)
    least, rate = config.get("min_value", 0.0), config.get("rate", 1.0)
    most = config.get("max_value", 2.0 if kind == "MaxNorm" else 1.0)
    wanted = rate * np.clip(norm, least, most) + (1 - rate) * norm
    return w * (wanted / (EPSILON + norm))


# --- losses -------------------------------------------------------------------

def clip(p):
    """Clipped, and 1 where the gradient goes through."""
    # The bound as Keras has it: 1 - 1e-7 in float32.
    high = float(np.float32(1) - np.float32(EPSILON))
    return np.clip(p, EPSILON, high), (p >= EPSILON) & (p <= high)


def one_hot(labels, classes):
    return np.eye(classes)[labels]


class Loss:
    """The loss of each row of the last axis, and its gradient by the predictions
    (or, with `takes_logits`, by the input of the last activation)."""

    HEADS = {"SparseCategoricalCrossentropy": "softmax",
             "CategoricalCrossentropy": "softmax",
             "BinaryCrossentropy": "sigmoid"}

    def __init__(self, config, model):
        self.kind = config["class_name"]
        self.config = config.get("config", {})
        self.from_logits = self.config.get("from_logits", False)
        self.smoothing = self.config.get("label_smoothing", 0.0)
        self.sums = self.config.get("reduction") == "sum"
        self.sparse = self.kind == "SparseCategoricalCrossentropy"
        self.ignored = self.config.get("ignore_class")
        # Keras goes back to the input of a softmax or sigmoid.
        self.takes_logits = (self.HEADS.get(self.kind, "") ==
                             model.layers[-1].activation)
        self.from_logits |= self.takes_logits

    def counted(self, y, replicas, mask, rows):
        """Of each row 0 if its class is ignored or its step masked, else its
        weight: the mean over a replica's rows is that of the others."""
        valid = np.ones(rows)
        if self.ignored is not None:
            valid *= y != self.ignored
        if mask is not None:
            valid *= mask.reshape(*mask.shape, *[1] * (len(rows) - mask.ndim))
        if self.sums:
            return valid
        piece = -(-len(y) // replicas)
        for i in range(0, len(y), piece):
            part = valid[i:i + piece]
            part *= part.size / max(1, part.sum())
        return valid

    def rows(self, p, y):
        """(loss, gradient) of each row: (..., K) to (...), (..., K)."""
        k = p.shape[-1]
        if self.ignored is not None:
            y = np.where(y == self.ignored, 0, y)
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
        elif self.kind in OTHER_LOSSES:
            return OTHER_LOSSES[self.kind](self, p, y)
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

    def __call__(self, model, p, y, weights=None, replicas=1):
        """(per example, gradient of their mean, whether by the logits)."""
        z = model.layers[-1].z if self.takes_logits else p
        loss, d = self.rows(z, y)
        mask = model.layers[-1].output_mask
        if self.ignored is not None or mask is not None:
            counted = self.counted(y, replicas, mask, loss.shape)
            loss, d = loss * counted, d * counted[..., None]
        if weights is not None and weights.ndim > 1:  # one for each row
            rows = weights.reshape(loss.shape)
            loss, d, weights = loss * rows, d * rows[..., None], None
        count = len(p)
        per_row = loss.size // count
        per, d = loss.reshape(count, -1).mean(1), d / (count * per_row)
        if weights is not None:
            per = per * weights
            d = d * weights.reshape(-1, *[1] * (d.ndim - 1))
        if self.sums:  # what is a mean of these is the sum of the rows
            per, d = per * (count * per_row), d * (count * per_row)
        return per, d, self.takes_logits


def mean_of(loss, d):
    return loss.mean(-1), d / loss.shape[-1]


def focal_binary(loss, p, y):
    t = y * (1 - loss.smoothing) + loss.smoothing / 2
    alpha, gamma = loss.config.get("alpha", 0.25), loss.config.get("gamma", 2.0)
    if loss.from_logits:
        entropy = np.maximum(p, 0) - p * t + np.log1p(np.exp(-np.abs(p)))
        q = activate("sigmoid", p)
        slope, d_entropy = q * (1 - q), q - t
    else:
        q, slope = p, 1.0
        c, through = clip(p)
        entropy = -(t * np.log(c) + (1 - t) * np.log(1 - c))
        d_entropy = through * ((1 - t) / (1 - c) - t / c)
    m = t * (1 - q) + (1 - t) * q
    balance = (t * alpha + (1 - t) * (1 - alpha)
               if loss.config.get("apply_class_balancing") else 1.0)
    d = gamma * m ** (gamma - 1) * (1 - 2 * t) * slope * entropy + (
        m ** gamma * d_entropy)
    return mean_of(balance * m ** gamma * entropy, balance * d)


def focal_categorical(loss, p, y):
    t = y * (1 - loss.smoothing) + loss.smoothing / p.shape[-1]
    alpha, gamma = loss.config.get("alpha", 0.25), loss.config.get("gamma", 2.0)
    total = p.sum(-1, keepdims=True)
    q = activate("softmax", p) if loss.from_logits else p / total
    c, through = clip(q)
    dq = through * alpha * t * (gamma * (1 - c) ** (gamma - 1) * np.log(c) -
                                (1 - c) ** gamma / c)
    dot = (dq * q).sum(-1, keepdims=True)
    d = q * (dq - dot) if loss.from_logits else (dq - dot) / total
    return -(alpha * (1 - c) ** gamma * t * np.log(c)).sum(-1), d


def divergence(_, p, y):
    t, q = np.clip(y, EPSILON, 1), np.clip(p, EPSILON, 1)
    return (t * np.log(t / q)).sum(-1), np.where(p == q, -t / q, 0)


def poisson(_, p, y):
    return mean_of(p - y * np.log(p + EPSILON), 1 - y / (p + EPSILON))


def percentage(_, p, y):
    unit = 100 / np.maximum(np.abs(y), EPSILON)
    return mean_of(np.abs(p - y) * unit, np.sign(p - y) * unit)


def logarithmic(_, p, y):
    q = np.maximum(p, EPSILON)
    e = np.log(q + 1) - np.log(np.maximum(y, EPSILON) + 1)
    return mean_of(e * e, np.where(p >= EPSILON, 2 * e / (q + 1), 0))


def cosine(_, p, y):
    def inverse(v):
        with np.errstate(divide="ignore"):
            return 1 / np.sqrt((v * v).sum(-1, keepdims=True))
    of_p, of_y = inverse(p), np.minimum(inverse(y), 1 / EPSILON)
    capped = of_p > 1 / EPSILON
    of_p = np.minimum(of_p, 1 / EPSILON)
    dot = (of_p * p * of_y * y).sum(-1, keepdims=True)
    along = np.where(capped, 0, of_p * p * dot)
    return -dot[..., 0], -(of_y * y - along) * of_p


def log_cosh(_, p, y):
    e = p - y
    return mean_of(np.abs(e) + np.log1p(np.exp(-2 * np.abs(e))) - math.log(2),
                   np.tanh(e))


def signs(y):
    """-1 for 0 where all of a row are 0 or 1."""
    binary = ((y == 0) | (y == 1)).all(-1, keepdims=True)
    return np.where(binary, 2 * y - 1, y)


def hinge(_, p, y):
    t = signs(y)
    m = 1 - t * p
    return mean_of(np.maximum(m, 0), np.where(m >= 0, -t, 0))


def squared_hinge(_, p, y):
    t = signs(y)
    m = np.maximum(1 - t * p, 0)
    return mean_of(m * m, -2 * t * m)


def categorical_hinge(_, p, y):
    wrong = (1 - y) * p
    largest = wrong.max(-1, keepdims=True)
    m = largest - (y * p).sum(-1, keepdims=True) + 1
    at = wrong == largest
    d = at * (1 - y) / at.sum(-1, keepdims=True) - y
    return np.maximum(m, 0)[..., 0], np.where(m >= 0, d, 0)


OTHER_LOSSES = {
    "BinaryFocalCrossentropy": focal_binary,
    "CategoricalFocalCrossentropy": focal_categorical,
    "KLDivergence": divergence, "Poisson": poisson,
    "MeanAbsolutePercentageError": percentage,
    "MeanSquaredLogarithmicError": logarithmic, "CosineSimilarity": cosine,
    "LogCosh": log_cosh, "Hinge": hinge, "SquaredHinge": squared_hinge,
    "CategoricalHinge": categorical_hinge,
}


# --- metrics ------------------------------------------------------------------

def ratio(a, b):
    return np.divide(a, b, out=np.zeros_like(a, float), where=np.asarray(b) != 0)


class Metric:
    """The value over examples, and how far it may turn where predictions are
    off by `near`."""

    NEAR = 3e-5
    # The metrics that are the mean of a loss over rows.
    LOSSES = {"LogCoshError": "LogCosh", "RootMeanSquaredError":
              "MeanSquaredError"}
    MEANS = {"MeanSquaredError", "MeanAbsoluteError", "RootMeanSquaredError",
             "LogCoshError", "BinaryCrossentropy", "CategoricalCrossentropy",
             "SparseCategoricalCrossentropy", "CosineSimilarity",
             *OTHER_LOSSES}

    def __init__(self, config, loss, model, weighted=False):
        self.config = config.get("config", {}) if isinstance(config, dict) else {}
        self.kind = config["class_name"] if isinstance(config, dict) else config
        self.weighted, self.model, self.sparse = weighted, model, loss.sparse
        if self.kind == "accuracy":
            self.kind = ("SparseCategoricalAccuracy" if loss.sparse else
                         "BinaryAccuracy" if model.output_shape[-1] == 1 else
                         "CategoricalAccuracy")

    def __call__(self, p, y, w, near=0.0):
        self.near = max(near, self.NEAR)
        rows = math.prod(p.shape[1:-1])
        w = w if self.weighted else np.ones(len(p))
        w = np.repeat(w, rows) if w.ndim == 1 else w.reshape(-1)
        p = p.reshape(-1, p.shape[-1])
        y = y.reshape(-1) if self.sparse else y.reshape(p.shape)
        if self.sparse and self.kind == "MeanIoU":
            inside = (y >= 0) & (y < p.shape[1]) & (
                y != self.config.get("ignore_class"))
            p, y, w = p[inside], y[inside], w[inside]
        if self.kind in self.MEANS:
            return self.of_loss(p, y, w), 0.0
        own = getattr(self, "of_" + self.kind.lower(), None)
        if own:
            return own(p, y, w)
        right, near = self.rights(p, y)
        return (float(ratio((right * w).sum(), w.sum())),
                float(ratio((near * np.abs(w)).sum(), np.abs(w.sum()))))

    def of_loss(self, p, y, w):
        loss = Loss.__new__(Loss)
        loss.kind = self.LOSSES.get(self.kind, self.kind)
        loss.config, loss.sparse = self.config, self.sparse
        loss.from_logits = self.config.get("from_logits", False)
        loss.smoothing = self.config.get("label_smoothing", 0.0)
        loss.ignored = self.config.get("ignore_class")
        losses = loss.rows(p, y)[0]
        if loss.ignored is not None:  # they count, as without a mask in Keras
            losses = losses * (y != loss.ignored)
        value = float(ratio((losses * w).sum(), w.sum()))
        if self.kind == "RootMeanSquaredError":
            return math.sqrt(value)
        return -value if self.kind == "CosineSimilarity" else value

    def rights(self, p, y):
        """For each row: how much of it is right, and how much rounding may change."""
        if self.kind == "BinaryAccuracy":
            threshold = self.config.get("threshold", 0.5)
            return (((p > threshold) == y).mean(-1),
                    (np.abs(p - threshold) < self.near).mean(-1))
        near_by = np.maximum(self.near, self.NEAR * np.abs(p).max(-1))
        label = y if self.sparse else y.argmax(-1)
        if "TopK" in self.kind:
            k = self.config.get("k", 5)
            inside = (label >= 0) & (label < p.shape[1])
            own = p[np.arange(len(p)), np.where(inside, label, 0)][:, None]
            return (((p > own).sum(-1) < k) & inside,
                    (np.abs(p - own) < near_by[:, None]).sum(-1) > 1)
        order = np.sort(p, -1)
        return (p.argmax(-1) == label,
                order[:, -1] - order[:, -2] < near_by)

    # --- of counts

    def positives(self, p):
        """(taken to be positive, may turn)."""
        threshold, k = self.config.get("thresholds"), self.config.get("top_k")
        taken = p > (0.5 if threshold is None else threshold)
        near = np.abs(p - (0.5 if threshold is None else threshold)) < self.near
        if k:
            own = p[:, :, None]
            others = p[:, None, :]
            before = np.tri(p.shape[1], k=-1, dtype=bool)
            rank = ((others > own) | ((others == own) & before)).sum(-1)
            tied = ((np.abs(others - own) < self.near).sum(-1) > 1)
            in_top = rank < k
            if threshold is None:
                return in_top, tied
            return in_top & taken, tied | near
        return taken, near

    def counts(self, p, y, w):
        """(true positives, false positives, false negatives, true negatives),
        and by how much these may be more or less."""
        taken, near = self.positives(p)
        if self.config.get("class_id") is not None:
            at = slice(self.config["class_id"], self.config["class_id"] + 1)
            taken, near, y = taken[:, at], near[:, at], y[:, at]
        y = y != 0
        w = w[:, None]
        right, wrong = (float((np.abs(w) * near * each).sum())
                        for each in (y, ~y))
        return [float((w * each).sum()) for each in (
            y & taken, ~y & taken, y & ~taken, ~y & ~taken)], [
                right, wrong, right, wrong]

    def share(self, p, y, w, other):
        """True positives among these and the `other` count."""
        counts, turns = self.counts(p, y, w)
        turn = turns[0] + (turns[other] if other == 1 else 0)
        whole = counts[0] + counts[other]
        return float(ratio(counts[0], whole)), (
            min(1.0, turn / (abs(whole) - turn)) if turn < abs(whole) else
            1.0 * (turn > 0))

    def of_precision(self, p, y, w):
        return self.share(p, y, w, 1)

    def of_recall(self, p, y, w):
        return self.share(p, y, w, 2)

    def count(self, p, y, w, number):
        counts, turns = self.counts(p, y, w)
        return counts[number], turns[number]

    of_truepositives = functools.partialmethod(count, number=0)
    of_falsepositives = functools.partialmethod(count, number=1)
    of_falsenegatives = functools.partialmethod(count, number=2)
    of_truenegatives = functools.partialmethod(count, number=3)

    def of_auc(self, p, y, w):
        n = self.config.get("num_thresholds", 200)
        at = np.array([-EPSILON, *(i / (n - 1) for i in range(1, n - 1)),
                       1 + EPSILON])
        w = np.repeat(w, p.shape[1])
        p, y = p.reshape(-1), y.reshape(-1) != 0
        p = np.clip(activate("sigmoid", p) if self.config.get("from_logits")
                    else p, 0, 1)
        value = self.area(p, y, w, at)
        # At best all is nearer to the truth, at worst further from it.
        ends = [self.area(np.clip(p + way * np.where(y, 1, -1), 0, 1), y, w, at)
                for way in (self.near, -self.near)]
        return value, sum(abs(end - value) for end in ends)

    def area(self, p, y, w, at):
        above = p[None] > at[:, None]
        tp, fp = (above * y * w).sum(1), (above * ~y * w).sum(1)
        pos, neg = (y * w).sum(), (~y * w).sum()
        method = self.config.get("summation_method", "interpolation")
        pr = self.config.get("curve", "ROC") == "PR"
        if pr and method == "interpolation":
            all_ = tp + fp
            dtp, dp = tp[:-1] - tp[1:], all_[:-1] - all_[1:]
            slope = ratio(dtp, np.maximum(dp, 0))
            cut = tp[1:] - slope * all_[1:]
            both = (all_[:-1] > 0) & (all_[1:] > 0)
            safe = np.where(both, ratio(all_[:-1], all_[1:]), 1)
            return float(ratio(slope * (dtp + cut * np.log(safe)),
                               np.full(len(dp), pos)).sum())
        recall = ratio(tp, np.full(len(tp), pos))
        x, h = ((recall, ratio(tp, tp + fp)) if pr else
                (ratio(fp, np.full(len(fp), neg)), recall))
        height = {"interpolation": (h[:-1] + h[1:]) / 2,
                  "minoring": np.minimum(h[:-1], h[1:]),
                  "majoring": np.maximum(h[:-1], h[1:])}[method]
        return float(((x[:-1] - x[1:]) * height).sum())

    def of_f1score(self, p, y, w):
        threshold = self.config.get("threshold")
        if threshold is None:
            largest = p.max(-1, keepdims=True)
            taken = (p >= largest) & (np.abs(p) > 1e-9)
            near = (np.sort(p, -1)[:, -2:].ptp(-1) < self.near).any() if (
                p.shape[1] > 1) else False
        else:
            taken = p > threshold
            near = (np.abs(p - threshold) < self.near).any()
        average = self.config["average"]
        axis = None if average == "micro" else 0
        w = w[:, None]
        tp, fp, fn = ((w * each).sum(axis) for each in (
            taken * y, taken * (1 - y), ~taken * y))
        precision, recall = ratio(tp, tp + fp), ratio(tp, tp + fn)
        square = self.config.get("beta", 1.0) ** 2
        f = ratio(precision * recall, square * precision + recall) * (1 + square)
        if average == "weighted":
            there = (w * y).sum(0)
            f = (f * ratio(there, np.full(len(there), there.sum()))).sum()
        return float(np.mean(f)), 1.0 * near

    of_fbetascore = of_f1score

    def of_meaniou(self, p, y, w):
        n = self.config["num_classes"]
        truth = y if self.sparse else y.argmax(-1)
        matrix = np.zeros((n, n))
        np.add.at(matrix, (truth, p.argmax(-1)), w)
        right = np.diag(matrix)
        either = matrix.sum(0) + matrix.sum(1) - right
        near = (np.sort(p, -1)[:, -2:].ptp(-1) < self.near).any() if (
            p.shape[1] > 1) else False
        return float(ratio(ratio(right, either).sum(), (either != 0).sum())
                     ), 1.0 * near

    of_onehotmeaniou = of_meaniou

    def of_r2score(self, p, y, w):
        w = w[:, None]
        mean = ratio((w * y).sum(0), np.full(y.shape[1], w.sum()))
        spread = (w * y * y).sum(0) - (w * y).sum(0) * mean
        with np.errstate(divide="ignore", invalid="ignore"):
            score = 1 - (w * (y - p) ** 2).sum(0) / spread
        # For one value, or equal ones, rounding decides the result.
        unsure = (spread < 1e-6 * (w * y * y).sum(0)).any()
        score = np.where(np.isinf(score), 0, score)
        if self.config.get("class_aggregation") == "variance_weighted_average":
            score = float(ratio((score * spread).sum(), spread.sum()))
        value = float(np.mean(score))
        return (0.0, math.inf) if unsure else (value, 0.0)


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
    if rate["class_name"] == "CosineDecayRestarts":
        p, t, n = step / c["first_decay_steps"], c.get("t_mul", 2.0), 0
        while p >= t ** n:
            p, n = p - t ** n, n + 1
        cosine = c.get("m_mul", 1.0) ** n * 0.5 * (
            1 + math.cos(math.pi * p / t ** n))
        alpha = c.get("alpha", 0.0)
        return initial * ((1 - alpha) * cosine + alpha)
    target = c.get("warmup_target")
    warmup = c.get("warmup_steps", 0)
    if target is None:
        target, warmup = initial, 0
    if step < warmup:
        return initial + (target - initial) * step / warmup
    step -= warmup
    p = step / c["decay_steps"]
    if rate["class_name"] == "InverseTimeDecay":
        p = math.floor(p) if c.get("staircase") else p
        return target / (1 + c["decay_rate"] * p)
    if rate["class_name"] == "PolynomialDecay":
        end = c.get("end_learning_rate", 1e-4)
        if c.get("cycle") and step > 0:
            p /= math.ceil(p)
        return (target - end) * (1 - min(p, 1)) ** c.get("power", 1.0) + end
    assert rate["class_name"] == "CosineDecay"
    part = min(step, c["decay_steps"]) / c["decay_steps"]
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
    DEFAULTS["Nadam"] = DEFAULTS["Adamax"]
    DEFAULTS["Adagrad"] = {"learning_rate": 0.001, "epsilon": 1e-7,
                           "initial_accumulator_value": 0.1}
    DEFAULTS["Adadelta"] = {"learning_rate": 0.001, "rho": 0.95,
                            "epsilon": 1e-7}
    DEFAULTS["Lion"] = {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.99}
    DEFAULTS["AdamW"] = {**DEFAULTS["Adam"], "weight_decay": 0.004}

    def __init__(self, config):
        self.kind = config["class_name"]
        self.o = {**self.DEFAULTS[self.kind], **config.get("config", {})}
        self.iterations = 0
        self.slots = {}
        self.averages = {}
        self.gathered = []  # gradients since the last update

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
        every = self.o.get("gradient_accumulation_steps")
        if every:
            self.gathered.append(gradients)
            if len(self.gathered) < every:
                return
            gradients = {path: sum(each[path] for each in self.gathered) / every
                         for path in gradients}
            self.gathered = []
        rate = learning_rate(self.o["learning_rate"], self.iterations)
        self.iterations += 1
        decay = self.o.get("weight_decay") or 0.0
        for path, g in self.clip(gradients).items():
            w = weights[path]
            slots = self.slots.setdefault(
                path, [np.zeros_like(w) for _ in range(3)])
            w -= w * w.dtype.type(decay * rate)
            w -= getattr(self, "of_" + self.kind.lower())(rate, g, slots)
            if self.o.get("use_ema"):
                self.average(path, w)

    def average(self, path, w):
        mean = self.averages.setdefault(path, w.copy())
        momentum = self.o.get("ema_momentum", 0.99)
        if self.iterations > 1:
            mean[...] = momentum * mean + (1 - momentum) * w
        every = self.o.get("ema_overwrite_frequency")
        if every and self.iterations % every == 0:
            w[...] = mean

    def finalize(self, weights):
        for path, mean in self.averages.items():
            weights[path][...] = mean

    def of_sgd(self, rate, g, slots):
        mu, m = self.o["momentum"], slots[0]
        if mu == 0:
            return rate * g
        m[...] = mu * m - rate * g
        return -(mu * m - rate * g) if self.o["nesterov"] else -m

    def of_rmsprop(self, rate, g, slots):
        o, (v, a, m) = self.o, slots
        rho = o["rho"]
        v[...] = rho * v + (1 - rho) * g * g
        d = v
        if o["centered"]:
            a[...] = rho * a + (1 - rho) * g
            d = v - a * a
        change = rate * g / np.sqrt(d + o["epsilon"])
        if o["momentum"] == 0:
            return change
        m[...] = o["momentum"] * m + change
        return m

    def of_adam(self, rate, g, slots):
        o, (m, v, largest) = self.o, slots
        t = self.iterations
        alpha = rate * math.sqrt(1 - o["beta_2"] ** t) / (1 - o["beta_1"] ** t)
        m += (g - m) * (1 - o["beta_1"])
        v += (g * g - v) * (1 - o["beta_2"])
        if o["amsgrad"]:
            largest[...] = np.maximum(largest, v)
            v = largest
        return alpha * m / (np.sqrt(v) + o["epsilon"])

    of_adamw = of_adam

    def of_adamax(self, rate, g, slots):
        o, (m, u, _) = self.o, slots
        m += (g - m) * (1 - o["beta_1"])
        u[...] = np.maximum(o["beta_2"] * u, np.abs(g))
        return rate / (1 - o["beta_1"] ** self.iterations) * m / (
            u + o["epsilon"])

    def of_nadam(self, rate, g, slots):
        o, (m, v, _) = self.o, slots
        t = self.iterations

        def u(at):
            return o["beta_1"] * (1 - 0.5 * 0.96 ** at)
        product = math.prod(u(at) for at in range(1, t + 1))
        m += (g - m) * (1 - o["beta_1"])
        v += (g * g - v) * (1 - o["beta_2"])
        mean = (u(t + 1) / (1 - product * u(t + 1)) * m +
                (1 - u(t)) / (1 - product) * g)
        return rate * mean / (np.sqrt(v / (1 - o["beta_2"] ** t)) +
                              o["epsilon"])

    def of_adagrad(self, rate, g, slots):
        if self.iterations == 1:
            slots[0][...] = self.o["initial_accumulator_value"]
        slots[0][...] += g * g
        return rate * g / np.sqrt(slots[0] + self.o["epsilon"])

    def of_adadelta(self, rate, g, slots):
        o, (a, u, _) = self.o, slots
        a[...] = o["rho"] * a + (1 - o["rho"]) * g * g
        d = np.sqrt(u + o["epsilon"]) * g / np.sqrt(a + o["epsilon"])
        u[...] = o["rho"] * u + (1 - o["rho"]) * d * d
        return rate * d

    def of_lion(self, rate, g, slots):
        o, m = self.o, slots[0]
        change = rate * np.sign(o["beta_1"] * m + (1 - o["beta_1"]) * g)
        m[...] = o["beta_2"] * m + (1 - o["beta_2"]) * g
        return change


# --- the order of the examples ------------------------------------------------

MASK = (1 << 64) - 1


def mix(v):
    """SplitMix64's finaliser."""
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB & MASK
    return v ^ (v >> 31)


def permute(seed, epoch, n, i):
    """Where example i of n is taken from, as core/data/permutation.h's Permute says."""
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

def disturbed(t, noise, terms=None):
    """Disturbs a tensor as float32 may round sums. Their terms have the tensor's
    magnitude, or that of `terms`; without `terms` an exact 0 is kept."""
    size = np.abs(t) + 0.5 * math.sqrt(float((t * t).mean()))
    size = size * (t != 0) if terms is None else np.maximum(size, np.abs(terms))
    return t + 2.0 ** -24 * noise.standard_normal(t.shape) * size


class Fit:
    """One run of training. `data` is (x, y) of all examples as the model sees
    them, `validation` such a pair or None, `weights` arrays by path. `noise`
    is a random generator: values are then changed by as much as float32 may
    round them. `runs`: the number of calls of fit, one after another. `others`:
    the `seen` of disturbed runs of the same training."""

    FURTHER = 6  # than those led another rounding may lead

    def __init__(self, run, world, data, validation, weights, dtype=np.float64,
                 noise=None, runs=1, others=()):
        self.fit = run.get("fit", {})
        self.others, self.seen = others, []  # of each measurement the outputs
        self.reach = 0.0
        self.world, self.dtype, self.runs = world, dtype, runs
        self.model = Model(run["model"])
        if noise is not None:
            self.model.noise = functools.partial(disturbed, noise=noise)
        compile_ = run["compile"]
        heads, several = self.model.heads, len(self.model.heads) > 1
        self.losses = [Loss(each, head) for each, head in zip(
            compile_["loss"] if several else [compile_["loss"]], heads)]
        self.scales = compile_.get("loss_weights", [1.0] * len(heads))
        self.metrics = []  # of each the number of its output
        for key, weighted in ("metrics", False), ("weighted_metrics", True):
            asked = compile_.get(key, [])
            for k, list_ in enumerate(asked if several else [asked]):
                self.metrics += [(k, Metric(each, self.losses[k], heads[k],
                                            weighted)) for each in list_]
        self.optimizer = Optimizer(compile_["optimizer"])
        self.weights = {}
        for path, layer, name in self.model.weights():
            w = weights[path].astype(dtype)
            if noise is not None:
                # Of a scalar too an array, which can be changed in place.
                w = np.asarray(w * (1 + 2.0 ** -24 *
                                    noise.standard_normal(w.shape)))
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
        x, y, *w = data
        w = w[0] if w else np.ones(len(x))
        xs = [array.astype(self.dtype).reshape(
            len(x), *self.model.shapes[name]) for array, name in zip(
                x.arrays if isinstance(x, Rows) else [x],
                self.model.input_names)]
        ys = []
        for array, loss, head in zip(y.arrays if isinstance(y, Rows) else [y],
                                     self.losses, self.model.heads):
            rows = head.output_shape
            ys.append(array.reshape(len(y), *rows[:-1]) if loss.sparse else
                      array.astype(self.dtype).reshape(len(y), *rows))
        return (xs[0] if len(xs) == 1 else Rows(xs),
                ys[0] if len(ys) == 1 else Rows(ys), w)

    def class_weights(self):
        """Returns the weights of the training examples, from class_weight if given."""
        asked = self.fit.get("class_weight")
        x, y, w = self.data
        if not asked:
            return w
        y = y.reshape(len(y), -1)
        label = (np.rint(y[:, 0]).astype(int) if y.shape[1] == 1 else
                 y.argmax(-1))
        return np.array([asked.get(str(each), 1.0) for each in label])

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

    def measure(self, p, y, w):
        """For each metric its value, and how much rounding may change it."""
        ps, ys = self.each(p), self.each(y)
        self.seen.append(ps)
        for other in self.others:
            self.reach = max(self.reach, *(
                float(np.abs(own - disturbed).max(initial=0)) for own, disturbed
                in zip(ps, other[len(self.seen) - 1])))
        return [metric(ps[k].astype(np.float64), ys[k], w,
                       self.FURTHER * self.reach) for k, metric in self.metrics]

    @staticmethod
    def each(rows):
        return rows.arrays if isinstance(rows, Rows) else [rows]

    def lose(self, p, y, w):
        """([the loss and, of several, each output's] of each example, the
        gradients, and which are by the logits)."""
        pers, ds, logits = [], [], []
        for head, loss, scale, p_, y_ in zip(self.model.heads, self.losses,
                                             self.scales, self.each(p),
                                             self.each(y)):
            per, d, of = loss(head, p_, y_, w, self.world)
            pers.append(per.astype(np.float64))
            ds.append((d * scale).astype(self.dtype))
            logits.append(of)
        total = sum(scale * per for scale, per in zip(self.scales, pers))
        return [total] + pers * (len(pers) > 1), ds, logits

    def evaluate(self, data, sizes):
        """[loss, metrics ...], and how far each may turn."""
        x, y, w = data
        totals, outputs = 0.0, []
        for i in range(0, len(x), sizes):
            at = slice(i, i + sizes)
            outputs.append(self.model.forward(x[at]))
            pers, _, _ = self.lose(outputs[-1], y[at], w[at])
            totals = totals + np.array([per.sum() for per in pers])
        arrays = [np.concatenate(each) for each in
                  zip(*(self.each(p) for p in outputs))]
        measured = self.measure(Rows(arrays) if len(arrays) > 1 else arrays[0],
                                y, w)
        values = totals / len(x)
        values[0] += self.model.penalty()
        return ([*values, *(value for value, _ in measured)],
                [0.0] * len(values) + [slack for _, slack in measured])

    def validates(self, epoch):
        freq = self.fit.get("validation_freq", 1)
        return self.validation is not None and (
            epoch % freq == 0 if isinstance(freq, int) else epoch in freq)

    def results(self):
        """Arrays by name: steps (S, 1 + metrics), steps_slack, epochs, val,
        val_slack, and weights/PATH."""
        steps, slacks, epochs, val, val_slacks = [], [], [], [], []
        weights = self.class_weights()
        size = self.fit.get("validation_batch_size") or self.fit.get(
            "batch_size", 32)
        for number, epoch in enumerate(self.batches() * self.runs):
            total, examples = 0.0, 0
            for index in epoch:
                x, y = self.data[0][index], self.data[1][index]
                piece = -(-len(index) // self.world)
                p = self.model.forward(x, [
                    (min(len(index), piece * rank),
                     min(len(index), piece * (rank + 1)))
                    for rank in range(self.world)])
                w = weights[index]
                pers, ds, of_logits = self.lose(p, y, w)
                values = [float(per.mean()) for per in pers]
                values[0] += self.model.penalty()
                value = values[0]
                measured = self.measure(p, y, w)
                self.model.backward(
                    [self.model.noise(d.astype(self.dtype)) for d in ds],
                    of_logits)
                gradients = self.model.whole_gradients()
                self.optimizer.step(self.weights, gradients)
                self.model.constrain()
                steps.append([*values, *(each for each, _ in measured)])
                slacks.append([0.0] * len(values) +
                              [slack for _, slack in measured])
                total += value * len(index)
                examples += len(index)
            epochs.append([total / examples])
            if self.validates(number % self.fit.get("epochs", 1) + 1):
                values, slack = self.evaluate(self.validation,
                                              size * self.world)
                val.append(values)
                val_slacks.append(slack)
            if (number + 1) % self.fit.get("epochs", 1) == 0:
                self.optimizer.finalize(self.weights)
        result = {"steps": np.array(steps), "steps_slack": np.array(slacks),
                  "epochs": np.array(epochs), "val": np.array(val),
                  "val_slack": np.array(val_slacks)}
        for path, w in self.weights.items():
            result["weights/" + path] = w.astype(np.float64)
        return result
