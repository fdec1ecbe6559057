// In place of spectrogram.cc, stft.cc and their plans in a build without them.

#include "../../base/left_out.h"
#include "../layer_table.h"
#include "../op.h"
#include "spectrogram_plan.h"
#include "stft.h"

namespace ringlet {

Status MakeSpectrogram(const Layer& layer, const std::vector<Shape>&,
                       std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "sound");
}
Status MakeStft(const Layer& layer, const std::vector<Shape>&,
                std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "sound");
}
Status MakeStftPlan(const Layer& layer, const Shape&, StftPlan*) {
  return LeftOut(ClassName(layer), "sound");
}
Status MakeSpectrogramPlan(const Layer& layer, const Shape&, SpectrogramPlan*) {
  return LeftOut(ClassName(layer), "sound");
}

}  // namespace ringlet
