"""Models of a table as Keras 3, Keras 2 and TensorFlow.js write them as JSON.

    Graph(rows, inputs)        the layers, their names, calls and shapes
    Keras3().model(name, graph), Keras2()..., TensorFlowJs()...

A row of the table is {"CLASS": {fields that are not the defaults}}, and may have:
"of", the tags of its inputs (null, and without it: the row before); "as", a tag; "with",
arguments of its call. {"again": TAG} calls that layer again. The fields of
{"Sequential": [...]} are rows. Each writer adds the fields with their defaults,
in its own spelling.
"""
import re

import keras_oracle

NORMS = {"moving_mean": "Zeros", "moving_variance": "Ones"}
INITIAL = {"kernel": "GlorotUniform", "depthwise": "GlorotUniform",
           "pointwise": "GlorotUniform", "recurrent": "Orthogonal",
           "embeddings": "RandomUniform", "bias": "Zeros", "beta": "Zeros",
           "gamma": "Ones", "alpha": "Zeros", **NORMS}
MERGES = (*keras_oracle.MERGES, "Concatenate")
WRAPPERS = ("Bidirectional", "TimeDistributed")


def settings(*weights):
    """The fields of weights."""
    fields = {f"{weight}_initializer": INITIAL[weight] for weight in weights}
    for kind in "regularizer", "constraint":
        fields.update({f"{weight}_{kind}": None for weight in weights
                       if weight not in NORMS})
    return fields


def window_fields(axes):
    ones = [1] * axes
    return {"strides": ones, "padding": "valid", "data_format": "channels_last",
            "dilation_rate": ones, "activation": "linear", "use_bias": True}


def line_and_plane():
    for axes in 1, 2:
        conv = window_fields(axes)
        full = {**conv, "groups": 1, **settings("kernel", "bias")}
        yield f"Conv{axes}D", full
        yield f"Conv{axes}DTranspose", full
        yield f"DepthwiseConv{axes}D", {
            **conv, "depth_multiplier": 1, **settings("depthwise", "bias")}
        yield f"SeparableConv{axes}D", {
            **conv, "depth_multiplier": 1,
            **settings("depthwise", "pointwise", "bias")}
        for kind in "Max", "Average":
            yield f"{kind}Pooling{axes}D", {
                "pool_size": [2] * axes, "padding": "valid", "strides": None,
                "data_format": "channels_last"}
            yield f"Global{kind}Pooling{axes}D", {
                "data_format": "channels_last", "keepdims": False}
        yield f"SpatialDropout{axes}D", {"rate": 0.5, "seed": None}
        for kind in "ZeroPadding", "Cropping":
            yield f"{kind}{axes}D", {
                "padding" if kind == "ZeroPadding" else "cropping": [1, 1]
                if axes == 1 else [[1, 1], [1, 1]],
                **({"data_format": "channels_last"} if axes == 2 else {})}
    yield "UpSampling1D", {"size": 2}
    yield "UpSampling2D", {"size": [2, 2], "data_format": "channels_last",
                           "interpolation": "nearest"}


RECURRENT = {"return_sequences": False, "return_state": False,
             "go_backwards": False, "stateful": False, "unroll": False,
             "activation": "tanh", "use_bias": True,
             **settings("kernel", "recurrent", "bias"), "dropout": 0.0,
             "recurrent_dropout": 0.0}
GATED = {**RECURRENT, "recurrent_activation": "sigmoid"}
NOISE = {"seed": None}
IMAGE = {"data_format": "channels_last"}
WARP = {"fill_mode": "reflect", "interpolation": "bilinear", "seed": None,
        "fill_value": 0.0, **IMAGE}
COLOR = {"value_range": [0, 255], "seed": None}
DEFAULTS = {
    "Dense": {"activation": "linear", "use_bias": True,
              **settings("kernel", "bias")},
    **dict(line_and_plane()),
    "Flatten": {"data_format": "channels_last"},
    "Reshape": {}, "Permute": {}, "RepeatVector": {}, "Activation": {},
    "ReLU": {"max_value": None, "negative_slope": 0.0, "threshold": 0.0},
    "LeakyReLU": {"negative_slope": 0.3}, "ELU": {"alpha": 1.0},
    "PReLU": {**settings("alpha"), "shared_axes": None},
    "Softmax": {"axis": -1},
    "Dropout": {**NOISE, "noise_shape": None}, "GaussianNoise": NOISE,
    "GaussianDropout": NOISE, "AlphaDropout": {**NOISE, "noise_shape": None},
    "RandomFlip": {"seed": None, "mode": "horizontal_and_vertical", **IMAGE},
    "RandomTranslation": WARP, "RandomRotation": WARP,
    "RandomZoom": {"width_factor": None, **WARP},
    "RandomContrast": COLOR, "RandomBrightness": COLOR,
    "RandomCrop": {"seed": None, **IMAGE}, "CenterCrop": IMAGE,
    "Resizing": {"interpolation": "bilinear", "crop_to_aspect_ratio": False,
                 "pad_to_aspect_ratio": False, "fill_mode": "constant",
                 "fill_value": 0.0, **IMAGE},
    "BatchNormalization": {
        "axis": -1, "momentum": 0.99, "epsilon": 0.001, "center": True,
        "scale": True, **settings("beta", "gamma", *NORMS)},
    "LayerNormalization": {"axis": [-1], "epsilon": 0.001, "center": True,
                           "scale": True, **settings("beta", "gamma")},
    "UnitNormalization": {"axis": -1},
    "GroupNormalization": {"groups": 32, "axis": -1, "epsilon": 0.001,
                           "center": True, "scale": True,
                           **settings("beta", "gamma")},
    "Masking": {"mask_value": 0.0}, "Dot": {"normalize": False},
    "Rescaling": {"offset": 0.0}, "Normalization": {"invert": False},
    "Embedding": {**settings("embeddings"), "activity_regularizer": None,
                  "mask_zero": False},
    "SimpleRNN": RECURRENT,
    "LSTM": {**GATED, "unit_forget_bias": True},
    "GRU": {**GATED, "reset_after": True},
    "Bidirectional": {"merge_mode": "concat"}, "TimeDistributed": {},
    "Attention": {"use_scale": False, "score_mode": "dot", "dropout": 0.0},
    "AdditiveAttention": {"use_scale": True, "dropout": 0.0},
    "MultiHeadAttention": {
        "value_dim": None, "dropout": 0.0, "use_bias": True,
        "output_shape": None, "attention_axes": [1],
        **settings("kernel", "bias"), "activity_regularizer": None},
    "PositionEmbedding": {"initializer": "GlorotUniform"},
    "Concatenate": {"axis": -1}, **{each: {} for each in keras_oracle.MERGES},
}


def snake(kind):
    """Keras's name of a layer of this class."""
    kind = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", kind)
    return re.sub("([a-z])([A-Z])", r"\1_\2", kind).lower()


class Layer:
    """A layer of a graph; `calls` are (inputs, arguments), an input (name, call,
    tensor)."""

    def __init__(self, kind, name, config):
        self.kind, self.name, self.config = kind, name, config
        self.calls, self.graph, self.shapes = [], None, []

    def input_shape(self):
        return [None, *self.shapes[0]]


class Graph:
    """`inputs`: the shape of each by its tag."""

    def __init__(self, rows, inputs, names=None):
        self.layers, self.tags, self.shapes = [], {}, {}
        self.names = {} if names is None else names
        self.inputs = []
        for tag, shape in inputs.items():
            layer = Layer("InputLayer", self.name("InputLayer", tag), {})
            layer.shapes = [tuple(shape)]
            self.inputs.append(layer)
            self.keep(layer, tag, tuple(shape))
        for row in rows:
            self.add(dict(row))
        self.output = self.last

    def name(self, kind, tag=None):
        name = tag or snake(kind)
        number = self.names.get(name, 0)
        self.names[name] = number + 1
        return f"{name}_{number}" if number else name

    def keep(self, layer, tag, shape):
        """Names the output of the layer's last call."""
        if not layer.calls:
            self.layers.append(layer)
        self.last = (layer.name, max(len(layer.calls) - 1, 0), 0)
        self.tags[tag] = self.last
        self.shapes[self.last] = shape
        one = layer
        if layer.kind == "Bidirectional":
            one = layer.config["layer"]
        states = not layer.graph and one.config.get("return_state")
        unmerged = layer.kind == "Bidirectional" and (
            layer.config.get("merge_mode", "concat") is None)
        first = 2 if unmerged else 1
        for i in range(1, first + 4 * bool(states)):
            tensor = (*self.last[:2], i)
            self.tags[f"{tag}:{i}"] = tensor
            self.shapes[tensor] = (shape if i < first else
                                   (one.config["units"],))

    def add(self, row):
        of, tag = row.pop("of", None), row.pop("as", None)
        arguments = row.pop("with", {})
        (kind, config), = row.items()
        of = [of] if isinstance(of, str) else of
        inputs = [self.tags[each] if each else self.last for each in of or [None]]
        shapes = [self.shapes[each] for each in inputs]
        if kind == "again":
            name = self.tags[config][0]
            layer = next(each for each in self.layers if each.name == name)
        else:
            layer = self.make(kind, config, shapes)
            self.layers.append(layer)
        layer.calls.append((inputs, arguments))
        self.keep(layer, tag, self.output_shape(layer, shapes))

    def make(self, kind, config, shapes):
        layer = Layer(kind, self.name(kind), config)
        if kind == "Sequential":
            layer.graph = Graph(config, {"given": shapes[0]}, self.names)
        if kind in WRAPPERS:
            (inner, fields), = config["layer"].items()
            layer.config = {**config, "layer": self.make(
                inner, fields, [shapes[0][1:]] if kind == "TimeDistributed"
                else shapes)}
        layer.shapes = shapes
        return layer

    def output_shape(self, layer, shapes):
        if layer.graph:
            return layer.graph.shapes[layer.graph.output]
        written = Keras3().config(layer)
        return tuple(int(n) for n in keras_oracle.LAYERS[layer.kind](
            written).build(shapes))


class Writer:
    """What the writers have in common."""
    missing = ()  # classes and activations that it does not have

    def knows(self, graph):
        return all(self.has(layer) for layer in graph.layers)

    def has(self, layer):
        inner = layer.config.get("layer") if not layer.graph else None
        return (layer.kind not in self.missing and
                (not layer.graph or self.knows(layer.graph)) and
                (not inner or self.has(inner)) and
                (layer.graph or layer.config.get("activation") not in
                 self.missing))

    def config(self, layer):
        fields = {**DEFAULTS[layer.kind], **layer.config}
        self.spell(layer.kind, fields)
        for key, value in fields.items():
            if key.endswith("initializer"):
                fields[key] = self.initializer(value)
            elif key.endswith(("_regularizer", "_constraint")) and value:
                (kind, config), = value.items()
                fields[key] = self.object(
                    f"keras.{key.rsplit('_', 1)[1]}s", kind, config)
            elif isinstance(value, Layer):
                fields[key] = (self.chain(value.name, value.graph)
                               if value.graph else self.layer(value))
        if "pool_size" in fields and fields["strides"] is None:
            fields["strides"] = fields["pool_size"]
        return {"name": layer.name, **self.dtype(layer), **fields}

    def spell(self, kind, fields):
        """Changes what has another name or default."""

    def initializer(self, name):
        config = {"seed": None} if name not in ("Zeros", "Ones") else {}
        if name == "Orthogonal":
            config["gain"] = 1.0
        if name == "RandomUniform":
            config.update(minval=-0.05, maxval=0.05)
        return self.object("keras.initializers", name, config)

    def entries(self, graph):
        return [self.entry(layer) for layer in graph.layers]

    def body(self, name, graph):
        """The config of a functional model."""
        ends = [[layer.name, 0, 0] for layer in graph.inputs]
        return {"name": name, "trainable": True, "layers": self.entries(graph),
                "input_layers": ends, "output_layers": [
                    [*each] for each in self.outputs(graph)]}

    @staticmethod
    def outputs(graph):
        return getattr(graph, "outputs", None) or [graph.output]


class Keras3(Writer):
    def object(self, module, kind, config):
        return {"module": module, "class_name": kind, "config": config,
                "registered_name": None}

    def dtype(self, _):
        return {"trainable": True, "dtype": self.object(
            "keras", "DTypePolicy", {"name": "float32"})}

    def spell(self, kind, fields):
        if kind == "BatchNormalization":
            fields["synchronized"] = False
        if kind in keras_oracle.recurrent_oracle.GATES:
            fields["seed"] = None
            fields.setdefault("zero_output_for_mask", False)
        if kind.endswith("Attention"):
            fields["seed"] = None
        if kind == "Bidirectional":
            inner = fields["layer"]
            for key, before, turned in (("layer", "forward_", False),
                                        ("backward_layer", "backward_", True)):
                fields[key] = Layer(inner.kind, before + inner.name, {
                    **inner.config, "go_backwards": turned,
                    "zero_output_for_mask": inner.config.get(
                        "return_sequences", False)})
                fields[key].shapes = inner.shapes

    def layer(self, layer):
        if layer.kind == "PositionEmbedding":
            return {**self.object("keras_hub.src.layers.modeling."
                                  "position_embedding", layer.kind,
                                  self.config(layer)),
                    "registered_name": "keras_hub>PositionEmbedding"}
        entry = self.object("keras.layers", layer.kind, self.config(layer))
        if layer.shapes and layer.kind not in MERGES:
            entry["build_config"] = {"input_shape": layer.input_shape()}
        return entry

    def entry(self, layer):
        if layer.kind == "InputLayer":
            entry = self.object("keras.layers", "InputLayer", {
                "batch_shape": layer.input_shape(), "dtype": "float32",
                "sparse": False, "ragged": False, "name": layer.name})
        elif layer.graph:
            entry = self.chain(layer.name, layer.graph)
        else:
            entry = self.layer(layer)
        return {**entry, "name": layer.name, "inbound_nodes": [
            self.node(layer, *call) for call in layer.calls]}

    def chain(self, name, graph):
        return self.sequential(name, graph)

    def node(self, layer, inputs, arguments):
        tensors = [{"class_name": "__keras_tensor__", "config": {
            "shape": [None, *layer.shapes[min(i, len(layer.shapes) - 1)]],
            "dtype": "float32", "keras_history": [*each]}}
                   for i, each in enumerate(inputs)]
        takes_list = layer.kind in keras_oracle.LISTS
        recurs = (*keras_oracle.recurrent_oracle.GATES, "Bidirectional")
        if layer.kind in recurs and tensors[1:]:
            arguments = {"initial_state": tensors[1:], **arguments}
            tensors = tensors[:1]
        return {"args": [tensors] if takes_list else tensors,
                "kwargs": arguments}

    def sequential(self, name, graph):
        layers = []
        for entry in self.entries(graph):
            layers.append({key: value for key, value in entry.items()
                           if key not in ("name", "inbound_nodes")})
        return {**self.object("keras", "Sequential", {
            "name": name, **self.dtype(None), "layers": layers}),
                "build_config": {"input_shape": graph.inputs[0].input_shape()}}

    def model(self, name, graph):
        return {"module": "keras.src.models.functional",
                "class_name": "Functional", "config": self.body(name, graph),
                "registered_name": "Functional",
                "build_config": {"input_shape": None}}


class Keras2(Writer):
    """tf.keras 2.8."""
    version, backend = "2.8.0", "tensorflow"
    functional = "Functional"
    missing = ("hard_sigmoid", "hard_silu")  # of Keras 3: others
    numbered = ("BatchNormalization", "LayerNormalization")  # their axis is

    of_input = {"ragged": False}

    def object(self, _, kind, config):
        return {"class_name": kind, "config": config}

    def dtype(self, _):
        return {"trainable": True, "dtype": "float32"}

    def spell(self, kind, fields):
        if kind in ("LeakyReLU", "PReLU") and "negative_slope" in fields:
            fields["alpha"] = fields.pop("negative_slope")
        if kind in keras_oracle.recurrent_oracle.GATES:
            fields["time_major"] = False
            if kind != "SimpleRNN":
                fields["implementation"] = 2
        if kind == "Embedding":
            fields.update(input_length=None)
        if kind in ("Attention", "AdditiveAttention"):
            fields["causal"] = False
        if kind.startswith(("DepthwiseConv", "SeparableConv")):
            fields["groups"] = 1
        if kind.endswith("Transpose"):
            fields.setdefault("output_padding", None)
        if kind in ("GaussianNoise", "GaussianDropout", "SpatialDropout1D",
                    "SpatialDropout2D"):
            fields.pop("seed")
        if kind.startswith("Random") or kind in ("CenterCrop", "Resizing"):
            fields.pop("data_format", None)
        if kind == "Resizing":
            for name in "pad_to_aspect_ratio", "fill_mode", "fill_value":
                fields.pop(name)
        if fields.get("activation") == "silu":
            fields["activation"] = "swish"

    def layer(self, layer):
        if layer.kind == "PositionEmbedding":
            return self.object("", "keras_nlp>PositionEmbedding",
                               self.config(layer))
        if layer.kind == "Embedding":  # of any sizes
            return self.object("", layer.kind, {
                **self.config(layer), "batch_input_shape":
                [None] * (len(layer.shapes[0]) + 1)})
        if layer.kind in self.numbered:
            return self.object("", layer.kind, {
                **self.config(layer), "axis": [len(layer.shapes[0])]})
        if layer.kind == "MultiHeadAttention":
            query, value, key = (*layer.shapes, layer.shapes[1])[:3]
            return self.object("", layer.kind, {**self.config(layer), **{
                name + "_shape": [None, *shape] for name, shape in
                (("query", query), ("key", key), ("value", value))}})
        return self.object("", layer.kind, self.config(layer))

    def entry(self, layer):
        if layer.kind == "InputLayer":
            entry = self.object("", "InputLayer", {
                "batch_input_shape": layer.input_shape(), "dtype": "float32",
                "sparse": False, **self.of_input, "name": layer.name})
        elif layer.graph:
            entry = self.chain(layer.name, layer.graph)
        else:
            entry = self.layer(layer)
        return {**entry, "name": layer.name, "inbound_nodes": [
            self.node(layer, *call) for call in layer.calls]}

    def node(self, layer, inputs, arguments):
        if layer.kind == "MultiHeadAttention":  # value and key have a name
            first, *others = [[*each] for each in inputs]
            return [[*first, {**dict(zip(("value", "key"), others)),
                              **arguments}]]
        return [[*each, arguments] for each in inputs]

    def chain(self, name, graph):
        return self.object("", "Sequential", self.sequential(name, graph))

    def sequential(self, name, graph):
        return {"name": name, "layers": [
            {key: value for key, value in entry.items()
             if key not in ("name", "inbound_nodes")}
            for entry in self.entries(graph)]}

    def model(self, name, graph):
        return {"class_name": self.functional, "config": self.body(name, graph),
                "keras_version": self.version, "backend": self.backend}


class TensorFlowJs(Keras2):
    version, backend = "tfjs-layers 4.22.0", "tensor_flow.js"
    functional = "Model"
    missing = ("Attention", "AdditiveAttention", "MultiHeadAttention", "PositionEmbedding",
               "Conv1DTranspose", "DepthwiseConv1D", "SeparableConv1D",
               "SpatialDropout2D", "ZeroPadding1D", "UpSampling1D",
               "Normalization", "Subtract", "Cropping1D", "gelu", "silu",
               "RandomFlip", "RandomTranslation", "RandomRotation",
               "RandomZoom", "RandomCrop", "RandomContrast",
               "RandomBrightness", "GroupNormalization", *Keras2.missing)
    fields = ("groups", "keepdims")  # that it does not have
    numbered, of_input = ("LayerNormalization",), {}

    def has(self, layer):
        return (super().has(layer) and
                not any(each in layer.config for each in self.fields) and
                (layer.kind != "GRU" or
                 not layer.config.get("reset_after", True)))

    def dtype(self, layer):
        return {"trainable": True}

    scalings = {"GlorotUniform": (1, "fan_avg", "uniform"),
                "HeNormal": (2, "fan_in", "normal"),
                "LecunNormal": (1, "fan_in", "normal")}

    def initializer(self, name):
        if name not in self.scalings:
            return super().initializer(name)
        return self.object("", "VarianceScaling", {
            **dict(zip(("scale", "mode", "distribution"), self.scalings[name])),
            "seed": None})

    def object(self, module, kind, config):
        if module == "keras.regularizers":
            kind, config = "L1L2", {"l1": 0, "l2": 0, **config}
        return super().object(module, kind, config)

    def spell(self, kind, fields):
        super().spell(kind, fields)
        for key in ("time_major", *self.fields):
            fields.pop(key, None)
        if kind in ("LSTM", "GRU"):
            fields["implementation"] = None
        if kind == "AlphaDropout":
            del fields["seed"], fields["noise_shape"]
        if kind == "ReLU":
            del fields["negative_slope"], fields["threshold"]
        if kind == "Embedding":
            fields["mask_zero"] = fields["mask_zero"] or None
        if kind == "Conv2DTranspose":
            del fields["output_padding"], fields["dilation_rate"]
        if kind == "SeparableConv2D":
            del fields["depth_multiplier"]
        if kind.endswith("1D"):
            fields.pop("data_format", None)
        if kind == "LayerNormalization":
            del fields["gamma_constraint"], fields["beta_constraint"]
        if any(f"{weight}_initializer" in fields for weight in
               ("kernel", "depthwise")):
            fields["activity_regularizer"] = None


def lone_layer(entry):
    """The Keras 3 text of a row whose class is in no writer's table."""
    row = dict(entry["layers"][0])
    of = row.pop("of", list(entry["inputs"]))
    (kind, config), = row.items()
    writer, graph = Keras3(), Graph([], entry["inputs"])
    layer = Layer(kind, snake(kind), {})
    layer.shapes = [graph.shapes[graph.tags[tag]] for tag in of]
    layer.calls = [([graph.tags[tag] for tag in of], {})]
    entries = [*writer.entries(graph), {
        **writer.object("keras.layers", kind, {
            "name": layer.name, **writer.dtype(layer), **config}),
        "name": layer.name,
        "inbound_nodes": [writer.node(layer, *layer.calls[0])]}]
    body = {**writer.body(entry["name"], graph), "layers": entries,
            "output_layers": [[layer.name, 0, 0]]}
    return {"module": "keras.src.models.functional", "class_name": "Functional",
            "config": body, "registered_name": "Functional"}
