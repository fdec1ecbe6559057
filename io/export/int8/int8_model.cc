// Ranges, quantizations, and the computation.
//
// Ranges include 0, which is the value of padding. If only a ReLU reads a
// layer's output, the ReLU is not a step: the layer's output then means numbers
// >= 0 and saturates as the ReLU does. A second ReLU after it is a step. All
// arithmetic is +, -, *, / and exact operations on doubles. So the file is the
// same wherever the ranges are: on machines of one class of arithmetic
// (ArithmeticClassName).

#include "int8_model.h"

#include <algorithm>
#include <cmath>

#include "../../../core/base/text.h"
#include "../../../core/layers/layer_kind.h"
#include "../../../core/layers/layer_loops.h"
#include "../c/c_sound.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;

// The least scale. A float32 can hold its reciprocal.
constexpr double kLeastScale = 1e-30;

// True for the primitive of a layer that computes each number alone.
bool IsFunction(const Primitive& p) {
  switch (p.layer->kind) {
    case Layer::Kind::kActivation:
      return p.activation != kSoftmax && p.activation != kLogSoftmax;
    case Layer::Kind::kReLU:
    case Layer::Kind::kLeakyReLU:
    case Layer::Kind::kELU:
      return true;
    default:
      return false;
  }
}

bool IsRelu(const Primitive& p) {
  if (p.kind == Kind::kActivate) {
    return p.activation == kRelu || p.activation == kRelu6;
  }
  return p.kind == Kind::kRelu && p.slope == 0 && p.threshold == 0;
}

// The floats of the op's scratch.
int64_t ScratchAt(const PlainModel::FrontEnd& front_end) {
  return static_cast<int64_t>(front_end.op->forward_scratch(1, /*threads=*/1));
}

}  // namespace

// --- ranges ------------------------------------------------------------------

void Int8Model::UpdateRanges(const float* x, int64_t count) {
  const auto take = [&](int node, const float* values) {
    const int index = Source(lowering_.of_node[static_cast<size_t>(node)]);
    Range& range = ranges_[static_cast<size_t>(index)];
    const int64_t n = count * plain_.model.output_shape(node).elements();
    for (int64_t i = 0; i < n; ++i) {
      range.least = std::min(range.least, values[i]);
      range.most = std::max(range.most, values[i]);
    }
  };
  for (int i = 0; i < num_inputs(); ++i) {
    take(i, x);
    x += count * input(i).elements();
  }
  for (size_t k = 0; k < plain_.nodes.size(); ++k) {
    take(plain_.nodes[k], plain_.model.output(static_cast<int>(k)));
  }
}

const float* Int8Model::ScaledInput(const Batch& batch, Int8Memory* memory) {
  scaled_.clear();
  const float* from = batch.x;
  for (int i = 0; i < num_inputs(); ++i) {
    for (int64_t k = 0; k < batch.count; ++k) {
      const float* const x = InputFrom(i, from, memory);
      scaled_.insert(scaled_.end(), x, x + input(i).elements());
      from += given(i).elements();
    }
  }
  float* x = scaled_.data();
  for (int i = 0; i < num_inputs(); ++i) {
    const auto& scale = plain_.inputs[static_cast<size_t>(i)];
    const auto count = static_cast<size_t>(batch.count * input(i).elements());
    const size_t channels = scale.factors.size();
    for (size_t k = 0; k < count && channels > 0; ++k) {
      x[k] *= scale.factors[k % channels];
      x[k] += scale.shifts[k % channels];
    }
    x += count;
  }
  return scaled_.data();
}

Status Int8Model::FindRanges(Model* model, const Dataset& data,
                             int64_t examples) {
  ranges_.assign(static_cast<size_t>(last() + 1), Range());
  LoaderOptions options;
  options.targets = options.background = options.training = false;
  std::unique_ptr<BatchLoader> loader;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(data, options, &loader));
  Int8Memory memory = NewMemory();
  Batch batch;
  for (int64_t seen = 0; seen < examples && !batch.last; seen += batch.count) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    const float* const x = ScaledInput(batch, &memory);
    RINGLET_RETURN_IF_ERROR(
        plain_.model.Forward(x, batch.count, /*training=*/false));
    UpdateRanges(x, batch.count);
  }
  return Status();
}

Status Int8Model::CheckRanges() const {
  for (int node = 0; node <= last(); ++node) {
    const Range& range = ranges_[static_cast<size_t>(node)];
    if (std::isfinite(range.most - range.least)) continue;
    return InvalidArgument(
        "%s gives numbers from %g to %g, which int8 cannot represent",
        WithArticle(ClassName(*PrimitiveAt(node).layer)).c_str(), range.least,
        range.most);
  }
  return Status();
}

// The range of an Embedding has all its rows, not only the rows of the
// examples. It includes the values of activations of these rows.
void Int8Model::FindTableRanges() {
  std::vector<std::vector<float>> numbers(static_cast<size_t>(last() + 1));
  for (int node = 0; node <= last(); ++node) {
    const Primitive& p = PrimitiveAt(node);
    std::vector<float>& own = numbers[static_cast<size_t>(node)];
    if (p.kind == Kind::kGather) {
      const float* const rows = FloatsOf(p.kernel);
      own.assign(rows, rows + p.kernel->size());
    } else if (p.inputs.size() == 1) {
      const auto& before = numbers[static_cast<size_t>(p.inputs[0])];
      if (IsFunction(p)) {
        own = ComputeResults(*p.layer, before);
      } else if (IsView(p) || KeepsQuantization(p) || p.kind == Kind::kAffine) {
        own = before;
      }
      for (float& number : own) {
        if (p.kind == Kind::kAffine) number *= p.scale[0];
      }
    }
    Range& range = ranges_[static_cast<size_t>(node)];
    for (const float number : own) {
      range.least = std::min(range.least, number);
      range.most = std::max(range.most, number);
    }
  }
}

// --- quantizations -----------------------------------------------------------

void Int8Model::FindViews() {
  std::vector<int> reads(static_cast<size_t>(last() + 1)), roots;
  for (int node = 0; node <= last(); ++node) {
    const Primitive& p = PrimitiveAt(node);
    const bool view = IsView(p) || p.kind == Kind::kAffine;
    kinds_.push_back({view, RowOf(p.kind).in_place});
    roots.push_back(view ? roots[static_cast<size_t>(p.inputs[0])] : node);
    if (view) continue;
    for (const int input : p.inputs) {
      ++reads[static_cast<size_t>(roots[static_cast<size_t>(input)])];
    }
  }
  for (int k = 0; k < num_outputs(); ++k) {
    ++reads[static_cast<size_t>(roots[static_cast<size_t>(OutputAt(k))])];
  }
  for (int node = 1; node <= last(); ++node) {
    if (!IsRelu(PrimitiveAt(node))) continue;
    const int input = PrimitiveAt(node).inputs[0];
    const Primitive& before = PrimitiveAt(input);
    if (before.kind == Kind::kInput || KeepsQuantization(before) ||
        kinds_[static_cast<size_t>(input)].is_view ||
        reads[static_cast<size_t>(input)] != 1) {
      continue;
    }
    kinds_[static_cast<size_t>(node)].is_view = true;
    ranges_[static_cast<size_t>(input)] = ranges_[static_cast<size_t>(node)];
  }
}

void Int8Model::ChooseQuantization() {
  for (int node = 0; node <= last(); ++node) {
    const Primitive& p = PrimitiveAt(node);
    Quantization quantization;
    if (kinds_[static_cast<size_t>(node)].is_view || KeepsQuantization(p)) {
      quantization = QuantizationOf(p.inputs[0]);
      if (p.kind == Kind::kAffine) quantization.scale *= double{p.scale[0]};
    } else {
      const Range& range = ranges_[static_cast<size_t>(node)];
      const double low = double{range.least};
      if (range.most > range.least) {
        quantization.scale =
            std::max((double{range.most} - low) / 255, kLeastScale);
      }
      quantization.zero_point =
          static_cast<int>(std::floor(-128 - low / quantization.scale + 0.5));
    }
    quantizations_.push_back(quantization);
  }
}

void Int8Model::FindTokens() {
  inputs_.resize(plain_.inputs.size());
  for (const Primitive& p : lowering_.primitives) {
    if (p.kind != Kind::kGather) continue;
    const int from = Source(p.inputs[0]);
    if (takes_tokens(from)) continue;
    inputs_[static_cast<size_t>(from)].first_token =
        static_cast<int64_t>(num_tokens_);
    num_tokens_ += static_cast<size_t>(input(from).elements());
  }
}

int Int8Model::Source(int index) const {
  while (IsView(PrimitiveAt(index))) index = PrimitiveAt(index).inputs[0];
  return index;
}

Status Int8Model::Make(Model* model, const Dataset& data, int64_t examples,
                       int end) {
  RINGLET_RETURN_IF_ERROR(MakePlain(model, end, &plain_));
  RINGLET_RETURN_IF_ERROR(Lower(&plain_.model, "int8", &lowering_));
  RINGLET_RETURN_IF_ERROR(FindRanges(model, data, examples));
  FindTableRanges();
  RINGLET_RETURN_IF_ERROR(CheckRanges());
  FindViews();
  ChooseQuantization();
  FindTokens();
  std::vector<bool> uses_in;
  uses_in.reserve(static_cast<size_t>(num_inputs()));
  for (int i = 0; i < num_inputs(); ++i) uses_in.push_back(takes_tokens(i));
  std::vector<int> outputs;
  outputs.reserve(static_cast<size_t>(num_outputs()));
  for (int k = 0; k < num_outputs(); ++k) outputs.push_back(OutputAt(k));
  slots_ = std::make_unique<CSlots>(lowering_.primitives, kinds_, outputs,
                                    uses_in, /*uses_out=*/false);
  return AddSteps();
}

// --- computation -------------------------------------------------------------

Int8Memory Int8Model::NewMemory() const {
  Int8Memory memory;
  memory.arena.resize(arena_bytes_);
  memory.floats.resize(num_floats_);
  memory.state.resize(num_state_);
  memory.tokens.resize(num_tokens_);
  int64_t floats = 0;
  for (const auto& [i, front_end] : plain_.front_ends) {
    floats = std::max(floats, ScratchAt(front_end) + input(i).elements());
  }
  memory.features.resize(static_cast<size_t>(floats));
  if (floats > 0) memory.pool = std::make_unique<ThreadPool>(1);
  return memory;
}

const float* Int8Model::InputFrom(int i, const float* input,
                                  Int8Memory* memory) const {
  const PlainModel::FrontEnd* const front_end = FrontEndOf(i);
  if (front_end == nullptr) return input;
  OpCall call;
  call.batch = 1;
  call.x = &input;
  call.scratch = memory->features.data();
  call.y = call.scratch + ScratchAt(*front_end);
  call.pool = memory->pool.get();
  front_end->op->Forward(call);
  return call.y;
}

int64_t Int8Model::FeatureFloats() const {
  int64_t floats = 0;
  for (const auto& [i, front_end] : plain_.front_ends) {
    const CSoundCall call = MakeSoundCall(front_end.layer, front_end.samples);
    floats = std::max(floats, call.scratch + input(i).elements());
  }
  return floats;
}

int64_t Int8Model::FrontEndFloats() const {
  size_t floats = 0;
  for (const auto& [i, front_end] : plain_.front_ends) {
    for (const auto& array :
         MakeSoundCall(front_end.layer, front_end.samples).arrays) {
      floats += array.floats.size();
    }
  }
  return static_cast<int64_t>(floats);
}

size_t Int8Model::ram() const {
  return arena_bytes_ + sizeof(float) * num_floats_ +
         sizeof(int16_t) * num_state_ + sizeof(int32_t) * num_tokens_ +
         sizeof(float) * static_cast<size_t>(FeatureFloats());
}

void Int8Model::RunStep(const Step& s, int64_t time, Int8Memory* memory) const {
  int8::Recurrence cell = s.cell;
  cell.q = memory->state.data();
  std::vector<int8::Value> values;
  for (const Argument& a : s.arguments) {
    values.push_back(a.place == Argument::kArena ? At(a.span, time, memory)
                     : a.place == Argument::kTokens
                         ? memory->tokens.data() + a.span.begin +
                               a.span.stride * time
                     : a.place == Argument::kScratch ? memory->floats.data()
                     : a.place == Argument::kNumbers ? s.numbers.data()
                     : a.place == Argument::kCell    ? &cell
                                                     : a.value);
  }
  int8::FunctionOf(s.kernel).call(values.data());
}

void Int8Model::Run(const float* const* in, float* const* out,
                    Int8Memory* memory) const {
  int8_t* const arena = memory->arena.data();
  for (int i = 0; i < num_inputs(); ++i) {
    const auto count = static_cast<int>(input(i).elements());
    const In& to = InputAt(i);
    const float* const x = InputFrom(i, in[i], memory);
    if (takes_tokens(i)) {
      int8::TakeTokens(x, memory->tokens.data() + to.first_token, count);
    } else if (to.factors >= 0) {
      const auto& factors = floats_[static_cast<size_t>(to.factors)];
      int8::QuantizeScaled(x, arena + PlaceInArena(i), count,
                           static_cast<int>(factors.size()), factors.data(),
                           floats_[static_cast<size_t>(to.shifts)].data());
    } else {
      int8::Quantize(x, arena + PlaceInArena(i), count, FactorTo(i),
                     QuantizationOf(i).zero_point);
    }
  }
  for (const Step& step : steps_) {
    for (int64_t i = 0; i < step.times; ++i) RunStep(step, i, memory);
  }
  for (int k = 0; k < num_outputs(); ++k) {
    const int from = OutputAt(k);
    const int64_t n = output(k).elements(), width = output(k).back();
    int8::Dequantize(arena + PlaceInArena(from), out[k], static_cast<int>(n),
                     static_cast<float>(QuantizationOf(from).scale),
                     QuantizationOf(from).zero_point);
    if (PlainOutput(k).end == kLinear) continue;
    BiasActivation(PlainOutput(k).end, nullptr, n / width, width, out[k]);
  }
}

}  // namespace ringlet
