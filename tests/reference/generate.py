#!/usr/bin/env python3
"""Writes the reference cases beside this file, computed with PyTorch (float64, stored as float32).

Each case is one safetensors file. Tensors use the Keras layout: images NHWC, Conv2D kernels
[height, width, in, out], Dense kernels [in, out]. The file's __metadata__ holds one key, "case":
a JSON object that names the layer or model (Keras config names), the loss and the optimizer.

  layer cases       x, params (kernel, bias), y = layer(x), dy (an arbitrary upstream gradient),
                    and the gradients dx, d_kernel, d_bias of sum(y * dy)
  loss cases        logits or predictions, labels, per-example loss, mean loss, gradient of the mean
  trajectory cases  initial weights, then per step: loss, accuracy; final weights
  fit cases         a whole model in Keras's JSON, with a short last batch. Per step: loss and accuracy; then
                    the loss and accuracy of an evaluation, and a sample of the final weights. The initial weights
                    come from hashed() below, so that the cases of wide models stay small

Data are ../../data/fashion-mnist-mini, scaled by 1/255, in the file's order, from the start again after its end.

Run: /usr/bin/python3 generate.py      (needs Debian's python3-torch; the outputs are committed)
"""
import gzip, json, struct, sys, os
import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
torch.set_default_dtype(torch.float64)
torch.manual_seed(20240601)

def save(name, tensors, case):
    """tensors: dict name -> torch tensor or numpy array; floats stored as F32, ints as I32."""
    header, blobs, off = {"__metadata__": {"case": json.dumps(case, sort_keys=True)}}, [], 0
    for k, v in tensors.items():
        a = v.detach().numpy() if torch.is_tensor(v) else np.asarray(v)
        a = np.ascontiguousarray(a.astype("<i4") if a.dtype.kind in "iu" else a.astype("<f4"))
        b = a.tobytes()
        header[k] = {"dtype": "I32" if a.dtype.kind == "i" else "F32",
                     "shape": list(a.shape), "data_offsets": [off, off + len(b)]}
        blobs.append(b); off += len(b)
    h = json.dumps(header, separators=(",", ":")).encode()
    h += b" " * (-len(h) % 8)
    with open(os.path.join(HERE, name + ".safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(h))); f.write(h); [f.write(b) for b in blobs]
    print(name, {k: list(np.shape(v)) for k, v in tensors.items()})

ACT = {"linear": lambda t: t, "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
       "softmax": lambda t: torch.softmax(t, -1)}

def conv2d(x, k, b, stride, padding):
    xi, ki = x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1)
    if padding == "same":                      # TensorFlow's SAME: the odd pixel goes bottom/right
        pads = []
        for size, ks in ((x.shape[2], k.shape[1]), (x.shape[1], k.shape[0])):
            out = -(-size // stride); p = max((out - 1) * stride + ks - size, 0)
            pads += [p // 2, p - p // 2]
        xi = F.pad(xi, pads)
    return F.conv2d(xi, ki, b, stride=stride).permute(0, 2, 3, 1)

def layer_case(name, x, params, fn, case):
    x = x.requires_grad_(); [p.requires_grad_() for p in params.values()]
    y = fn(x, **params); dy = torch.randn_like(y)
    (y * dy).sum().backward()
    t = {"x": x, **params, "y": y, "dy": dy, "dx": x.grad}
    t.update({"d_" + k: p.grad for k, p in params.items()})
    save(name, t, case)

def dense(name, n, i, o, act):
    layer_case(name, torch.randn(n, i), {"kernel": torch.randn(i, o) * .3, "bias": torch.randn(o) * .1},
               lambda x, kernel, bias: ACT[act](x @ kernel + bias),
               {"layer": "Dense", "units": o, "activation": act})

def conv(name, n, h, w, c, f, kh, kw, stride, padding, act):
    layer_case(name, torch.randn(n, h, w, c), {"kernel": torch.randn(kh, kw, c, f) * .3, "bias": torch.randn(f) * .1},
               lambda x, kernel, bias: ACT[act](conv2d(x, kernel, bias, stride, padding)),
               {"layer": "Conv2D", "filters": f, "kernel_size": [kh, kw], "strides": stride,
                "padding": padding, "activation": act})

dense("dense_linear", 5, 11, 7, "linear")
dense("dense_relu", 64, 33, 17, "relu")
dense("dense_tanh", 3, 4, 9, "tanh")
dense("dense_sigmoid", 6, 5, 4, "sigmoid")
dense("dense_softmax", 4, 6, 5, "softmax")
conv("conv2d_valid_relu", 4, 28, 28, 1, 8, 3, 3, 1, "valid", "relu")
conv("conv2d_same", 3, 9, 7, 3, 5, 3, 3, 1, "same", "linear")
conv("conv2d_same_stride2_even", 2, 8, 10, 4, 6, 3, 3, 2, "same", "relu")
conv("conv2d_5x3_stride2", 2, 13, 11, 2, 4, 5, 3, 2, "valid", "linear")
conv("conv2d_1x1", 2, 6, 6, 8, 16, 1, 1, 1, "same", "linear")

# losses -------------------------------------------------------------------------------------
logits = (torch.randn(9, 10) * 3).requires_grad_(); labels = torch.randint(0, 10, (9,))
per = F.cross_entropy(logits, labels, reduction="none"); per.mean().backward()
save("loss_sparse_categorical_crossentropy", {"logits": logits, "labels": labels, "per_example": per,
     "mean": per.mean().reshape(1), "d_logits": logits.grad},
     {"loss": "SparseCategoricalCrossentropy", "from_logits": True})
big = torch.tensor([[1e4, -1e4, 0.], [88., 89., 90.], [-200., -200., -200.]]).requires_grad_()
lab = torch.tensor([1, 2, 0]); per = F.cross_entropy(big, lab, reduction="none"); per.mean().backward()
save("loss_sparse_categorical_crossentropy_extreme", {"logits": big, "labels": lab, "per_example": per,
     "mean": per.mean().reshape(1), "d_logits": big.grad},
     {"loss": "SparseCategoricalCrossentropy", "from_logits": True})

# trajectories ---------------------------------------------------------------------------------
def images(part, count):
    """The first `count` examples of "train" or "t10k", from the start again after the end."""
    d = os.path.join(HERE, "..", "..", "data", "fashion-mnist-mini")
    x = np.frombuffer(gzip.open(os.path.join(d, part + "-images-idx3-ubyte.gz")).read(), np.uint8, offset=16)
    y = np.frombuffer(gzip.open(os.path.join(d, part + "-labels-idx1-ubyte.gz")).read(), np.uint8, offset=8)
    i = np.arange(count) % len(y)
    return torch.tensor(x.reshape(-1, 28, 28)[i] / 255.), torch.tensor(y[i].astype(np.int64))

class Optimizer:
    """Keras 3's update rules, written out (epsilon inside the root for RMSprop, outside for Adam)."""
    def __init__(self, kind, lr, momentum=0., nesterov=False, rho=.9, epsilon=1e-7, beta_1=.9, beta_2=.999):
        self.__dict__.update(locals()); self.s = {}; self.t = 0
    def step(self, ps):
        self.t += 1
        for n, p in ps.items():
            g = p.grad; s = self.s.setdefault(n, [torch.zeros_like(p), torch.zeros_like(p)])
            with torch.no_grad():
                if self.kind == "SGD":
                    if self.momentum:
                        s[0].mul_(self.momentum).sub_(self.lr * g)
                        p.add_(self.momentum * s[0] - self.lr * g if self.nesterov else s[0])
                    else: p.sub_(self.lr * g)
                elif self.kind == "RMSprop":
                    s[0].mul_(self.rho).add_((1 - self.rho) * g * g)
                    p.sub_(self.lr * g / torch.sqrt(s[0] + self.epsilon))
                elif self.kind == "Adam":
                    s[0].mul_(self.beta_1).add_((1 - self.beta_1) * g)
                    s[1].mul_(self.beta_2).add_((1 - self.beta_2) * g * g)
                    a = self.lr * (1 - self.beta_2 ** self.t) ** .5 / (1 - self.beta_1 ** self.t)
                    p.sub_(a * s[0] / (s[1].sqrt() + self.epsilon))
            p.grad = None

def trajectory(name, opt, batch, steps, l2=0., workers=1):
    """The tutorials' CNN with 4 filters and 16 units. Examples in file order, no shuffling. With
    several workers, worker w of W takes examples w, w+W, w+2W, ... (sharding by example), `batch` a
    step, so one step sees the batch*W examples that one worker would see with batch*W."""
    g = torch.Generator().manual_seed(7)
    def glorot(shape, fan_in, fan_out):
        lim = (6. / (fan_in + fan_out)) ** .5
        return ((torch.rand(shape, generator=g) * 2 - 1) * lim).float().double()
    ps = {"conv2d/kernel": glorot((3, 3, 1, 4), 9, 36), "conv2d/bias": torch.zeros(4),
          "dense/kernel": glorot((26 * 26 * 4, 16), 26 * 26 * 4, 16), "dense/bias": torch.zeros(16),
          "dense_1/kernel": glorot((16, 10), 16, 10), "dense_1/bias": torch.zeros(10)}
    init = {"init/" + k: v.clone() for k, v in ps.items()}
    [p.requires_grad_() for p in ps.values()]
    x, y = images("train", batch * workers * steps); losses, accs = [], []
    for i in range(steps):
        xb, yb = x[i * batch * workers:(i + 1) * batch * workers], y[i * batch * workers:(i + 1) * batch * workers]
        h = torch.relu(conv2d(xb[..., None], ps["conv2d/kernel"], ps["conv2d/bias"], 1, "valid")).flatten(1)
        h = torch.relu(h @ ps["dense/kernel"] + ps["dense/bias"])
        out = h @ ps["dense_1/kernel"] + ps["dense_1/bias"]
        loss = F.cross_entropy(out, yb)
        if l2: loss = loss + l2 * sum((ps[k] ** 2).sum() for k in ps if k.endswith("kernel"))
        loss.backward(); opt.step(ps)
        losses.append(loss.item()); accs.append((out.argmax(1) == yb).double().mean().item())
    case = {"model": ["Input(28,28)", "Reshape(28,28,1)", "Conv2D(4,3,relu)", "Flatten", "Dense(16,relu)", "Dense(10)"],
            "loss": "SparseCategoricalCrossentropy(from_logits=True)", "batch_per_worker": batch, "workers": workers,
            "steps": steps, "l2": l2, "data": "fashion-mnist-mini, train",
            "optimizer": {k: v for k, v in vars(opt).items() if k in
                {"SGD": ("kind", "lr", "momentum", "nesterov"), "RMSprop": ("kind", "lr", "rho", "epsilon"),
                 "Adam": ("kind", "lr", "beta_1", "beta_2", "epsilon")}[opt.kind]}}
    save(name, {**init, "loss": np.array(losses), "accuracy": np.array(accs),
                **{"final/" + k: v for k, v in ps.items()}}, case)

trajectory("trajectory_sgd", Optimizer("SGD", .01), 64, 30)
trajectory("trajectory_sgd_momentum", Optimizer("SGD", .01, momentum=.9), 64, 20)
trajectory("trajectory_sgd_nesterov", Optimizer("SGD", .01, momentum=.9, nesterov=True), 64, 20)
trajectory("trajectory_rmsprop_l2", Optimizer("RMSprop", .001), 64, 20, l2=1e-5)
trajectory("trajectory_adam", Optimizer("Adam", .001), 64, 20)
trajectory("trajectory_sgd_2_workers", Optimizer("SGD", .01), 64, 20, workers=2)
trajectory("trajectory_rmsprop_l2_3_workers", Optimizer("RMSprop", .001), 32, 20, l2=1e-5, workers=3)

# whole models ---------------------------------------------------------------------------------
SAMPLE = 53  # one in SAMPLE of a variable's final values is kept

def hashed(seed, shape, limit):
    """float32 in [-limit, limit), element i from SplitMix64's finaliser of (seed << 32) + i; exact in any language."""
    v = (np.uint64(seed) << np.uint64(32)) + np.arange(int(np.prod(shape)), dtype=np.uint64)
    v = (v ^ (v >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    v = v ^ (v >> np.uint64(31))
    unit = (v >> np.uint64(40)).astype("f4") * np.float32(2. ** -23) - np.float32(1)
    return torch.tensor((unit * np.float32(limit)).reshape(shape)).double()

def avg_pool(x):
    return F.avg_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)

def batch_norm(h, ps, path, momentum, epsilon=1e-3):
    """Over the last axis, as Keras: the moving variance takes the biased one; while gradients are computed, of the batch."""
    mean, variance = ps[path + "/moving_mean"], ps[path + "/moving_variance"]
    of_batch = torch.is_grad_enabled()
    y = F.batch_norm(h.movedim(-1, 1), None if of_batch else mean, None if of_batch else variance, ps[path + "/gamma"],
                     ps[path + "/beta"], training=of_batch, eps=epsilon).movedim(1, -1)
    if of_batch:
        rows = h.detach().flatten(0, -2)
        mean.mul_(momentum).add_((1 - momentum) * rows.mean(0))
        variance.mul_(momentum).add_((1 - momentum) * rows.var(0, unbiased=False))
    return y

def fit_case(name, layers, opt, batch, examples, epochs, validation_batch):
    """layers: (Keras class, its config) from the Reshape to (28, 28, 1) on; Conv2D with stride 1."""
    ps, init, run, counts, shape = {}, {}, [], {}, (28, 28, 1)
    for kind, config in layers:
        n = counts[kind] = counts.get(kind, -1) + 1
        path = ("batch_normalization" if kind == "BatchNormalization" else kind.lower()) + (f"_{n}" if n else "")
        act = ACT[config.get("activation", "linear")]
        if kind in ("Conv2D", "Dense"):
            if kind == "Dense":
                kernel, out = (shape[0], config["units"]), (config["units"],)
                apply = lambda h, k, b: h @ k + b
            else:
                (kh, kw), pad = config["kernel_size"], config["padding"]
                kernel = (kh, kw, shape[2], config["filters"])
                out = tuple(shape[:2]) if pad == "same" else (shape[0] - kh + 1, shape[1] - kw + 1)
                out += (config["filters"],)
                apply = lambda h, k, b, pad=pad: conv2d(h, k, b, 1, pad)
            field = int(np.prod(kernel[:-2]))
            limit = float(np.float32((6. / (field * (kernel[-2] + kernel[-1]))) ** .5))
            for part, dims, most in (("kernel", kernel, limit), ("bias", kernel[-1:], .05)):
                init[f"{path}/{part}"] = [len(init) + 1, most]
                ps[f"{path}/{part}"] = hashed(len(init), dims, most)
            run.append(lambda h, apply=apply, act=act, path=path: act(apply(h, ps[path + "/kernel"], ps[path + "/bias"])))
        elif kind == "BatchNormalization":
            out = shape
            for part, most, base in (("gamma", .1, 1), ("beta", .05, 0), ("moving_mean", .05, 0), ("moving_variance", .1, 1)):
                init[f"{path}/{part}"] = [len(init) + 1, most, base]
                ps[f"{path}/{part}"] = base + hashed(len(init), shape[-1:], most)
            run.append(lambda h, path=path, momentum=config["momentum"]: batch_norm(h, ps, path, momentum))
        elif kind == "Activation":
            out = shape; run.append(act)
        elif kind == "AveragePooling2D":
            out = (shape[0] // 2, shape[1] // 2, shape[2]); run.append(avg_pool)
        else:
            out = (int(np.prod(shape)),); run.append(lambda h: h.flatten(1))
        shape = out
    trained = {k: p.requires_grad_() for k, p in ps.items() if "/moving_" not in k}
    def forward(x):
        for f in run: x = f(x)
        return x
    right = lambda out, y: (out.argmax(1) == y).double()
    x, y = images("train", examples); losses, accs = [], []
    for _ in range(epochs):
        for i in range(0, examples, batch):
            out = forward(x[i:i + batch, ..., None])
            loss = F.cross_entropy(out, y[i:i + batch]); loss.backward(); opt.step(trained)
            losses.append(loss.item()); accs.append(right(out, y[i:i + batch]).mean().item())
    x, y = images("t10k", 400)
    with torch.no_grad():
        out = forward(x[..., None]); val = [F.cross_entropy(out, y).item(), right(out, y).mean().item()]
    keras = [("InputLayer", {"batch_shape": [None, 28, 28]}), ("Reshape", {"target_shape": [28, 28, 1]})] + layers
    case = {"model": {"class_name": "Sequential", "config": {"layers": [
                {"class_name": k, "config": c} for k, c in keras]}},
            "loss": "SparseCategoricalCrossentropy(from_logits=True)", "batch": batch, "examples": examples,
            "epochs": epochs, "validation_batch": validation_batch, "init": init, "sample": SAMPLE,
            "optimizer": {k: v for k, v in vars(opt).items() if k in ("kind", "lr", "momentum", "nesterov", "rho",
                          "epsilon", "beta_1", "beta_2")}}
    save(name, {"loss": np.array(losses), "accuracy": np.array(accs), "validation": np.array(val),
                **{"final/" + k: v.detach().flatten()[::SAMPLE] for k, v in ps.items()}}, case)

dense_layer = lambda units, act: ("Dense", {"units": units, "activation": act})
conv_layer = lambda filters, size, pad, act: ("Conv2D", {"filters": filters, "kernel_size": [size, size], "padding": pad,
                                                         "activation": act})
flatten, pool = ("Flatten", {}), ("AveragePooling2D", {"pool_size": [2, 2]})
fit_case("fit_dense_128", [flatten, dense_layer(128, "relu"), dense_layer(10, "linear")],
         Optimizer("SGD", .05, momentum=.9), 100, 360, 2, 256)
fit_case("fit_cnn_128", [conv_layer(4, 3, "valid", "relu"), flatten, dense_layer(128, "relu"), dense_layer(10, "linear")],
         Optimizer("SGD", .02), 128, 352, 2, 128)
fit_case("fit_lenet_5", [conv_layer(6, 5, "same", "tanh"), pool, conv_layer(16, 5, "valid", "tanh"), pool, flatten,
                         dense_layer(120, "tanh"), dense_layer(84, "tanh"), dense_layer(10, "linear")],
         Optimizer("RMSprop", .001), 100, 330, 2, 400)
# Without relu: inputs that round to the other side of its kink lead even PyTorch's float32 1e-4 away within a few steps.
norm, tanh = ("BatchNormalization", {"momentum": .9}), ("Activation", {"activation": "tanh"})
fit_case("fit_batch_norm", [conv_layer(8, 3, "same", "linear"), norm, tanh, conv_layer(8, 3, "same", "linear"), norm, tanh,
                            pool, flatten, dense_layer(16, "linear"), norm, tanh, dense_layer(10, "linear")],
         Optimizer("SGD", .01, momentum=.9), 64, 350, 17, 100)
