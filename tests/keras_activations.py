"""Keras's activations in NumPy, with their gradients: a part of keras_oracle.

Each is (value of the input z, derivative from z and the value y).
"""
import math

import numpy as np

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def sigmoid(z):
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, e) / (1 + e)


def softplus(z):
    return np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))


def expm1(z):
    """exp(z) - 1 for z below 0, else 0: no overflow."""
    return np.expm1(np.minimum(z, 0))


def hard_sigmoid(z):
    return np.clip(z + 3, 0, 6) / 6


def inside(z):
    return ((z > -3) & (z < 3)) / 6


_erf = np.vectorize(math.erf, otypes=[float])


def normal_below(z):
    return ((1 + _erf(z.astype(float) / math.sqrt(2))) / 2).astype(z.dtype)


def density(z):
    return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def mish_slope(z, y):
    t, s = np.tanh(softplus(z)), sigmoid(z)
    return t + z * s * (1 - t * t)


OF_ONE_NUMBER = {
    "linear": (lambda z: z, lambda z, y: np.ones_like(z)),
    "relu": (lambda z: np.maximum(z, 0), lambda z, y: (y > 0) * 1.0),
    "sigmoid": (sigmoid, lambda z, y: y * (1 - y)),
    "tanh": (np.tanh, lambda z, y: 1 - y * y),
    "relu6": (lambda z: np.clip(z, 0, 6),
              lambda z, y: ((z > 0) & (z < 6)) * 1.0),
    "elu": (lambda z: np.where(z > 0, z, expm1(z)),
            lambda z, y: np.where(z > 0, 1, np.exp(np.minimum(z, 0)))),
    "selu": (lambda z: SELU_SCALE * np.where(z > 0, z, SELU_ALPHA * expm1(z)),
             lambda z, y: SELU_SCALE * np.where(
                 z > 0, 1, SELU_ALPHA * np.exp(np.minimum(z, 0)))),
    "leaky_relu": (lambda z: np.where(z > 0, z, 0.2 * z),
                   lambda z, y: np.where(z > 0, 1, 0.2)),
    "exponential": (np.exp, lambda z, y: y),
    "hard_sigmoid": (hard_sigmoid, lambda z, y: inside(z)),
    "hard_sigmoid_keras2": (lambda z: np.clip(0.2 * z + 0.5, 0, 1),
                            lambda z, y: 0.2 * (np.abs(z) <= 2.5)),
    "softsign": (lambda z: z / (1 + np.abs(z)),
                 lambda z, y: 1 / (1 + np.abs(z)) ** 2),
    "softplus": (softplus, lambda z, y: sigmoid(z)),
    "gelu": (lambda z: z * normal_below(z),
             lambda z, y: normal_below(z) + z * density(z)),
    "silu": (lambda z: z * sigmoid(z),
             lambda z, y: sigmoid(z) * (1 + z * (1 - sigmoid(z)))),
    "hard_silu": (lambda z: z * hard_sigmoid(z),
                  lambda z, y: hard_sigmoid(z) + z * inside(z)),
    "mish": (lambda z: z * np.tanh(softplus(z)), mish_slope),
}
OF_ONE_NUMBER["swish"] = OF_ONE_NUMBER["silu"]
OF_ONE_NUMBER["hard_swish"] = OF_ONE_NUMBER["hard_silu"]
OF_ROWS = ["softmax", "log_softmax"]


def log_softmax(z):
    shifted = z - z.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def activate(name, z):
    if name == "softmax":
        e = np.exp(z - z.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    if name == "log_softmax":
        return log_softmax(z)
    return OF_ONE_NUMBER[name][0](z).astype(z.dtype)


def activation_gradient(name, z, y, dy):
    if name == "softmax":
        return y * (dy - (dy * y).sum(-1, keepdims=True))
    if name == "log_softmax":
        return dy - np.exp(y) * dy.sum(-1, keepdims=True)
    return (dy * OF_ONE_NUMBER[name][1](z, y)).astype(dy.dtype)
