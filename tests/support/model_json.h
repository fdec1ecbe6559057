// Models from Keras's JSON, whole and damaged.

#ifndef RINGLET_TESTS_SUPPORT_MODEL_JSON_H_
#define RINGLET_TESTS_SUPPORT_MODEL_JSON_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "expect_ok.h"
#include "ringlet/checkpoint.h"
#include "temp_folder.h"

namespace ringlet {

// Returns tests/keras_json/<name>.json, which Keras wrote.
inline std::string KerasJson(const std::string& name) {
  const std::string text = ReadWhole(EnvironmentOr("RINGLET_SOURCE", ".") +
                                     "/tests/keras_json/" + name + ".json");
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

inline std::unique_ptr<Model> LoadJson(const std::string& json) {
  std::unique_ptr<Model> model;
  EXPECT_OK(ModelFromJson(json, &model));
  return model;
}

// Returns the message by which ModelFromJson refuses `json`.
inline std::string JsonError(const std::string& json) {
  std::unique_ptr<Model> model;
  const Status status = ModelFromJson(json, &model);
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  return status.message();
}

// Expects that the model's JSON reads back as the same model.
inline void ExpectSameTwice(const Model& model) {
  const auto again = LoadJson(ToJson(model));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ToJson(*again), ToJson(model));
  EXPECT_EQ(again->Summary(), model.Summary());
  ASSERT_EQ(again->variables().size(), model.variables().size());
  for (size_t v = 0; v < model.variables().size(); ++v) {
    EXPECT_EQ(again->variables()[v].path, model.variables()[v].path);
    EXPECT_EQ(again->variables()[v].shape, model.variables()[v].shape);
  }
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_MODEL_JSON_H_
