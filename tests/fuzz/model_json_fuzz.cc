// Fuzz entry: any bytes as the configuration of a model, an optimizer, a loss
// and a metric. A configuration that is read is written and read back the same.
// A refused one gives a clear error and leaves the value unchanged.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/check.h"
#include "io/keras/compile_json.h"
#include "ringlet/checkpoint.h"

namespace {

using ringlet::Code;
using ringlet::Status;

void CheckError(const Status& status) {
  RINGLET_CHECK(status.code() == Code::kInvalidArgument);
  RINGLET_CHECK(*status.message() != '\0');
}

void CheckModel(const std::string& text) {
  std::unique_ptr<ringlet::Model> model, again;
  const Status status = ringlet::ModelFromJson(text, &model);
  RINGLET_CHECK(status.ok() == (model != nullptr));
  if (!status.ok()) return CheckError(status);
  RINGLET_CHECK(model->status().ok() && model->num_nodes() >= 2);
  const std::string json = ringlet::ToJson(*model);
  if (json.size() > size_t{1} << 20) return;
  RINGLET_CHECK(ringlet::ModelFromJson(json, &again).ok());
  RINGLET_CHECK(ringlet::ToJson(*again) == json);
  RINGLET_CHECK(again->Summary() == model->Summary());
}

template <typename T>
void Check(const std::string& text, Status (*read)(const std::string&, T*)) {
  T value, again;
  const std::string before = ringlet::ToJson(value);
  const Status status = read(text, &value);
  const std::string json = ringlet::ToJson(value);
  if (!status.ok()) {
    RINGLET_CHECK(json == before);
    return CheckError(status);
  }
  RINGLET_CHECK(read(json, &again).ok());
  RINGLET_CHECK(ringlet::ToJson(again) == json);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckModel(text);
  Check<ringlet::Optimizer>(text, ringlet::OptimizerFromJson);
  Check<ringlet::Loss>(text, ringlet::LossFromJson);
  Check<ringlet::Metric>(text, ringlet::MetricFromJson);
  return 0;
}
