#include "ringlet/shape.h"

#include <cstring>

#include "byte_order.h"
#include "collective_numbers.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace {

// Smaller spans are sent together: there are many of them, and each broadcast
// takes a round of all ranks.
constexpr size_t kSmall = 4096;

// The bytes of all small spans, in sequence and in little-endian order.
class Packed {
 public:
  explicit Packed(const std::vector<StateSpan>& spans) {
    size_t bytes = 0;
    for (const StateSpan& span : spans) {
      if (span.bytes() == 0 || span.bytes() >= kSmall) continue;
      small_.push_back(&span);
      bytes += span.bytes();
    }
    bytes_.resize(bytes);
  }
  Status Broadcast(Collective* collective, int root) {
    if (bytes_.empty() || collective->size() == 1) return Status();
    if (collective->rank() == root) Copy(/*out=*/false);
    RINGLET_RETURN_IF_ERROR(
        collective->Broadcast(bytes_.data(), bytes_.size(), root));
    if (collective->rank() != root) Copy(/*out=*/true);
    return Status();
  }

 private:
  void Copy(bool out) {
    unsigned char* at = bytes_.data();
    for (const StateSpan* span : small_) {
      void* const to = out ? span->data : at;
      std::memcpy(to, out ? at : span->data, span->bytes());
      SwapToLittle(to, SizeOf(span->dtype),
                   static_cast<size_t>(span->shape.elements()));
      at += span->bytes();
    }
  }

  std::vector<const StateSpan*> small_;
  std::vector<unsigned char> bytes_;
};

}  // namespace

Status BroadcastState(Collective* collective,
                      const std::vector<Saveable*>& state, int root) {
  std::vector<StateSpan> spans;
  for (Saveable* part : state) part->AppendState(&spans);
  for (const StateSpan& span : spans) {
    if (span.bytes() < kSmall) continue;
    RINGLET_RETURN_IF_ERROR(
        BroadcastNumbers(collective, span.data, SizeOf(span.dtype),
                         static_cast<size_t>(span.shape.elements()), root));
  }
  RINGLET_RETURN_IF_ERROR(Packed(spans).Broadcast(collective, root));
  if (collective->rank() == root) return Status();
  for (Saveable* part : state) {
    RINGLET_RETURN_IF_ERROR(part->StateLoaded());
  }
  return Status();
}

}  // namespace ringlet
