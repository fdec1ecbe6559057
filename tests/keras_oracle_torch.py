"""Holds keras_oracle.py against PyTorch in float64: loss and gradients.

check(case) gives "" or what disagrees, of the first batch of a case of
differential.py; unknown(case) what of it is not done here, or "". Needs
python3-torch. A model is computed again with PyTorch's own layers and losses,
and differentiated by PyTorch. In place of a loss that PyTorch lacks stands the
mean square of the output.
"""
import numpy as np
import torch
import torch.nn.functional as F

import keras_oracle

LIMIT = 1e-7
ACTIVATIONS = {"linear": lambda z: z, "relu": torch.relu,
               "sigmoid": torch.sigmoid, "tanh": torch.tanh,
               "softmax": lambda z: torch.softmax(z, -1),
               "log_softmax": lambda z: torch.log_softmax(z, -1),
               "relu6": F.relu6, "elu": F.elu, "selu": F.selu, "silu": F.silu,
               "gelu": F.gelu, "mish": F.mish, "softsign": F.softsign,
               "softplus": lambda z: F.softplus(z, threshold=50),
               "leaky_relu": lambda z: F.leaky_relu(z, 0.2),
               "hard_sigmoid": F.hardsigmoid, "hard_silu": F.hardswish}


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


def transposed(layer, x, w):
    window, (height, width) = layer.window, layer.sizes
    kernel = w[layer.name + "/kernel"].reshape(*window.size, -1, x.shape[-1])
    y = images(F.conv_transpose2d, x, kernel.permute(3, 2, 0, 1).contiguous(),
               None, stride=window.strides, dilation=window.dilation)
    # The output of a convolution without padding, cut and filled up.
    (top, _), (left, _) = window.pads(layer.sizes)
    y = F.pad(y, (0, 0, 0, left + width, 0, top + height))
    y = y[:, top:top + height, left:left + width]
    bias = w.get(layer.name + "/bias")
    return y if bias is None else y + bias


PLANES[keras_oracle.ConvTranspose] = transposed


# --- steps -------------------------------------------------------------------

def weights_of(layer, w):
    return {name: w[f"{layer.name}/{name}"] for name in layer.shapes}


def recurrence(kind, config, x, w):
    """By PyTorch's layers, whose GRU has the first two gates exchanged."""
    def columns(t):
        if kind != "GRU":
            return t
        z, r, n = t.chunk(3, -1)
        return torch.cat([r, z, n], -1)
    params = [columns(w[name]).T.contiguous() for name in
              ("kernel", "recurrent_kernel")]
    if "bias" in w:
        bias = columns(w["bias"])
        params += list(bias) if bias.dim() == 2 else [bias, bias * 0]
    if config.get("go_backwards"):
        x = x.flip(1)
    zero = x.new_zeros(1, len(x), config["units"])
    run = {"LSTM": torch._VF.lstm, "GRU": torch._VF.gru, "SimpleRNN":
           torch._VF.rnn_tanh if config["activation"] == "tanh" else
           torch._VF.rnn_relu}[kind]
    y = run(x, (zero, zero) if kind == "LSTM" else zero, params, "bias" in w, 1,
            0.0, False, False, True)[0]
    return y if config.get("return_sequences") else y[:, -1]


def both_ways(layer, x, w):
    ends = []
    for name, inner in layer.both.items():
        own = {weight.split("/")[1]: value for weight, value in
               weights_of(layer, w).items() if weight.startswith(name + "/")}
        y = recurrence(layer.kind, inner, x, own)
        turns = y.dim() == 3 and name.startswith("backward_")
        ends.append(y.flip(1) if turns else y)
    a, b = ends
    return {"concat": lambda: torch.cat(ends, -1), "sum": lambda: a + b,
            "mul": lambda: a * b, "ave": lambda: (a + b) / 2}[layer.mode]()


def attended(query, key, value, causal, scale):
    """PyTorch divides by the root of the size."""
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    query = query * (scale * query.shape[-1] ** 0.5)
    return F._scaled_dot_product_attention(query, key, value,
                                           mask if causal else None)[0]


def attention(layer, xs, w):
    causal = layer.config.get("use_causal_mask")
    own = weights_of(layer, w)
    if type(layer) is keras_oracle.Attention:
        return attended(xs[0], xs[-1], xs[1], causal, own.get("scale", 1.0))
    heads = [torch.einsum("bsf,fhd->bhsd", x, own[name + "_kernel"]) +
             own.get(name + "_bias", torch.zeros(1))[..., None, :]
             for name, x in (("query", xs[0]), ("key", xs[-1]), ("value", xs[1]))]
    y = attended(*heads, causal, heads[0].shape[-1] ** -0.5)
    return torch.einsum("bhsd,hdf->bsf", y, own["attention_output_kernel"]) + (
        own.get("attention_output_bias", 0))


def at_each_step(layer, x, w):
    layer.inner.name = layer.name
    flat = apply(layer.inner, [x.reshape(-1, *x.shape[2:])], w)[1]
    return flat.reshape(*x.shape[:2], *flat.shape[1:])


def normalized(layer, x, w):
    own = weights_of(layer, w)
    order = [*(i for i in range(x.dim()) if i not in layer.axes), *layer.axes]
    y = F.layer_norm(x.permute(order), [x.shape[i] for i in layer.axes],
                     own.get("gamma"), own.get("beta"),
                     layer.config.get("epsilon", 1e-3))
    return y.permute(*np.argsort(order))


def batch_normalized(layer, x, w):
    own, rows = weights_of(layer, w), x.reshape(-1, x.shape[-1])
    if layer.trainable and len(rows) == 1:  # PyTorch refuses these
        return x * 0 + own.get("beta", 0)
    y = F.batch_norm(rows, own["moving_mean"].detach(),
                     own["moving_variance"].detach(), own.get("gamma"),
                     own.get("beta"), layer.trainable, 0.0,
                     layer.config.get("epsilon", 1e-3))
    return y.reshape(x.shape)


def curved(layer, x):
    if layer.elu:
        return F.elu(x, layer.alpha)
    below = layer.slope * (x - layer.threshold)
    return torch.where(x > layer.threshold, x.clamp(max=layer.top), below)


STEPS = {
    keras_oracle.BatchNormalization: lambda layer, xs, w: batch_normalized(
        layer, xs[0], w),
    keras_oracle.Affine: lambda layer, xs, w: (
        (xs[0] - torch.tensor(layer.minus)) * torch.tensor(layer.times) +
        torch.tensor(layer.plus)),
    keras_oracle.Curve: lambda layer, xs, w: curved(layer, xs[0]),
    keras_oracle.PReLU: lambda layer, xs, w: torch.where(
        xs[0] > 0, xs[0], w[layer.name + "/alpha"] * xs[0]),
    keras_oracle.Recurrent: lambda layer, xs, w: recurrence(
        layer.kind, layer.config, xs[0], weights_of(layer, w)),
    keras_oracle.Bidirectional: lambda layer, xs, w: both_ways(layer, xs[0], w),
    keras_oracle.Attention: attention,
    keras_oracle.MultiHeadAttention: attention,
    keras_oracle.TimeDistributed: lambda layer, xs, w: at_each_step(
        layer, xs[0], w),
    keras_oracle.RepeatVector: lambda layer, xs, w: xs[0][:, None].expand(
        -1, layer.config["n"], -1),
    keras_oracle.Embedding: lambda layer, xs, w: F.embedding(
        xs[0].long(), w[layer.name + "/embeddings"]),
    keras_oracle.PositionEmbedding: lambda layer, xs, w: w[
        layer.name + "/embeddings"][:xs[0].shape[-2]].expand_as(xs[0]),
    keras_oracle.LayerNormalization: lambda layer, xs, w: normalized(
        layer, xs[0], w),
}


def has_steps(layer):
    """Whether PyTorch's layers over steps are those of this layer."""
    if isinstance(layer, keras_oracle.TimeDistributed):
        return is_known(layer.inner)
    if not isinstance(layer, (keras_oracle.Recurrent,
                              keras_oracle.Bidirectional)):
        return type(layer) in STEPS
    configs = ([layer.config] if isinstance(layer, keras_oracle.Recurrent) else
               layer.both.values())
    return all(each["activation"] in (("tanh", "relu") if layer.kind ==
                                      "SimpleRNN" else ("tanh",)) and
               each.get("recurrent_activation", "sigmoid") == "sigmoid" and
               each.get("reset_after", True) for each in configs)


def apply(layer, xs, w):
    """(input of the activation, output)."""
    x = xs[0]
    if type(layer) in STEPS:
        x = STEPS[type(layer)](layer, xs, w)
    elif isinstance(layer, keras_oracle.View):
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


def is_known(layer):
    if layer.activation not in ACTIVATIONS:
        return False
    if type(layer) is keras_oracle.Merge:
        return layer.kind in MERGES
    return type(layer) in LAYERS or has_steps(layer)


def unknown(case):
    train, _ = case.data()
    fit = keras_oracle.Fit(case.run, case.workers, train, None, case.weights)
    if len(fit.losses) > 1:
        return "several outputs"
    for layer in fit.model.layers:
        if layer.config.get("mask_zero"):
            return "a mask"
        if not is_known(layer):
            return getattr(layer, "kind", type(layer).__name__)
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
    p = model.forward(x, [(0, len(x))])
    knows_loss = fit.losses[0].kind in LOSSES and not fit.losses[0].sums
    if knows_loss:
        per, d, of_logits = fit.losses[0](model.heads[0], p, y)
    else:  # of the layers alone
        per, d, of_logits = p * p, 2 * p / p.size, False
    model.backward([d], [of_logits])
    gradients = model.whole_gradients()

    w = {path: torch.tensor(value, requires_grad=True)
         for path, value in fit.weights.items()}
    tensors = dict(zip(model.input_names, map(torch.tensor, fit.each(x))))
    for layer, inputs, output in zip(model.layers, model.inputs, model.outputs):
        z, tensors[output] = apply(layer, [tensors[each] for each in inputs], w)
    last = tensors[model.outputs[-1]]
    loss = (last * last).mean() if not knows_loss else loss_of(
        fit.losses[0], z if fit.losses[0].takes_logits else last, y)
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
        if not error <= LIMIT * max(1.0, np.abs(other).max(initial=0)):
            return f"{name}: off by {error:.2g}"
    return ""
