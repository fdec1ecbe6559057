"""Holds keras_oracle.py against PyTorch in float64: loss and gradients.

check(case) gives "" or what disagrees, of the first batch of a case of
differential.py; unknown(case) what of it is not done here, or "". Needs
python3-torch. A model is computed anew with PyTorch's own layers and losses,
and differentiated by PyTorch.
"""
import numpy as np
import torch
import torch.nn.functional as F

import keras_oracle

LIMIT = 1e-9
ACTIVATIONS = {"linear": lambda z: z, "relu": torch.relu,
               "sigmoid": torch.sigmoid, "tanh": torch.tanh,
               "softmax": lambda z: torch.softmax(z, -1)}


def images(function, x, *arguments, **more):
    """`function` of NCHW, for NHWC."""
    y = function(x.permute(0, 3, 1, 2).contiguous(), *arguments, **more)
    return y.permute(0, 2, 3, 1)


def padded(x, window, value):
    (top, bottom), (left, right) = window.pads(x.shape[1:3])
    return F.pad(x, (0, 0, left, right, top, bottom), value=value)


def conv(layer, x, kernel, groups):
    """Convolves with a kernel (kh, kw, channels of a group, filters)."""
    return images(F.conv2d, padded(x, layer.window, 0.0),
                  kernel.permute(3, 2, 0, 1).contiguous(), None,
                  stride=layer.window.strides, dilation=layer.window.dilation,
                  groups=groups)


def convolution(layer, x, w):
    size = layer.window.size
    if isinstance(layer, keras_oracle.SeparableConv):
        kernel = w[layer.name + "/depthwise_kernel"]
        middle = conv(layer, x, kernel.reshape(*size, 1, -1), x.shape[-1])
        point = w[layer.name + "/pointwise_kernel"]
        y = middle @ point.reshape(middle.shape[-1], -1)
    else:
        kernel = w[layer.name + "/kernel"].reshape(
            *size, x.shape[-1] // layer.groups, -1)
        y = conv(layer, x, kernel, layer.groups)
    bias = w.get(layer.name + "/bias")
    return y if bias is None else y + bias


def global_pool(layer, x):
    flat = x.reshape(len(x), -1, x.shape[-1])
    y = flat.amax(1) if layer.is_max else flat.mean(1)
    return y.reshape(len(y), *layer.build([tuple(x.shape[1:])]))


def borders(layer, x):
    (top, bottom), (left, right) = layer.ends
    if not layer.pads:
        top, bottom, left, right = -top, -bottom, -left, -right
    return F.pad(x, (0, 0, left, right, top, bottom))


def upsampled(layer, x):
    return x.repeat_interleave(layer.size[0], 1).repeat_interleave(
        layer.size[1], 2)


PLANES = {keras_oracle.Pooling: lambda layer, x, w: pool(layer, x),
          keras_oracle.Borders: lambda layer, x, w: borders(layer, x),
          keras_oracle.UpSampling: lambda layer, x, w: upsampled(layer, x),
          keras_oracle.Conv: convolution,
          keras_oracle.DepthwiseConv: convolution,
          keras_oracle.SeparableConv: convolution}


def pool(layer, x):
    window = layer.window
    if layer.is_max:
        return images(F.max_pool2d, padded(x, window, -float("inf")),
                      window.size, window.strides)
    mean = images(F.avg_pool2d, padded(x, window, 0.0), window.size,
                  window.strides)
    ones = padded(torch.ones_like(x), window, 0.0)
    return mean / images(F.avg_pool2d, ones, window.size, window.strides)


def merge(kind, xs):
    rank = max(x.dim() for x in xs)
    xs = torch.broadcast_tensors(*[
        x.reshape(len(x), *[1] * (rank - x.dim()), *x.shape[1:]) for x in xs])
    return MERGES[kind](torch.stack(xs))


# The inputs are stacked. (If some are equal, PyTorch divides the gradient of a
# Maximum among them.)
MERGES = {"Add": lambda xs: xs.sum(0), "Average": lambda xs: xs.mean(0),
          "Subtract": lambda xs: xs[0] - xs[1],
          "Multiply": lambda xs: xs.prod(0)}


def apply(layer, xs, w):
    """(input of the activation, output)."""
    x = xs[0]
    if isinstance(layer, keras_oracle.View):
        x = x.reshape(len(x), *layer.build([tuple(x.shape[1:])]))
    elif type(layer) in PLANES:
        line = layer.axes == 1
        x = PLANES[type(layer)](layer, x[:, None] if line else x, w)
        x = x[:, 0] if line else x
    elif isinstance(layer, keras_oracle.GlobalPooling):
        x = global_pool(layer, x)
    elif isinstance(layer, keras_oracle.Permute):
        x = x.permute(layer.axes)
    elif isinstance(layer, keras_oracle.Merge):
        x = merge(layer.kind, xs)
    elif isinstance(layer, keras_oracle.Concatenate):
        x = torch.cat(xs, -1)
    elif isinstance(layer, keras_oracle.Dense):
        x = F.linear(x, w[layer.name + "/kernel"].T,
                     w.get(layer.name + "/bias"))
    return x, ACTIVATIONS[layer.activation](x)


LAYERS = (keras_oracle.View, keras_oracle.GlobalPooling, keras_oracle.Permute,
          keras_oracle.Concatenate, keras_oracle.Dense, keras_oracle.Identity,
          keras_oracle.Activation, *PLANES)
LOSSES = ("SparseCategoricalCrossentropy", "CategoricalCrossentropy",
          "BinaryCrossentropy", "MeanSquaredError", "MeanAbsoluteError",
          "Huber")


def unknown(case):
    train, _ = case.data()
    fit = keras_oracle.Fit(case.run, case.workers, train, None, case.weights)
    if fit.losses[0].kind not in LOSSES:
        return fit.losses[0].kind
    if fit.losses[0].sums:
        return "a sum as the loss"
    for layer in fit.model.layers:
        known = (layer.kind in MERGES if type(layer) is keras_oracle.Merge
                 else type(layer) in LAYERS)
        if not known:
            return getattr(layer, "kind", type(layer).__name__)
        if layer.activation not in ACTIVATIONS:
            return layer.activation
        if any(f"{layer.name}/{name}" not in fit.weights
               for name in layer.shapes):
            return "a layer that is named otherwise than its weights"
    return ""


def loss_of(loss, p, y):
    """The mean, by PyTorch's losses where they are Keras's."""
    k = p.shape[-1]
    p = p.reshape(-1, k)
    y = torch.tensor(y)
    y = y.long().reshape(-1) if loss.sparse else y.reshape(-1, k)
    smoothing = loss.smoothing
    eps, high = keras_oracle.EPSILON, float(np.float32(1) - np.float32(1e-7))
    if loss.sparse:
        if loss.from_logits:
            return F.cross_entropy(p, y)
        return F.cross_entropy(p.clamp(eps, high).log(), y)
    if loss.kind == "CategoricalCrossentropy":
        t = y * (1 - smoothing) + smoothing / k
        if loss.from_logits:
            return F.cross_entropy(p, t)
        q = (p / p.sum(-1, keepdim=True)).clamp(eps, high)
        return -(t * q.log()).sum(-1).mean()
    if loss.kind == "BinaryCrossentropy":
        t = y * (1 - smoothing) + smoothing / 2
        if loss.from_logits:
            return F.binary_cross_entropy_with_logits(p, t)
        return F.binary_cross_entropy(p.clamp(eps, high), t)
    if loss.kind == "MeanSquaredError":
        return F.mse_loss(p, y)
    if loss.kind == "MeanAbsoluteError":
        return F.l1_loss(p, y)
    return F.huber_loss(p, y, delta=loss.config.get("delta", 1.0))


def check(case):
    train, _ = case.data()
    fit = keras_oracle.Fit(case.run, case.workers, train, None, case.weights)
    model, x, y = fit.model, fit.data[0][:32], fit.data[1][:32]
    p = model.forward(x)
    per, d, of_logits = fit.losses[0](model.heads[0], p, y)
    model.backward([d], [of_logits])
    gradients = model.whole_gradients()

    w = {path: torch.tensor(value, requires_grad=True)
         for path, value in fit.weights.items()}
    tensors = {model.input_names[0]: torch.tensor(x)}
    for layer, inputs, output in zip(model.layers, model.inputs, model.outputs):
        z, tensors[output] = apply(layer, [tensors[each] for each in inputs], w)
    last = tensors[model.outputs[-1]]
    loss = loss_of(fit.losses[0], z if fit.losses[0].takes_logits else last, y)
    whole = loss
    for path, layer, name in model.weights():
        l1, l2 = layer.regularizer(name)
        whole = whole + l1 * w[path].abs().sum() + l2 * (w[path] ** 2).sum()
    whole.backward()
    pairs = [("loss", per.mean(), loss.item()),
             ("loss with penalties", per.mean() + model.penalty(), whole.item())]
    pairs += [(path, gradients[path], w[path].grad.numpy()) for path in gradients]
    for name, own, other in pairs:
        error = np.abs(own - other).max(initial=0)
        if not error <= LIMIT * max(1e-3, np.abs(other).max(initial=0)):
            return f"{name}: off by {error:.2g}"
    return ""
