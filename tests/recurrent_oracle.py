"""Keras's recurrent layers in NumPy, with their gradients: a part of keras_oracle.

Written from Keras's definitions, step by step. x is (batch, steps, features). A
mask is (batch, steps), true for the steps that count.
"""
import numpy as np

from keras_activations import activate, activation_gradient

GATES = {"SimpleRNN": 1, "LSTM": 4, "GRU": 3}


def has_two_biases(config, kind):
    return kind == "GRU" and config.get("reset_after", True)


def weight_shapes(config, kind, features):
    units, width = config["units"], GATES[kind] * config["units"]
    shapes = {"kernel": (features, width), "recurrent_kernel": (units, width)}
    if config.get("use_bias", True):
        shapes["bias"] = ((2, width) if has_two_biases(config, kind)
                          else (width,))
    return shapes


class Function:
    """An activation that keeps what its gradient needs."""

    def __init__(self, name):
        self.name = name

    def __call__(self, z):
        return Value(self.name, z)


class Value:
    def __init__(self, name, z):
        self.name, self.z, self.y = name, z, activate(name, z)

    def gradient(self, dy):
        return activation_gradient(self.name, self.z, self.y, dy)


class Recurrence:
    """forward(x, *states) gives y and has the last states in `last`; backward(dy)
    gives dx, fills `gradients` and has those of the first states in `d_first`."""

    def __init__(self, kind, config, weights):
        self.kind, self.config, self.weights = kind, config, weights
        self.units = config["units"]
        self.activation = Function(config.get("activation") or "linear")
        self.gate = Function(config.get("recurrent_activation") or "linear")
        self.two_biases = has_two_biases(config, kind)
        bias = weights.get("bias")
        self.bias = [0, 0] if bias is None else (
            list(bias) if self.two_biases else [bias, 0])

    def columns(self, first, end=None):
        """The part of the recurrent kernel for these gates."""
        u = self.units
        return self.weights["recurrent_kernel"][:, first * u:(end or first + 1) * u]

    def counts(self, t):
        """Which examples' step t counts, as a column."""
        return self.mask[:, t, None]

    def forward(self, x, *states, mask=None):
        self.x = x
        self.mask = (np.ones(x.shape[:2], bool) if mask is None else mask)
        steps = x.shape[1]
        self.order = list(range(steps))
        if self.config.get("go_backwards"):
            self.order.reverse()
        zero = np.zeros((len(x), self.units), x.dtype)
        state, self.kept, ys = (*states, zero, zero)[:2], [], []
        forward = {"SimpleRNN": self.simple, "LSTM": self.lstm,
                   "GRU": self.gru}[self.kind]
        y = zero
        for t in self.order:
            z = x[:, t] @ self.weights["kernel"] + self.bias[0]
            new, kept = forward(z, *state)
            before = zero if self.config.get("zero_output_for_mask") else y
            y = np.where(self.counts(t), new[0], before)
            state = tuple(each if each is None else
                          np.where(self.counts(t), each, old)
                          for each, old in zip(new, state))
            self.kept.append(kept)
            ys.append(y)
        self.last = state
        if self.config.get("return_sequences"):
            return np.stack(ys, 1)
        return ys[-1]

    def backward(self, dy, d_last=None):
        self.gradients = {name: np.zeros_like(w)
                          for name, w in self.weights.items()}
        dx = np.zeros_like(self.x)
        zero = np.zeros_like(self.kept[0][0])
        d_state = d_last or (zero, zero)
        backward = {"SimpleRNN": self.simple_backward,
                    "LSTM": self.lstm_backward,
                    "GRU": self.gru_backward}[self.kind]
        last = len(self.order) - 1
        d_y = zero  # of the output of this step, by the step behind it
        for s in range(last, -1, -1):
            t = self.order[s]
            if self.config.get("return_sequences"):
                d_y = d_y + dy[:, s]
            elif s == last:
                d_y = dy
            counts = self.counts(t)
            skipped = [d if d is None else np.where(counts, 0, d)
                       for d in d_state]
            d_new = [d if d is None else np.where(counts, d, 0)
                     for d in d_state]
            d_new[0] = d_new[0] + np.where(counts, d_y, 0)
            d_y = (zero if self.config.get("zero_output_for_mask") else
                   np.where(counts, 0, d_y))
            dz, d_old = backward(self.kept[s], *d_new)
            d_state = tuple(d if d is None or by is None else d + by
                            for d, by in zip(d_old, skipped))
            dx[:, t] = dz @ self.weights["kernel"].T
            self.gradients["kernel"] += self.x[:, t].T @ dz
            if "bias" in self.gradients:
                bias = self.gradients["bias"]
                (bias[0] if self.two_biases else bias)[...] += dz.sum(0)
        self.d_first = d_state
        return dx

    def add_recurrent(self, h, d, first, end):
        """The gradient of h of d = gradient of h R; adds that of R."""
        u = self.units
        self.gradients["recurrent_kernel"][:, first * u:end * u] += h.T @ d
        return d @ self.columns(first, end).T

    def simple(self, z, h, _):
        value = self.activation(z + h @ self.columns(0))
        return (value.y, None), (h, value)

    def simple_backward(self, kept, dh, _):
        h, value = kept
        dz = value.gradient(dh)
        return dz, (self.add_recurrent(h, dz, 0, 1), None)

    def lstm(self, z, h, c):
        zi, zf, zg, zo = np.split(z + h @ self.columns(0, 4), 4, 1)
        i, f, o = self.gate(zi), self.gate(zf), self.gate(zo)
        g = self.activation(zg)
        new = f.y * c + i.y * g.y
        a = self.activation(new)
        return (o.y * a.y, new), (h, c, i, f, g, o, a)

    def lstm_backward(self, kept, dh, dc):
        h, c, i, f, g, o, a = kept
        dc = dc + a.gradient(dh * o.y)
        dz = np.concatenate([i.gradient(dc * g.y), f.gradient(dc * c),
                             g.gradient(dc * i.y), o.gradient(dh * a.y)], 1)
        return dz, (self.add_recurrent(h, dz, 0, 4), dc * f.y)

    def gru(self, x, h, _):
        xz, xr, xn = np.split(x, 3, 1)
        if self.two_biases:
            inner = h @ self.columns(0, 3) + self.bias[1]
            iz, ir, product = np.split(inner, 3, 1)
        else:
            iz, ir = np.split(h @ self.columns(0, 2) + self.bias[1], 2, 1)
        z, r = self.gate(xz + iz), self.gate(xr + ir)
        if self.two_biases:
            n = self.activation(xn + r.y * product)
        else:
            product = None
            n = self.activation(xn + (r.y * h) @ self.columns(2))
        return (z.y * h + (1 - z.y) * n.y, None), (h, z, r, n, product)

    def gru_backward(self, kept, dh, _):
        h, z, r, n, product = kept
        dz = z.gradient(dh * (h - n.y))
        dn = n.gradient(dh * (1 - z.y))
        back = dh * z.y
        if self.two_biases:
            dr = r.gradient(dn * product)
            inner = np.concatenate([dz, dr, dn * r.y], 1)
            back = back + self.add_recurrent(h, inner, 0, 3)
            if "bias" in self.gradients:
                self.gradients["bias"][1] += inner.sum(0)
        else:
            reset = self.add_recurrent(r.y * h, dn, 2, 3)
            dr = r.gradient(reset * h)
            back = back + reset * r.y
            back = back + self.add_recurrent(
                h, np.concatenate([dz, dr], 1), 0, 2)
        return np.concatenate([dz, dr, dn], 1), (back, None)
