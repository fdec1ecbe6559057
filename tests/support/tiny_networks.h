// The networks of MLPerf Tiny (samples/tiny) on random examples.

#ifndef RINGLET_TESTS_SUPPORT_TINY_NETWORKS_H_
#define RINGLET_TESTS_SUPPORT_TINY_NETWORKS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "expect_ok.h"
#include "ringlet/readers.h"
#include "ringlet/shape.h"
#include "temp_folder.h"

namespace ringlet {

struct TinyNetwork {
  const char* name;
  const char* data;     // the data are in data/<data>_train_x.npy and the like
  Shape shape;          // the shape of an example
  uint8_t classes;      // 0: the examples are the targets
  int64_t batch;        // the benchmark's
  const char* weights;  // the benchmark's count
};
const TinyNetwork kTinyNetworks[] = {
    {"autoencoder", "hum", {640}, 0, 512, "269,992"},
    {"ds_cnn", "words", {49, 10, 1}, 12, 100, "24,908"},
    {"mobilenet", "images96", {96, 96, 3}, 2, 32, "221,794"},
    {"resnet8", "images32", {32, 32, 3}, 10, 32, "78,666"}};

// Writes <stem>_x.npy and <stem>_y.npy, or <stem>.npy if there are no classes.
inline void WriteTinyExamples(const TinyNetwork& network, int64_t count,
                              const std::string& stem) {
  Shape shape = {count};
  for (int i = 0; i < network.shape.rank(); ++i) shape.Append(network.shape[i]);
  const size_t values = static_cast<size_t>(shape.elements());
  std::mt19937 random(7);
  if (network.classes == 0) {
    std::vector<float> x(values);
    for (float& value : x) value = static_cast<float>(random() % 256) / 256;
    EXPECT_OK(WriteNpy(stem + ".npy", DType::kFloat32, shape, x.data()));
    return;
  }
  std::vector<uint8_t> x(values), y(static_cast<size_t>(count));
  for (uint8_t& value : x) value = static_cast<uint8_t>(random() % 256);
  for (uint8_t& label : y) {
    label = static_cast<uint8_t>(random() % network.classes);
  }
  EXPECT_OK(WriteNpy(stem + "_x.npy", DType::kUint8, shape, x.data()));
  EXPECT_OK(WriteNpy(stem + "_y.npy", DType::kUint8, {count}, y.data()));
}

// Writes the network's run.json, with `fields` more, and its data to a folder.
inline void WriteTinyRun(const TinyNetwork& network, int64_t examples,
                         const std::string& folder,
                         const std::string& fields = "") {
  const std::string data = folder + "/data/" + network.data;
  std::filesystem::create_directory(folder + "/data");
  WriteTinyExamples(network, examples, data + "_train");
  WriteTinyExamples(network, examples / 2, data + "_test");
  std::string text = ReadWhole(EnvironmentOr("RINGLET_SOURCE", ".") +
                               "/samples/tiny/" + network.name + ".json");
  const size_t at = text.find("\"fit\": {");
  ASSERT_NE(at, std::string::npos) << network.name;
  WriteWhole(folder + "/run.json", text.insert(at, fields));
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_TINY_NETWORKS_H_
