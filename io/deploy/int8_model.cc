// Ranges, meanings, and the model at work. What must be known to change this
// file: ranges hold 0, which padding is; a ReLU behind something that nobody
// else reads is no step, for the other's output then stands for numbers >= 0
// and saturates as the ReLU does; a second ReLU behind that one is. All of it
// is +, -, *, / and exact operations of doubles, so the file is the same
// wherever the ranges are: on machines of one class of arithmetic
// (GemmArithmetic).

#include "int8_model.h"

#include <algorithm>
#include <cmath>

#include "../../core/layers/kernels.h"
#include "../../core/layers/layer_table.h"
#include "logits.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

bool IsRelu(const Layer& layer) {
  if (layer.kind == Kind::kActivation) {
    return layer.activation == kRelu || layer.activation == kRelu6;
  }
  return layer.kind == Kind::kReLU && layer.negative_slope == 0 &&
         layer.threshold == 0;
}

}  // namespace

// --- ranges ------------------------------------------------------------------

void Int8Model::TakeBatch(const float* x, int64_t count) {
  const auto take = [&](int node, const float* values) {
    Range& range = ranges_[static_cast<size_t>(node)];
    const int64_t n = count * plain_.model.output_shape(node).elements();
    for (int64_t i = 0; i < n; ++i) {
      range.least = std::min(range.least, values[i]);
      range.most = std::max(range.most, values[i]);
    }
  };
  take(0, x);
  for (size_t k = 0; k < plain_.nodes.size(); ++k) {
    take(plain_.nodes[k], plain_.model.output(static_cast<int>(k)));
  }
}

Status Int8Model::FindRanges(Model* model, const Dataset& data,
                             int64_t examples) {
  ranges_.assign(static_cast<size_t>(last() + 1), Range());
  LoaderOptions options;
  options.targets = options.background = options.training = false;
  std::unique_ptr<BatchLoader> loader;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(data, options, &loader));
  Batch batch;
  for (int64_t seen = 0; seen < examples && !batch.last; seen += batch.count) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    RINGLET_RETURN_IF_ERROR(
        plain_.model.Forward(batch.x, batch.count, /*training=*/false));
    TakeBatch(batch.x, batch.count);
  }
  for (int node = 0; node <= last(); ++node) {
    const Range& range = ranges_[static_cast<size_t>(node)];
    if (std::isfinite(range.most - range.least)) continue;
    return InvalidArgument(
        "a %s gives numbers from %g to %g, which int8 cannot stand for",
        ClassName(plain_.model.layer(node)), range.least, range.most);
  }
  return Status();
}

// --- meanings ----------------------------------------------------------------

void Int8Model::FindViews() {
  std::vector<int> reads(static_cast<size_t>(last() + 1)), roots;
  for (int node = 0; node <= last(); ++node) {
    const Layer& layer = plain_.model.layer(node);
    const bool view = GivesItsInput(layer) || layer.kind == Kind::kRescaling;
    kinds_.push_back({view, RowOf(layer.kind).in_place});
    roots.push_back(
        view ? roots[static_cast<size_t>(plain_.model.inputs(node)[0])] : node);
    if (view) continue;
    for (const int input : plain_.model.inputs(node)) {
      ++reads[static_cast<size_t>(roots[static_cast<size_t>(input)])];
    }
  }
  for (int node = 1; node <= last(); ++node) {
    if (!IsRelu(plain_.model.layer(node))) continue;
    const int input = plain_.model.inputs(node)[0];
    const Layer& before = plain_.model.layer(input);
    if (before.kind == Kind::kInput || RowOf(before.kind).as_input ||
        kinds_[static_cast<size_t>(input)].is_view ||
        reads[static_cast<size_t>(input)] != 1) {
      continue;
    }
    kinds_[static_cast<size_t>(node)].is_view = true;
    ranges_[static_cast<size_t>(input)] = ranges_[static_cast<size_t>(node)];
  }
}

void Int8Model::FindMeanings() {
  for (int node = 0; node <= last(); ++node) {
    const Layer& layer = plain_.model.layer(node);
    Meaning meaning;
    if (kinds_[static_cast<size_t>(node)].is_view ||
        RowOf(layer.kind).as_input) {
      meaning = Of(plain_.model.inputs(node)[0]);
      if (layer.kind == Kind::kRescaling) {
        meaning.scale *= double{layer.scales[0]};
      }
    } else {
      const Range& range = ranges_[static_cast<size_t>(node)];
      const double least = double{range.least};
      if (range.most > range.least) {
        meaning.scale = (double{range.most} - least) / 255;
      }
      meaning.zero =
          static_cast<int>(std::floor(-128 - least / meaning.scale + 0.5));
    }
    meanings_.push_back(meaning);
  }
}

Status Int8Model::Make(Model* model, const Dataset& data, int64_t examples) {
  RINGLET_RETURN_IF_ERROR(MakePlain(model, &plain_));
  RINGLET_RETURN_IF_ERROR(FindRanges(model, data, examples));
  FindViews();
  FindMeanings();
  slots_ = std::make_unique<CSlots>(plain_.model, kinds_, /*callers=*/false);
  return AddSteps();
}

// --- at work -----------------------------------------------------------------

void Int8Model::RunStep(const Step& s, int8_t* arena) const {
  const auto at = [&](const Place& place) {
    return arena + slots_->offset(place.slot) + place.begin;
  };
  const int8_t* const bytes =
      s.bytes < 0 ? nullptr : bytes_[static_cast<size_t>(s.bytes)].data();
  const auto words = [&](int i) {
    return words_[static_cast<size_t>(i)].data();
  };
  const int* const g = s.numbers.data();
  switch (s.kernel) {
    case int8::kConv:
      return int8::Conv(at(s.x), at(s.y), bytes, words(s.words),
                        words(s.words2), g);
    case int8::kPool:
      return int8::Pool(at(s.x), at(s.y), g);
    case int8::kMerge:
      return int8::Merge(s.what, at(s.x), at(s.x2), at(s.y),
                         static_cast<int>(s.numbers.size() / 3) - 2, g);
    case int8::kMap:
      return int8::Map(at(s.x), at(s.y), s.what, bytes);
    case int8::kCopy:
      return int8::Copy(at(s.x), at(s.y),
                        static_cast<int>(s.numbers.size() / 3), g, bytes);
    case int8::kFill:
      return int8::Fill(at(s.y), g[0], s.what);
  }
}

void Int8Model::Run(const float* in, float* out, int8_t* arena) const {
  const auto factor = static_cast<float>(1 / Of(0).scale);
  int8::Quantize(in, arena + slots_->offset(slots_->SlotOf(0)),
                 static_cast<int>(input().elements()), factor, Of(0).zero);
  for (const Step& step : steps_) RunStep(step, arena);
  const int64_t n = output().elements(), width = output().back();
  int8::Dequantize(arena + slots_->offset(slots_->SlotOf(last())), out,
                   static_cast<int>(n), static_cast<float>(Of(last()).scale),
                   Of(last()).zero);
  if (plain_.end != kLinear) {
    BiasActivation(plain_.end, nullptr, n / width, width, out);
  }
}

}  // namespace ringlet
