#include "core/layers/layer_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "../../support/contains.h"
#include "core/model/fingerprint.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

TEST(LayerTableTest, Row_Factory_MakesItsKindAndNamesAreUnique) {
  std::set<std::string> names;
  for (const LayerClass& row : AllLayers()) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second);
    if (row.make == nullptr) continue;
    EXPECT_EQ(row.make().kind, row.kind);
    std::set<std::string> fields;
    for (const LayerField& field : row.fields) {
      EXPECT_TRUE(fields.insert(field.name).second) << field.name;
    }
  }
}

TEST(LayerTableTest, Setter_OfAnotherLayer_IsNamedAsInKeras) {
  const auto error = [](const Layer& layer) {
    Sequential model({Input({8, 8, 1}), layer});
    return std::string(model.status().message());
  };
  EXPECT_TRUE(Contains(error(Flatten().Seed(1)), "Flatten has no seed"));
  EXPECT_TRUE(Contains(error(Dense(1).Strides(2)), "Dense has no strides"));
  EXPECT_TRUE(Contains(error(MaxPooling2D().UseBias(false)),
                       "MaxPooling2D has no use_bias"));
  EXPECT_EQ(error(Conv2D(1, 3).Padding(kSame).Strides(2).UseBias(false)), "");
}

// Ranks of one job compare these.
TEST(LayerTableTest, Fingerprint_AnySetting_ChangesIfNumbersDo) {
  const auto text = [](const Layer& layer) {
    return DescribeLayer(layer, {0}, {2, 3});
  };
  EXPECT_EQ(text(Conv2D(4, 3, 2, kRelu)
                     .Name("c")
                     .Strides(2, 1)
                     .Padding(kSame)
                     .UseBias(false)
                     .KernelRegularizer(L2(0.5f))
                     .BiasRegularizer(L1L2(0.25f, 1e-5f))
                     .KernelConstraint(MinMaxNorm(0.5f, 2, 1, {0, 1}))
                     .BiasConstraint(NonNeg())),
            "Conv2D 'c' giving (2, 3) from layer 0, window 3x2, strides 2x1, "
            "padding same, activation relu, without bias, kernel_regularizer "
            "l1 0 l2 0.5, bias_regularizer l1 0.25 l2 1e-05, "
            "kernel_constraint MinMaxNorm min 0.5 rate 1 max 2 axis 0 1, "
            "bias_constraint NonNeg");
  EXPECT_EQ(text(AveragePooling2D(2).Name("p")),
            "AveragePooling2D 'p' giving (2, 3) from layer 0, window 2x2, "
            "strides 2x2, padding valid");
  EXPECT_EQ(text(Dropout(0.3f).Name("d").Seed(7)),
            "Dropout 'd' giving (2, 3) from layer 0, rate 0.3, seed 7");
  EXPECT_EQ(text(Softmax().Name("s")),
            "Activation 's' giving (2, 3) from layer 0, activation softmax");
  EXPECT_EQ(text(Dense(3).Name("l")), "Dense 'l' giving (2, 3) from layer 0");
  EXPECT_EQ(text(LSTM(3).Name("l").GoBackwards(true).Dropout(0.5f)),
            "LSTM 'l' giving (2, 3) from layer 0, last state only, activation "
            "tanh, recurrent_activation sigmoid, dropout 0.5, seed 0");
  EXPECT_EQ(text(TimeDistributed(Dropout(0.5f).Name("d")).Name("t")),
            "TimeDistributed 't' giving (2, 3) from layer 0, layer Dropout 'd' "
            "giving (), rate 0.5, seed 0");
}

}  // namespace
}  // namespace ringlet
