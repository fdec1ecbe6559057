// ExpectSameModel: all that the JSON of two models has is equal.

#ifndef RINGLET_TESTS_IO_KERAS_SAME_MODELS_H_
#define RINGLET_TESTS_IO_KERAS_SAME_MODELS_H_

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "core/layers/layer_kind.h"
#include "core/layers/layer_settings.h"

namespace ringlet {

inline bool Same(const Initializer& a, const Initializer& b) {
  return a.kind == b.kind && a.a == b.a && a.b == b.b && a.mode == b.mode &&
         a.distribution == b.distribution;
}

inline void ExpectSameLayer(const Layer& a, const Layer& b) {
  SCOPED_TRACE(a.name);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.kind == Layer::Kind::kInput || a.trainable,
            a.kind == Layer::Kind::kInput || b.trainable);
  EXPECT_EQ(a.keepdims, b.keepdims);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.units, b.units);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(a.window[i], b.window[i]);
    EXPECT_EQ(a.strides[i], b.strides[i]);
  }
  EXPECT_EQ(a.padding, b.padding);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.use_bias, b.use_bias);
  EXPECT_TRUE(Same(a.kernel_initializer, b.kernel_initializer));
  EXPECT_TRUE(Same(a.bias_initializer, b.bias_initializer));
  EXPECT_EQ(a.kernel_regularizer.l1, b.kernel_regularizer.l1);
  EXPECT_EQ(a.kernel_regularizer.l2, b.kernel_regularizer.l2);
  EXPECT_EQ(a.bias_regularizer.l1, b.bias_regularizer.l1);
  EXPECT_EQ(a.bias_regularizer.l2, b.bias_regularizer.l2);
  EXPECT_EQ(a.rate, b.rate);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.noise_shape, b.noise_shape);
  EXPECT_EQ(a.settings[kSetSeed], b.settings[kSetSeed]);
  EXPECT_EQ(a.momentum, b.momentum);
  EXPECT_EQ(a.epsilon, b.epsilon);
  EXPECT_EQ(a.center, b.center);
  EXPECT_EQ(a.scale, b.scale);
  EXPECT_EQ(a.synchronized, b.synchronized);
  EXPECT_TRUE(Same(a.gamma_initializer, b.gamma_initializer));
  EXPECT_TRUE(Same(a.beta_initializer, b.beta_initializer));
  EXPECT_TRUE(Same(a.moving_mean_initializer, b.moving_mean_initializer));
  EXPECT_TRUE(
      Same(a.moving_variance_initializer, b.moving_variance_initializer));
  EXPECT_EQ(a.gamma_regularizer.l2, b.gamma_regularizer.l2);
  EXPECT_EQ(a.scales, b.scales);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.means, b.means);
  EXPECT_EQ(a.variances, b.variances);
  EXPECT_EQ(a.invert, b.invert);
  EXPECT_EQ(a.axes, b.axes);
  EXPECT_EQ(a.beta_regularizer.l1, b.beta_regularizer.l1);
}

inline void ExpectSameModel(const Model& a, const Model& b) {
  EXPECT_STREQ(a.class_name(), b.class_name());
  EXPECT_EQ(a.name(), b.name());
  EXPECT_EQ(a.Summary(), b.Summary());
  ASSERT_EQ(a.num_nodes(), b.num_nodes());
  for (int i = 0; i < a.num_nodes(); ++i) {
    ExpectSameLayer(a.layer(i), b.layer(i));
    EXPECT_EQ(a.inputs(i), b.inputs(i));
    EXPECT_EQ(a.output_shape(i), b.output_shape(i));
  }
  ASSERT_EQ(a.variables().size(), b.variables().size());
  for (size_t i = 0; i < a.variables().size(); ++i) {
    EXPECT_EQ(a.variables()[i].path, b.variables()[i].path);
    EXPECT_EQ(a.variables()[i].shape, b.variables()[i].shape);
    EXPECT_EQ(a.variables()[i].offset, b.variables()[i].offset);
  }
  EXPECT_EQ(ToJson(a), ToJson(b));
}

// Models built alike, compiled alike, start with the same weights.
inline void ExpectSameWeights(Model* a, Model* b) {
  for (Model* model : {a, b}) {
    model->Compile(SGD(), MeanSquaredError());
    ASSERT_OK(model->status());
  }
  ASSERT_EQ(a->num_weights(), b->num_weights());
  EXPECT_TRUE(
      std::equal(a->weights(), a->weights() + a->num_weights(), b->weights()));
}

inline void ExpectRoundTrip(const Model& model) {
  const auto again = LoadJson(ToJson(model));
  ASSERT_NE(again, nullptr);
  ExpectSameModel(model, *again);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_KERAS_SAME_MODELS_H_
