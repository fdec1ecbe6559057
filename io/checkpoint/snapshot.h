// Snapshot: a copy of the state, which is written while training continues.

#ifndef RINGLET_IO_CHECKPOINT_SNAPSHOT_H_
#define RINGLET_IO_CHECKPOINT_SNAPSHOT_H_

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "ringlet/shape.h"

namespace ringlet {

class Snapshot final : public Saveable {
 public:
  // Copies every span of `state`. Later calls reuse the memory of the first.
  Status Take(Saveable* state) {
    std::vector<StateSpan> spans;
    state->AppendState(&spans);
    size_t bytes = 0;
    for (const StateSpan& span : spans) bytes += Aligned(span.bytes());
    if (bytes > capacity_) {
      bytes_.reset(new (std::nothrow) unsigned char[bytes]);
      capacity_ = bytes_ != nullptr ? bytes : 0;
      if (bytes_ == nullptr) {
        return ResourceExhausted("no memory for a copy of %zu bytes", bytes);
      }
    }
    size_t at = 0;
    for (StateSpan& span : spans) {
      std::memcpy(bytes_.get() + at, span.data, span.bytes());
      span.data = bytes_.get() + at;
      at += Aligned(span.bytes());
    }
    spans_ = std::move(spans);
    return Status();
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->insert(spans->end(), spans_.begin(), spans_.end());
  }

 private:
  static size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

  std::unique_ptr<unsigned char[]> bytes_;
  size_t capacity_ = 0;
  std::vector<StateSpan> spans_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_SNAPSHOT_H_
