#!/usr/bin/env python3
"""Models of keras.applications as their to_json() writes them in Keras 3.

    keras_applications.py NAME SIZE [no_top]

NAME is MobileNetV2, ResNet50, EfficientNetB0 or MobileNetV3Small, and SIZE that
of the images. With no_top the model ends with pooling="avg". The layers follow
the papers' tables, with the names of Keras's layers.
"""
import json
import math
import re
import sys


def glorot():
    return initializer("GlorotUniform", seed=None)


def initializer(kind, **config):
    return {"module": "keras.initializers", "class_name": kind,
            "config": config, "registered_name": None}


def scaling(scale, distribution):
    return initializer("VarianceScaling", scale=scale, mode="fan_out",
                       distribution=distribution, seed=None)


def ends(kernel, strides, padding, size):
    if padding == "same":
        return -(-size // strides)
    return (size - kernel) // strides + 1


class Tensor:
    def __init__(self, name, shape):
        self.name, self.shape = name, list(shape)

    def json(self):
        return {"class_name": "__keras_tensor__", "config": {
            "shape": [None, *self.shape], "dtype": "float32",
            "keras_history": [self.name, 0, 0]}}


class Net:
    """A functional model that grows; `initial` is its kernels' initializer."""

    def __init__(self, name, size, initial=None):
        self.name, self.layers, self.used = name, [], {}
        self.initial = initial or glorot()
        self.x = Tensor(self.auto("InputLayer"), (size, size, 3))
        self.layers.append({
            "module": "keras.layers", "class_name": "InputLayer",
            "config": {"batch_shape": [None, size, size, 3], "dtype": "float32",
                       "sparse": False, "ragged": False, "name": self.x.name},
            "registered_name": None, "name": self.x.name, "inbound_nodes": []})
        self.input = self.x.name

    def auto(self, kind):
        """Keras's name of a layer without one: "re_lu_1"."""
        name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", kind)
        name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
        if kind == "InputLayer":
            name = "input_layer"
        number = self.used.get(name, 0)
        self.used[name] = number + 1
        return f"{name}_{number}" if number else name

    def add(self, kind, shape, name=None, inputs=None, **config):
        """Adds a layer to the last tensor, or to `inputs`. Returns its output tensor."""
        name = name or self.auto(kind)
        inputs = inputs or [self.x]
        args = [each.json() for each in inputs]
        self.layers.append({
            "module": "keras.layers", "class_name": kind,
            "config": {"name": name, "trainable": True, "dtype": {
                "module": "keras", "class_name": "DTypePolicy",
                "config": {"name": "float32"}, "registered_name": None},
                       **config},
            "registered_name": None,
            "build_config": {"input_shape": [None, *inputs[0].shape]},
            "name": name,
            "inbound_nodes": [{"args": args if len(args) == 1 else [args],
                               "kwargs": {}}]})
        self.x = Tensor(name, shape)
        return self.x

    def operate(self, kind, number):
        """x + number, or x * number."""
        name = self.auto(kind)
        self.layers.append({
            "module": "keras.src.ops.numpy", "class_name": kind,
            "config": {"name": name}, "registered_name": kind, "name": name,
            "inbound_nodes": [{"args": [self.x.json(), number], "kwargs": {}}]})
        self.x = Tensor(name, self.x.shape)

    def conv(self, filters, kernel, name, strides=1, padding="valid",
             use_bias=True, activation="linear"):
        height, width, _ = self.x.shape
        self.add("Conv2D", (ends(kernel, strides, padding, height),
                            ends(kernel, strides, padding, width), filters),
                 name, filters=filters, kernel_size=[kernel, kernel],
                 strides=[strides, strides], padding=padding,
                 data_format="channels_last", dilation_rate=[1, 1], groups=1,
                 activation=activation, use_bias=use_bias,
                 kernel_initializer=self.initial,
                 bias_initializer=initializer("Zeros"),
                 kernel_regularizer=None, bias_regularizer=None,
                 activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None)

    def depthwise(self, kernel, name, strides=1):
        height, width, channels = self.x.shape
        padding = "same" if strides == 1 else "valid"
        self.add("DepthwiseConv2D", (ends(kernel, strides, padding, height),
                                     ends(kernel, strides, padding, width),
                                     channels),
                 name, depth_multiplier=1, kernel_size=[kernel, kernel],
                 strides=[strides, strides], padding=padding,
                 data_format="channels_last", dilation_rate=[1, 1],
                 activation="linear", use_bias=False,
                 depthwise_initializer=self.initial,
                 bias_initializer=initializer("Zeros"),
                 depthwise_regularizer=None, bias_regularizer=None,
                 activity_regularizer=None, depthwise_constraint=None,
                 bias_constraint=None)

    def norm(self, name, momentum=0.99, epsilon=0.001, axis=-1):
        self.add("BatchNormalization", self.x.shape, name, axis=axis,
                 momentum=momentum, epsilon=epsilon, center=True, scale=True,
                 beta_initializer=initializer("Zeros"),
                 gamma_initializer=initializer("Ones"),
                 moving_mean_initializer=initializer("Zeros"),
                 moving_variance_initializer=initializer("Ones"),
                 beta_regularizer=None, gamma_regularizer=None,
                 beta_constraint=None, gamma_constraint=None,
                 synchronized=False)

    def relu(self, name=None, most=None):
        self.add("ReLU", self.x.shape, name, max_value=most, negative_slope=0.0,
                 threshold=0.0)

    def activate(self, function, name=None):
        self.add("Activation", self.x.shape, name, activation=function)

    def pad(self, borders, name):
        height, width, channels = self.x.shape
        (top, bottom), (left, right) = borders
        self.add("ZeroPadding2D", (height + top + bottom, width + left + right,
                                   channels), name, padding=borders,
                 data_format="channels_last")

    def pad_for(self, kernel, name):
        """Before a convolution of stride 2, as TensorFlow pads "same"."""
        half = kernel // 2
        self.pad([[half - (1 - size % 2), half] for size in self.x.shape[:2]],
                 name)

    def mean(self, name=None, keepdims=False):
        channels = self.x.shape[2]
        self.add("GlobalAveragePooling2D",
                 (1, 1, channels) if keepdims else (channels,), name,
                 data_format="channels_last", keepdims=keepdims)

    def merge(self, kind, name, a, b):
        self.add(kind, a.shape, name, [a, b])

    def dropout(self, rate, name=None, noise_shape=None):
        self.add("Dropout", self.x.shape, name, rate=rate, seed=None,
                 noise_shape=noise_shape)

    def rescale(self, scale, offset=0.0):
        self.add("Rescaling", self.x.shape, scale=scale, offset=offset)

    def classify(self, initial=None):
        self.add("Dense", (1000,), "predictions", units=1000,
                 activation="softmax", use_bias=True,
                 kernel_initializer=initial or glorot(),
                 bias_initializer=initializer("Zeros"), kernel_regularizer=None,
                 bias_regularizer=None, kernel_constraint=None,
                 bias_constraint=None)

    def json(self):
        return {"module": "keras.src.models.functional",
                "class_name": "Functional",
                "config": {"name": self.name, "trainable": True,
                           "layers": self.layers,
                           "input_layers": [[self.input, 0, 0]],
                           "output_layers": [[self.x.name, 0, 0]]},
                "registered_name": "Functional",
                "build_config": {"input_shape": None}}


def mobilenet_v2(size, top):
    """Sandler et al. (2018), table 2, alpha 1."""
    net = Net(f"mobilenetv2_1.00_{size}", size)

    def norm(name):
        net.norm(name, 0.999)

    net.conv(32, 3, "Conv1", 2, "same", use_bias=False)
    norm("bn_Conv1")
    net.relu("Conv1_relu", 6.0)
    block = 0
    for expansion, filters, repeats, strides in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
            (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for repeat in range(repeats):
            step = strides if repeat == 0 else 1
            begin = net.x
            name = f"block_{block}_" if block else "expanded_conv_"
            if block:
                net.conv(expansion * begin.shape[2], 1, name + "expand",
                         padding="same", use_bias=False)
                norm(name + "expand_BN")
                net.relu(name + "expand_relu", 6.0)
            if step == 2:
                net.pad_for(3, name + "pad")
            net.depthwise(3, name + "depthwise", step)
            norm(name + "depthwise_BN")
            net.relu(name + "depthwise_relu", 6.0)
            net.conv(filters, 1, name + "project", padding="same",
                     use_bias=False)
            norm(name + "project_BN")
            if step == 1 and begin.shape[2] == filters:
                net.merge("Add", name + "add", begin, net.x)
            block += 1
    net.conv(1280, 1, "Conv_1", use_bias=False)
    norm("Conv_1_bn")
    net.relu("out_relu", 6.0)
    net.mean()
    if top:
        net.classify()
    return net


def resnet50(size, top):
    """He et al. (2015), table 1."""
    net = Net("resnet50", size)

    def norm(name):
        net.norm(name, epsilon=1.001e-05, axis=3)

    net.pad([[3, 3], [3, 3]], "conv1_pad")
    net.conv(64, 7, "conv1_conv", 2)
    norm("conv1_bn")
    net.activate("relu", "conv1_relu")
    net.pad([[1, 1], [1, 1]], "pool1_pad")
    height, width, channels = net.x.shape
    net.add("MaxPooling2D", (ends(3, 2, "valid", height),
                             ends(3, 2, "valid", width), channels),
            "pool1_pool", pool_size=[3, 3], padding="valid", strides=[2, 2],
            data_format="channels_last")
    for stack, (filters, blocks) in enumerate(
            ((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for block in range(1, blocks + 1):
            name = f"conv{stack}_block{block}_"
            strides = 2 if block == 1 and stack > 2 else 1
            begin = shortcut = net.x
            if block == 1:
                net.conv(4 * filters, 1, name + "0_conv", strides)
                norm(name + "0_bn")
                shortcut, net.x = net.x, begin
            net.conv(filters, 1, name + "1_conv", strides)
            norm(name + "1_bn")
            net.activate("relu", name + "1_relu")
            net.conv(filters, 3, name + "2_conv", padding="same")
            norm(name + "2_bn")
            net.activate("relu", name + "2_relu")
            net.conv(4 * filters, 1, name + "3_conv")
            norm(name + "3_bn")
            net.merge("Add", name + "add", shortcut, net.x)
            net.activate("relu", name + "out")
    net.mean("avg_pool")
    if top:
        net.classify()
    return net


def efficientnet_b0(size, top):
    """Tan and Le (2019), table 1, with the layers for ImageNet's weights."""
    net = Net("efficientnetb0", size, scaling(2.0, "truncated_normal"))

    def norm(name):
        net.norm(name, axis=3)

    net.rescale(1 / 255.0)
    net.add("Normalization", net.x.shape, axis=[3], invert=False, mean=None,
            variance=None)
    net.rescale([1 / math.sqrt(each) for each in (0.229, 0.224, 0.225)])
    net.pad_for(3, "stem_conv_pad")
    net.conv(32, 3, "stem_conv", 2, use_bias=False)
    norm("stem_bn")
    net.activate("silu", "stem_activation")
    number = 0
    for stage, (kernel, repeats, filters, expansion, strides) in enumerate((
            (3, 1, 16, 1, 1), (3, 2, 24, 6, 2), (5, 2, 40, 6, 2),
            (3, 3, 80, 6, 2), (5, 3, 112, 6, 1), (5, 4, 192, 6, 2),
            (3, 1, 320, 6, 1)), 1):
        for repeat in range(repeats):
            name = f"block{stage}{chr(ord('a') + repeat)}_"
            step = strides if repeat == 0 else 1
            begin = net.x
            inputs = begin.shape[2]
            if expansion > 1:
                net.conv(inputs * expansion, 1, name + "expand_conv",
                         padding="same", use_bias=False)
                norm(name + "expand_bn")
                net.activate("silu", name + "expand_activation")
            if step == 2:
                net.pad_for(kernel, name + "dwconv_pad")
            net.depthwise(kernel, name + "dwconv", step)
            norm(name + "bn")
            net.activate("silu", name + "activation")
            wide = net.x
            channels = wide.shape[2]
            net.mean(name + "se_squeeze")
            net.add("Reshape", (1, 1, channels), name + "se_reshape",
                    target_shape=[1, 1, channels])
            net.conv(max(1, inputs // 4), 1, name + "se_reduce",
                     padding="same", activation="silu")
            net.conv(channels, 1, name + "se_expand", padding="same",
                     activation="sigmoid")
            net.merge("Multiply", name + "se_excite", wide, net.x)
            net.conv(filters, 1, name + "project_conv", padding="same",
                     use_bias=False)
            norm(name + "project_bn")
            if step == 1 and inputs == filters:
                if number > 0:
                    net.dropout(0.2 * number / 16, name + "drop",
                                [None, 1, 1, 1])
                net.merge("Add", name + "add", net.x, begin)
            number += 1
    net.conv(1280, 1, "top_conv", padding="same", use_bias=False)
    norm("top_bn")
    net.activate("silu", "top_activation")
    net.mean("avg_pool")
    if top:
        net.dropout(0.2, "top_dropout")
        net.classify(scaling(1 / 3, "uniform"))
    return net


def depth(channels):
    """The next multiple of 8 that is not 10 % less."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def mobilenet_v3_small(size, top):
    """Howard et al. (2019), table 2."""
    net = Net("MobileNetV3Small", size)

    def norm(name):
        net.norm(name, 0.999)

    def act(hard):
        net.activate("hard_silu") if hard else net.relu()

    net.rescale(1 / 127.5, -1.0)
    net.conv(16, 3, "conv", 2, "same", use_bias=False)
    norm("conv_bn")
    act(hard=True)
    for block, (kernel, wide, filters, squeezes, hard, strides) in enumerate((
            (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2),
            (3, 88, 24, False, False, 1), (5, 96, 40, True, True, 2),
            (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
            (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1),
            (5, 288, 96, True, True, 2), (5, 576, 96, True, True, 1),
            (5, 576, 96, True, True, 1))):
        name = f"expanded_conv_{block}_" if block else "expanded_conv_"
        begin = net.x
        if block:
            net.conv(wide, 1, name + "expand", padding="same", use_bias=False)
            norm(name + "expand_bn")
            act(hard)
        if strides == 2:
            net.pad_for(kernel, name + "depthwise_pad")
        net.depthwise(kernel, name + "depthwise", strides)
        norm(name + "depthwise_bn")
        act(hard)
        if squeezes:
            name += "squeeze_excite_"
            excited = net.x
            net.mean(name + "avg_pool", keepdims=True)
            net.conv(depth(wide / 4), 1, name + "conv", padding="same")
            net.relu(name + "relu")
            net.conv(wide, 1, name + "conv_1", padding="same")
            net.operate("Add", 3.0)
            net.relu(most=6.0)
            net.operate("Multiply", 1 / 6)
            net.merge("Multiply", name + "mul", excited, net.x)
            name = name[:-len("squeeze_excite_")]
        net.conv(filters, 1, name + "project", padding="same", use_bias=False)
        norm(name + "project_bn")
        if strides == 1 and begin.shape[2] == filters:
            net.merge("Add", name + "add", begin, net.x)
    net.conv(576, 1, "conv_1", padding="same", use_bias=False)
    norm("conv_1_bn")
    act(hard=True)
    if not top:
        net.mean("avg_pool")
        return net
    net.mean(keepdims=True)
    net.conv(1024, 1, "conv_2", padding="same")
    act(hard=True)
    net.dropout(0.2)
    net.conv(1000, 1, "logits", padding="same")
    net.add("Flatten", (1000,), data_format="channels_last")
    net.activate("softmax", "predictions")
    return net


MODELS = {"MobileNetV2": mobilenet_v2, "ResNet50": resnet50,
          "EfficientNetB0": efficientnet_b0,
          "MobileNetV3Small": mobilenet_v3_small}

if __name__ == "__main__":
    print(json.dumps(MODELS[sys.argv[1]](int(sys.argv[2]),
                                         top="no_top" not in sys.argv).json()))
