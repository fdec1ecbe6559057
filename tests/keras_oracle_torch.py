"""Holds keras_oracle.py against PyTorch in float64: loss and gradients.

check(case) gives "" or what disagrees, of the first batch of a case of
differential.py. Needs python3-torch. A model is computed anew with PyTorch's
own layers and losses, and differentiated by PyTorch.
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


def pool(layer, x):
    window = layer.window
    if layer.is_max:
        return images(F.max_pool2d, padded(x, window, -float("inf")),
                      window.size, window.strides)
    mean = images(F.avg_pool2d, padded(x, window, 0.0), window.size,
                  window.strides)
    ones = padded(torch.ones_like(x), window, 0.0)
    return mean / images(F.avg_pool2d, ones, window.size, window.strides)


def apply(layer, xs, w):
    """(input of the activation, output)."""
    x = xs[0]
    if isinstance(layer, keras_oracle.View):
        x = x.reshape(len(x), *layer.build([tuple(x.shape[1:])]))
    elif isinstance(layer, keras_oracle.Pooling2D):
        x = pool(layer, x)
    elif isinstance(layer, keras_oracle.GlobalAveragePooling2D):
        x = x.mean((1, 2)).reshape(len(x), *layer.build([tuple(x.shape[1:])]))
    elif isinstance(layer, keras_oracle.Add):
        x = torch.stack(xs).sum(0)
    elif isinstance(layer, keras_oracle.Concatenate):
        x = torch.cat(xs, -1)
    elif isinstance(layer, keras_oracle.Weighted):
        kernel = w[layer.name + "/kernel"]
        bias = w.get(layer.name + "/bias")
        if isinstance(layer, keras_oracle.Dense):
            x = F.linear(x, kernel.T, bias)
        else:
            x = images(F.conv2d, padded(x, layer.window, 0.0),
                       kernel.permute(3, 2, 0, 1).contiguous(), bias,
                       stride=layer.window.strides)
    return x, ACTIVATIONS[layer.activation](x)


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
    per, d, of_logits = fit.loss(model, p, y)
    model.backward(d, of_logits)
    gradients = model.whole_gradients()

    w = {path: torch.tensor(value, requires_grad=True)
         for path, value in fit.weights.items()}
    tensors = {model.input_name: torch.tensor(x)}
    for layer, inputs in zip(model.layers, model.inputs):
        z, tensors[layer.name] = apply(layer, [tensors[each] for each in inputs],
                                       w)
    last = tensors[model.layers[-1].name]
    loss = loss_of(fit.loss, z if fit.loss.takes_logits else last, y)
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
