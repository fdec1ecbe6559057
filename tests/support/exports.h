// Helpers of the tests of exported models.

#ifndef RINGLET_TESTS_SUPPORT_EXPORTS_H_
#define RINGLET_TESTS_SUPPORT_EXPORTS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "contains.h"
#include "core/layers/layer_table.h"
#include "expect_ok.h"
#include "ringlet/model.h"
#include "temp_folder.h"

namespace ringlet {

// Weights that are the same on every machine.
inline void CompileOne(Model* model) {
  model->Compile(SGD(), MeanSquaredError());
  ASSERT_OK(model->status());
  for (int64_t i = 0; i < model->num_weights(); ++i) {
    model->weights()[i] = static_cast<float>(i % 97 - 48) / 64;
  }
}

// Returns the bytes that save(path) writes.
template <typename Save>
std::string Exported(const Save& save) {
  TempFolder folder;
  const Status status = save(folder / "m");
  EXPECT_OK(status);
  return status.ok() ? ReadWhole(folder / "m") : "";
}

// Expects that save(path) fails with a message that has all of `message_parts`,
// and keeps an existing file.
template <typename Save>
void ExpectRefused(const Save& save,
                   const std::vector<std::string>& message_parts) {
  TempFolder folder;
  const std::string before = "/* A model that may be replaced */";
  WriteWhole(folder / "m", before);
  const Status status = save(folder / "m");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  const std::string message = status.message();
  EXPECT_EQ(message.find(folder / "m: "), 0u) << message;
  for (const std::string& text : message_parts) {
    EXPECT_TRUE(Contains(message, text));
  }
  EXPECT_EQ(ReadWhole(folder / "m"), before);
}

// Expects that save(model, path) exports each class of layer, in a model of its
// own, or names it in the error. Returns how many are exported.
template <typename Save>
int ExportEveryLayer(const Save& save) {
  int exported = 0;
  for (const LayerClass& row : AllLayers()) {
    if (row.make == nullptr || row.inputs == LayerInputs::kNone) continue;
    SCOPED_TRACE(row.name);
    Layer layer = row.make().Name("it");
    if (layer.kind == Layer::Kind::kReshape) layer.shape = {-1, 4};
    if (layer.kind == Layer::Kind::kPermute) layer.shape = {3, 1, 2};
    if (layer.kind == Layer::Kind::kNormalization) {
      layer.means = layer.variances = {1};
    }
    Functional model;
    const auto x =
        model.Add(Input(row.axes == 1 ? Shape{8, 4} : Shape{8, 6, 4}));
    if (row.inputs == LayerInputs::kList || row.inputs == LayerInputs::kQuery) {
      model.Add(layer, {x, model.Add(ActivationLayer(kTanh), {x})});
    } else {
      model.Add(layer, {x});
    }
    model.Compile(SGD(), MeanSquaredError());
    if (!model.status().ok()) continue;
    TempFolder folder;
    const Status status = save(&model, folder / "m");
    exported += status.ok();
    if (status.ok()) continue;
    EXPECT_TRUE(Contains(status, "layer 'it' is a " + std::string(row.name)));
  }
  return exported;
}

// Returns a text without the version in it.
inline std::string WithoutVersion(std::string file) {
  const size_t at = file.find(RINGLET_VERSION);
  EXPECT_NE(at, std::string::npos);
  if (at != std::string::npos) file.erase(at, strlen(RINGLET_VERSION));
  return file;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_EXPORTS_H_
