// In place of spectrogram.cc and its plan in a build without them.

#include "../../base/left_out.h"
#include "../layer_table.h"
#include "../op.h"
#include "spectrogram_plan.h"

namespace ringlet {

Status MakeSpectrogram(const Layer& layer, const std::vector<Shape>&,
                       std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "sound");
}
Status MakeSpectrogramPlan(const Layer& layer, const Shape&, SpectrogramPlan*) {
  return LeftOut(ClassName(layer), "sound");
}

}  // namespace ringlet
