#include "c_sound.h"

#include "../../../core/base/check.h"
#include "../../../core/layers/layer_kind.h"
#include "../../../core/layers/preprocessing/spectrogram_plan.h"
#include "../../../core/layers/preprocessing/stft.h"
#include "c_helpers.h"

namespace ringlet {
namespace {

std::vector<float> FloatsOf(const std::vector<double>& values, size_t count) {
  std::vector<float> floats;
  for (size_t i = 0; i < count; ++i) {
    floats.push_back(static_cast<float>(values[i]));
  }
  return floats;
}

std::vector<float> FloatsOf(const std::vector<double>& values) {
  return FloatsOf(values, values.size());
}

// The cosines and the sines of the transform. Its function is a helper.
std::vector<float> CircleOf(const FramePlan& plan, CSoundCall* call) {
  call->helpers.Add(plan.is_fast() ? "fast_fourier" : "direct_fourier");
  const auto count = static_cast<size_t>(plan.is_fast() ? plan.frequencies()
                                                        : plan.fft_length);
  std::vector<float> circle = FloatsOf(plan.cosines, count);
  for (const float sine : FloatsOf(plan.sines, count)) circle.push_back(sine);
  return circle;
}

CSoundCall StftCall(const Layer& layer, const Shape& input) {
  StftPlan plan;
  RINGLET_CHECK(MakeStftPlan(layer, input, &plan).ok());
  CSoundCall call;
  call.helpers.Add("stft_spectrogram");
  call.function = "stft_spectrogram";
  const std::vector<float> circle = CircleOf(plan, &call);
  call.arrays = {
      {{plan.frames, plan.stride, plan.samples, plan.padding,
        static_cast<int64_t>(plan.window.size()), plan.fft_length,
        plan.channels, static_cast<int64_t>(plan.mode), plan.channels_last},
       {}},
      {{}, FloatsOf(plan.window)},
      {{}, circle}};
  call.scratch = plan.fft_length + 2 * plan.frequencies();
  return call;
}

}  // namespace

bool IsSound(const Primitive& primitive) {
  return primitive.kind == Primitive::Kind::kSpectrogram ||
         primitive.kind == Primitive::Kind::kStft;
}

CSoundCall MakeSoundCall(const Layer& layer, const Shape& input) {
  if (layer.kind == Layer::Kind::kSTFTSpectrogram) {
    return StftCall(layer, input);
  }
  SpectrogramPlan plan;
  RINGLET_CHECK(MakeSpectrogramPlan(layer, input, &plan).ok());
  std::vector<float> weights;
  CInts bins;
  for (const SpectrogramPlan::MelBin& bin : plan.mel_bins) {
    bins.push_back(bin.first);
    bins.push_back(static_cast<int64_t>(bin.weights.size()));
    for (const float weight : FloatsOf(bin.weights)) weights.push_back(weight);
  }
  if (weights.empty()) weights.push_back(0);
  CSoundCall call;
  call.helpers.Add("spectrogram");
  call.function = "spectrogram";
  const std::vector<float> circle = CircleOf(plan, &call);
  call.arrays = {
      {{plan.frames, plan.stride, plan.samples, plan.padding,
        static_cast<int64_t>(plan.window.size()), plan.window_begin,
        plan.fft_length, plan.mels(), plan.num_mfcc, plan.frames_last,
        plan.has_log, plan.has_range},
       {}},
      {{},
       {static_cast<float>(plan.mag_exp), plan.least, plan.log_offset,
        plan.log_factor, plan.log_of_reference, plan.range}},
      {{}, FloatsOf(plan.window)},
      {{}, circle},
      {bins, {}},
      {{}, weights},
      {{}, FloatsOf(plan.dct)}};
  call.scratch = plan.fft_length + plan.frequencies() + plan.mels();
  return call;
}

}  // namespace ringlet
