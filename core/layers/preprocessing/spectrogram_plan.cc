// The formulas of Keras, TensorFlow and librosa, in double.

#include "spectrogram_plan.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "../../compute/functions.h"
#include "../layer_table.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxMelBins = 1024;
constexpr double kDecibels = 4.3429448190325182765;  // 10 / ln 10

// --- the mel scale -----------------------------------------------------------

// The mel scale of HTK, or Slaney's, which is linear below 1000 Hz.
double MelOf(double hertz, bool htk) {
  if (htk) return 1127 * math::Log1p(hertz / 700);
  return hertz < 1000 ? hertz * 3 / 200
                      : 15 + 27 * math::Log(hertz / 1000) / math::Log(6.4);
}

double HertzOfSlaney(double mel) {
  return mel < 15 ? mel * 200 / 3
                  : 1000 * math::Exp((mel - 15) * math::Log(6.4) / 27);
}

// Place i of `count` from a to b.
double Place(double a, double b, int64_t i, int64_t count) {
  return a + (b - a) * static_cast<double>(i) / static_cast<double>(count - 1);
}

// With HTK's scale the triangles are over mels. With Slaney's scale they are
// over frequencies, and have equal areas.
void AddMelBins(const Layer& layer, double max_freq, SpectrogramPlan* plan) {
  const bool htk = layer.kind == Layer::Kind::kMelSpectrogram || layer.htk;
  const int64_t bins = layer.num_mel_bins, count = plan->frequencies();
  std::vector<double> edges, places;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double mel = Place(MelOf(double{layer.min_freq}, htk),
                             MelOf(max_freq, htk), i, bins + 2);
    edges.push_back(htk ? mel : HertzOfSlaney(mel));
  }
  for (int64_t k = 0; k < count; ++k) {
    const double hertz =
        Place(0, static_cast<double>(layer.sampling_rate) / 2, k, count);
    places.push_back(htk ? MelOf(hertz, /*htk=*/true) : hertz);
  }
  for (size_t m = 0; m < static_cast<size_t>(bins); ++m) {
    const double low = edges[m], middle = edges[m + 1], high = edges[m + 2];
    const double peak = htk ? 1 : 2 / (high - low);
    SpectrogramPlan::MelBin bin;
    // HTK leaves out the frequency 0.
    for (int64_t k = htk ? 1 : 0; k < count; ++k) {
      const double place = places[static_cast<size_t>(k)];
      const double weight = std::min((place - low) / (middle - low),
                                     (high - place) / (high - middle));
      if (!(weight > 0)) continue;
      if (bin.weights.empty()) bin.first = k;
      bin.weights.push_back(weight * peak);
    }
    plan->mel_bins.push_back(std::move(bin));
  }
}

// --- the other tables --------------------------------------------------------

// Adds the window of Hann, as tf.signal.hann_window: periodic if the length is
// even.
void AddWindow(int64_t length, SpectrogramPlan* plan) {
  const double period = static_cast<double>(length - length % 2);
  for (int64_t i = 0; i < length; ++i) {
    const double angle = 2 * static_cast<double>(i) / period;
    plan->window.push_back(length == 1 ? 1 : 0.5 - 0.5 * math::CosPi(angle));
  }
}

// DCT-II with the factor of tf.signal.mfccs_from_log_mel_spectrograms.
void AddCosineTransform(int64_t coefficients, SpectrogramPlan* plan) {
  const auto count = static_cast<double>(plan->mels());
  const double factor = 2 / std::sqrt(2 * count);
  plan->num_mfcc = coefficients;
  for (int64_t k = 0; k < coefficients; ++k) {
    for (int64_t m = 0; m < plan->mels(); ++m) {
      const double angle = static_cast<double>(k * (2 * m + 1)) / (2 * count);
      plan->dct.push_back(factor * math::CosPi(angle));
    }
  }
}

void SetLogarithm(const Layer& layer, SpectrogramPlan* plan) {
  if (layer.kind == Layer::Kind::kMFCC) {
    plan->log_offset = layer.log_offset;
    if (layer.power_to_db) plan->log_factor = static_cast<float>(kDecibels);
    return;
  }
  plan->has_log = plan->has_range = layer.power_to_db;
  plan->least = layer.min_power;
  plan->log_factor = static_cast<float>(kDecibels);
  const double reference =
      std::max(std::fabs(double{layer.ref_power}), double{layer.min_power});
  plan->log_of_reference = static_cast<float>(kDecibels * math::Log(reference));
  plan->range = layer.top_db;
}

// --- checks ------------------------------------------------------------------

Status CheckFrequencies(const Layer& layer, double max_freq) {
  const double half = static_cast<double>(layer.sampling_rate) / 2;
  if (layer.min_freq >= 0 && layer.min_freq < max_freq && max_freq <= half) {
    return Status();
  }
  return InvalidArgument(
      "takes frequencies from min_freq %g to max_freq %g; they must ascend, to "
      "at most half of the sampling_rate, %g",
      layer.min_freq, max_freq, half);
}

Status SetLengths(const Layer& layer, const Shape& input,
                  SpectrogramPlan* plan) {
  const bool mfcc = layer.kind == Layer::Kind::kMFCC;
  // Without a sequence_length it equals fft_length. Without an fft_length, an
  // MFCC takes the next power of 2.
  const bool is_transform = !mfcc && layer.sequence_length == 0;
  const int64_t length =
      is_transform ? layer.fft_length : layer.sequence_length;
  RINGLET_RETURN_IF_ERROR(
      CheckSoundField(is_transform ? "fft_length" : "sequence_length", length,
                      1, kMaxFftLength));
  plan->fft_length = layer.fft_length;
  if (plan->fft_length == 0 && mfcc) plan->fft_length = NextPowerOf2(length);
  RINGLET_RETURN_IF_ERROR(CheckFftLength(*plan, length));
  const bool centered = !mfcc || layer.centered;
  plan->samples = input[0];
  plan->stride = layer.sequence_stride;
  plan->padding = centered ? plan->fft_length / 2 : 0;
  plan->window_begin = centered ? (plan->fft_length - length) / 2 : 0;
  AddWindow(length, plan);
  const int64_t frame = centered ? plan->fft_length : length,
                min_samples = std::max(centered ? plan->padding + 1 : length,
                                       frame - 2 * plan->padding);
  if (plan->samples < min_samples) {
    return InvalidArgument("takes at least %" PRId64 " samples, not %" PRId64,
                           min_samples, plan->samples);
  }
  plan->frames = (plan->samples + 2 * plan->padding - frame) / plan->stride + 1;
  return Status();
}

}  // namespace

int64_t SpectrogramPlan::multiply_adds() const {
  auto per_frame = static_cast<int64_t>(dct.size());
  for (const MelBin& bin : mel_bins) {
    per_frame += static_cast<int64_t>(bin.weights.size());
  }
  return frame_multiply_adds() + frames * per_frame;
}

uint64_t SpectrogramPlan::table_bytes() const {
  size_t numbers = dct.size();
  for (const MelBin& bin : mel_bins) numbers += bin.weights.size();
  return frame_table_bytes() + numbers * sizeof(double) +
         mel_bins.size() * sizeof(MelBin);
}

Status MakeSpectrogramPlan(const Layer& layer, const Shape& input,
                           SpectrogramPlan* plan) {
  if (input.rank() != 1) {
    return InvalidArgument(
        "takes sound of shape (samples), not %s; put a Reshape or a Flatten "
        "before it",
        input.ToString().c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckForeignFields(layer));
  RINGLET_RETURN_IF_ERROR(
      CheckSoundField("sampling_rate", layer.sampling_rate, 1, kMaxSoundInt));
  RINGLET_RETURN_IF_ERROR(CheckSoundField(
      "sequence_stride", layer.sequence_stride, 1, kMaxSoundInt));
  RINGLET_RETURN_IF_ERROR(
      CheckSoundField("num_mel_bins", layer.num_mel_bins, 1, kMaxMelBins));
  // Rounded down, as int() in Keras.
  const int64_t half_rate = layer.sampling_rate / 2;
  const double max_freq = std::isinf(layer.max_freq)
                              ? static_cast<double>(half_rate)
                              : double{layer.max_freq};
  RINGLET_RETURN_IF_ERROR(CheckFrequencies(layer, max_freq));
  RINGLET_RETURN_IF_ERROR(SetLengths(layer, input, plan));
  plan->mag_exp = layer.mag_exp;
  plan->frames_last = layer.kind == Layer::Kind::kMelSpectrogram;
  plan->ComputeCircle();
  AddMelBins(layer, max_freq, plan);
  SetLogarithm(layer, plan);
  if (plan->frames_last || layer.num_mfcc == 0) return Status();
  RINGLET_RETURN_IF_ERROR(
      CheckSoundField("num_mfcc", layer.num_mfcc, 1, layer.num_mel_bins));
  AddCosineTransform(layer.num_mfcc, plan);
  return Status();
}

}  // namespace ringlet
