// Compiled: a compiled model of some layers. Arrays: an npz for its weights.

#ifndef RINGLET_TESTS_IO_WEIGHTS_NPZ_ARRAYS_H_
#define RINGLET_TESTS_IO_WEIGHTS_NPZ_ARRAYS_H_

#include <initializer_list>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "io/readers/arrays/npz.h"
#include "ringlet/model.h"

namespace ringlet {

inline std::unique_ptr<Model> Compiled(std::initializer_list<Layer> layers) {
  auto model = std::make_unique<Sequential>(layers);
  model->Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_OK(model->status());
  return model;
}

// Writes an npz with these arrays, each of 0, 1, 2 and so on.
inline std::string Arrays(
    const TempFolder& folder,
    const std::vector<std::pair<std::string, Shape>>& arrays) {
  const std::string path = folder / "w.npz";
  NpzWriter writer;
  EXPECT_OK(writer.Open(PosixFiles(), path));
  for (const auto& [name, shape] : arrays) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    std::iota(values.begin(), values.end(), 0.f);
    EXPECT_OK(writer.Add(name, DType::kFloat32, shape, values.data()));
  }
  EXPECT_OK(writer.Finish());
  return path;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_WEIGHTS_NPZ_ARRAYS_H_
