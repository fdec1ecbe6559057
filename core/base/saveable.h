// Saveable: named spans of state, to be written and read back.
//
// Public. The model, the optimizer, a running fit, callbacks and metrics are
// saveable; io writes their spans to a checkpoint and reads them back without
// knowing what they are.

#ifndef RINGLET_CORE_BASE_SAVEABLE_H_
#define RINGLET_CORE_BASE_SAVEABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shape.h"
#include "status.h"

namespace ringlet {

class Collective;

// How names of state begin; part of the checkpoints' format.
constexpr char kWeightsPrefix[] = "model/";  // "model/dense/kernel"
constexpr char kOptimizerPrefix[] = "optimizer/";
constexpr char kLearningRateName[] = "optimizer/learning_rate";
// Of exact reduction alone, which any other way of training has no use for.
constexpr char kScalesName[] = "optimizer/reduction_scales";
// Of local updates, which keep no slots of the optimizer instead.
constexpr char kOuterSlot[] = "outer_momentum";
constexpr char kOuterPrefix[] = "optimizer/outer_momentum/";
// … and what each replica has of its own: by number, then by tensor.
constexpr char kErrorPrefix[] = "optimizer/error_feedback/";
constexpr char kStartPrefix[] = "optimizer/replica_start/";

// One tensor of state. `data` points into the owner, elements() * SizeOf(dtype)
// bytes, native byte order, valid until the owner changes shape or dies.
struct StateSpan {
  std::string name;  // "model/dense/kernel", "callback/early_stopping/wait"
  DType dtype = DType::kFloat32;
  Shape shape;
  void* data = nullptr;
  bool optional = false;  // where a file lacks it, it becomes zeros
  size_t bytes() const {
    return SizeOf(dtype) * static_cast<size_t>(shape.elements());
  }
};

// How the elements of a span stand in a file, little-endian; kF16 and kBF16 are
// float32 in memory.
enum class Storage : uint8_t { kF32, kF64, kI32, kI64, kU8, kF16, kBF16 };

// What a file says of itself, beside its spans.
using Metadata = std::map<std::string, std::string>;

class Saveable {
 public:
  virtual ~Saveable() = default;
  // Appends this object's spans, in a fixed order with fixed shapes.
  virtual void AppendState(std::vector<StateSpan>* spans) = 0;
  // Called after the spans were overwritten with loaded values. Checks them
  // (they come from a file) and takes them into use.
  virtual Status StateLoaded() { return Status(); }
};

// All ranks take rank `root`'s state. They have spans of the same names and
// shapes, in the same order. After an error a rank's state may be mixed.
Status BroadcastState(Collective* collective,
                      const std::vector<Saveable*>& state, int root);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_SAVEABLE_H_
