// Layers with numbers at the ends of their fields' ranges, beyond them, and
// that are no numbers.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "../../support/contains.h"
#include "core/layers/layer_table.h"
#include "io/keras/keras_json.h"
#include "io/keras/layer_json.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// Gives a field a number. False if the field has none.
struct SetNumber {
  float number;
  Layer* layer;
  bool operator()(float Layer::*member) const {
    layer->*member = number;
    return true;
  }
  bool operator()(std::vector<float> Layer::*member) const {
    layer->*member = {number};
    return true;
  }
  bool operator()(FloatRange Layer::*member) const {
    layer->*member = {0, number};
    return true;
  }
  bool operator()(Initializer Layer::*member) const {
    layer->*member = RandomNormal(0, number);
    return true;
  }
  template <typename Other>
  bool operator()(const Other&) const {
    return false;
  }
};

Status ReadAgain(const Layer& layer) {
  JsonWriter w;
  WriteKerasObject(&w, ModuleOfClass(layer), ClassName(layer),
                   [&] { WriteConfig(&w, layer); });
  Json json;
  RINGLET_RETURN_IF_ERROR(Json::Parse(w.text(), "", &json));
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, "", &object));
  LayerEntry entry;
  return ReadLayer(json, object, &entry);
}

TEST(LayerNumbersTest, Field_AnyNumberThatItTakes_IsReadAgain) {
  int taken = 0, refused = 0;
  for (const LayerClass& row : AllLayers()) {
    if (row.make == nullptr || row.kind == Layer::Kind::kInput) continue;
    for (const LayerField& field : row.fields) {
      if (!field.written || field.in_call) continue;
      for (const float number : {NAN, INFINITY, -INFINITY, 1e38f, -1e38f, 2.0f,
                                 1.0f, 0.5f, 0.0f, -0.5f, -1.0f, -2.0f}) {
        Layer layer = row.make().Name("it");
        if (!std::visit(SetNumber{number, &layer}, field.value)) continue;
        SCOPED_TRACE(std::string(row.name) + " " + field.name + " " +
                     std::to_string(number));
        const Status made = CheckNumbers(layer);
        if (made.ok()) {
          EXPECT_EQ(std::string(ReadAgain(layer).message()), "");
        } else {
          EXPECT_TRUE(Contains(made.message(), field.name));
        }
        EXPECT_FALSE(std::isnan(number) && made.ok());
        ++(made.ok() ? taken : refused);
      }
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(refused, 400);
}

TEST(LayerNumbersTest, Layer_WrongNumber_IsNamedAsItIsMade) {
  const auto error = [](const Layer& layer) {
    return std::string(
        Sequential({Input({4, 4, 1}), layer}).status().message());
  };
  EXPECT_TRUE(
      Contains(error(ELU(INFINITY)), "alpha must be a finite number, not inf"));
  EXPECT_TRUE(Contains(error(RandomZoom(0.5f).FillValue(NAN)),
                       "fill_value must be a finite number, not nan"));
  EXPECT_TRUE(Contains(error(Resizing(2, 2).FillValue(INFINITY)),
                       "fill_value must be a finite number, not inf"));
  EXPECT_TRUE(Contains(error(Dense(1).KernelInitializer(Constant(NAN))),
                       "kernel_initializer must have finite numbers"));
  EXPECT_TRUE(Contains(error(TimeDistributed(ELU(-1))), "alpha must be"));
  EXPECT_EQ(error(ReLU(INFINITY)), "");
}

}  // namespace
}  // namespace ringlet
