#include "frame_plan.h"

#include <algorithm>
#include <cinttypes>
#include <variant>

#include "../../compute/functions.h"
#include "../layer_table.h"

namespace ringlet {
namespace {

// The limit of a length that is not a power of 2: its transform takes
// fft_length² steps.
constexpr int64_t kMaxDirectLength = 8192;

bool IsOfSound(Layer::Kind kind) {
  return kind == Layer::Kind::kMelSpectrogram || kind == Layer::Kind::kMFCC ||
         kind == Layer::Kind::kSTFTSpectrogram;
}

template <typename T>
bool AreOthers(const LayerField& a, const LayerField& b) {
  const auto* const one = std::get_if<T Layer::*>(&a.value);
  return one != nullptr && *one != std::get<T Layer::*>(b.value);
}

// True if both fields are one member of Layer. (Each other type has one.)
bool AreSame(const LayerField& a, const LayerField& b) {
  return a.value.index() == b.value.index() && !AreOthers<int64_t>(a, b) &&
         !AreOthers<float>(a, b) && !AreOthers<bool>(a, b);
}

}  // namespace

int64_t FramePlan::frame_multiply_adds() const {
  const auto length = static_cast<int64_t>(window.size());
  int64_t per_frame = 2 * length * frequencies();
  if (is_fast()) {
    per_frame = 4 * fft_length;  // dividing the transform, and the powers
    for (int64_t half = 1; half < fft_length / 2; half *= 2)
      per_frame += fft_length;
  }
  return frames * (per_frame + length);
}

uint64_t FramePlan::frame_table_bytes() const {
  return (window.size() + cosines.size() + sines.size()) * sizeof(double);
}

void FramePlan::ComputeCircle() {
  const auto period = static_cast<double>(fft_length);
  for (int64_t k = 0; k < fft_length; ++k) {
    const double angle = 2 * static_cast<double>(k) / period;
    cosines.push_back(math::CosPi(angle));
    sines.push_back(math::CosPi(angle - 0.5));
  }
}

Status CheckSoundField(const char* name, int64_t value, int64_t minimum,
                       int64_t maximum) {
  if (value >= minimum && value <= maximum) return Status();
  return InvalidArgument("%s is %" PRId64 "; must be from %" PRId64
                         " to %" PRId64,
                         name, value, minimum, maximum);
}

Status CheckFftLength(const FramePlan& plan, int64_t length) {
  RINGLET_RETURN_IF_ERROR(
      CheckSoundField("fft_length", plan.fft_length, length, kMaxFftLength));
  if (plan.fft_length <= kMaxDirectLength || plan.is_fast()) return Status();
  return InvalidArgument("fft_length is %" PRId64 "; above %" PRId64
                         " it must be a power of 2",
                         plan.fft_length, kMaxDirectLength);
}

int64_t NextPowerOf2(int64_t number) {
  int64_t power = 1;
  while (power < number) power *= 2;
  return power;
}

Status CheckForeignFields(const Layer& layer) {
  const LayerClass& row = ClassOf(layer);
  const Layer standard = row.make();
  for (const LayerClass& other : AllLayers()) {
    if (!IsOfSound(other.kind)) continue;
    for (const LayerField& field : other.fields) {
      const auto is_it = [&](const LayerField& candidate) {
        return AreSame(candidate, field);
      };
      if (std::any_of(row.fields.begin(), row.fields.end(), is_it) ||
          ValueText(field, layer) == ValueText(field, standard)) {
        continue;
      }
      return InvalidArgument("%s has no %s, which is of %s; leave it out",
                             row.name, field.name, other.name);
    }
  }
  return Status();
}

}  // namespace ringlet
