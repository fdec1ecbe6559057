// Writes each primitive as calls. Each kind has a row in kRows. Weights have
// Keras's layout.

#include <algorithm>
#include <climits>
#include <cmath>

#include "../int8/int8_kernels.h"
#include "c_helpers.h"
#include "c_model.h"
#include "c_sound.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;

}  // namespace

const CModel::Row CModel::kRows[] = {
    {Kind::kInput, &CModel::EmitNothing, false},
    {Kind::kIdentity, &CModel::EmitNothing, false},
    {Kind::kReshape, &CModel::EmitNothing, false},
    {Kind::kMatMul, &CModel::Convolve, false},
    {Kind::kConv, &CModel::Convolve, false},
    {Kind::kPool, &CModel::Pool, false},
    {Kind::kPad, &CModel::Pad, false},
    {Kind::kCrop, &CModel::Crop, false},
    {Kind::kRepeat, &CModel::Repeat, false},
    {Kind::kTranspose, &CModel::Transpose, false},
    {Kind::kActivate, &CModel::Activate, true},
    {Kind::kRelu, &CModel::Relu, true},
    {Kind::kLeakyRelu, &CModel::LeakyRelu, true},
    {Kind::kElu, &CModel::Elu, true},
    {Kind::kPRelu, &CModel::PRelu, true},
    {Kind::kSoftmax, &CModel::Softmax, true},
    {Kind::kMerge, &CModel::Merge, true},
    {Kind::kConcatenate, &CModel::Concatenate, false},
    {Kind::kAffine, &CModel::MultiplyAdd, true},
    {Kind::kBatchNormalize, &CModel::MultiplyAdd, true},
    {Kind::kNormalize, &CModel::Normalize, true},
    {Kind::kGroupNormalize, &CModel::GroupNormalize, true},
    {Kind::kUnitNormalize, &CModel::UnitNormalize, true},
    {Kind::kRecurrence, &CModel::Recur, false},
    {Kind::kTakeTensor, &CModel::TakeTensor, false},
    {Kind::kGather, &CModel::Gather, false},
    {Kind::kConvTranspose, &CModel::ConvTranspose, false},
    {Kind::kAttend, &CModel::Attend, false},
    {Kind::kPositions, &CModel::Positions, false},
    {Kind::kResize, &CModel::Resize, false},
    {Kind::kSpectrogram, &CModel::Sound, false},
    {Kind::kStft, &CModel::Sound, false},
    {Kind::kMask, &CModel::Mask, false},
};

const CModel::Row& CModel::RowOf(Kind kind) {
  return *std::find_if(std::begin(kRows), std::end(kRows),
                       [&](const Row& row) { return row.kind == kind; });
}

// --- images ------------------------------------------------------------------

void CModel::Convolve() {
  if (Trains() && IsLora(*p_)) return Lora();
  helpers_.Add("conv");
  CallConv("conv");
}

void CModel::ConvTranspose() {
  helpers_.Add("conv_transpose");
  CallConv("conv_transpose");
}

void CModel::CallConv(const char* function) {
  const std::string kernel = p_->kernel == nullptr ? X(1) : Weight(p_->kernel),
                    bias = Weight(p_->bias);
  const std::string numbers = Numbers(WindowOf(*p_, XShape()).Numbers());
  Call("%s(%s, %s, %s, %s, %s)", function, X().c_str(), Y().c_str(),
       kernel.c_str(), bias.c_str(), numbers.c_str());
  ApplyActivation(p_->activation);
}

void CModel::Pool() {
  helpers_.Add("pool");
  const std::string numbers = Numbers(WindowOf(*p_, XShape()).Numbers());
  Call("pool(%s, %s, %s)", X().c_str(), Y().c_str(), numbers.c_str());
}

void CModel::Pad() {
  helpers_.Add("zero");
  Call("zero(%s, %lld)", Y().c_str(),
       static_cast<long long>(YShape().elements()));
  const int64_t first = FrameBegin(p_->borders, YShape());
  Copy(X(), Y() + " + " + std::to_string(first),
       FrameAxes(XShape(), YShape(), /*pads=*/true));
}

void CModel::Crop() {
  const int64_t first = FrameBegin(p_->borders, XShape());
  Copy(X() + " + " + std::to_string(first), Y(),
       FrameAxes(XShape(), YShape(), /*pads=*/false));
}

void CModel::Repeat() { Copy(X(), Y(), RepeatAxes(XShape(), YShape())); }

void CModel::Resize() {
  helpers_.Add("resize");
  const Shape &x = XShape(), &y = YShape();
  const ImageBox& box = p_->box;
  // The products in resize().
  too_large_ |= box.height > INT_MAX / (2 * y[0] + 1) ||
                box.width > INT_MAX / (2 * y[1] + 1);
  const std::string numbers =
      Numbers({x[2], p_->nearest, x[0], box.top, box.height, y[0], x[1],
               box.left, box.width, y[1]});
  Call("resize(%s, %s, %s, %s)", X().c_str(), Y().c_str(), numbers.c_str(),
       CNumber(p_->fill).c_str());
}

void CModel::Transpose() {
  Copy(X(), Y(), TransposeAxes(p_->dims, XShape(), YShape()));
}

// --- single numbers ----------------------------------------------------------

void CModel::CopyIfNeeded() {
  if (X() != Y()) Copy(X(), Y(), {YShape().elements(), 1, 1});
}

void CModel::Activate() {
  CopyIfNeeded();
  ApplyActivation(p_->activation);
}

void CModel::Relu() {
  CopyIfNeeded();
  const std::string threshold = CNumber(p_->threshold),
                    max = CNumber(p_->max_value);
  const std::string above =
      std::isinf(p_->max_value) ? "x" : "(x > " + max + " ? " + max + " : x)";
  const std::string below =
      p_->slope == 0 ? "0" : CNumber(p_->slope) + " * (x - " + threshold + ")";
  ApplyExpression("x > " + threshold + " ? " + above + " : " + below);
}

void CModel::LeakyRelu() {
  CopyIfNeeded();
  ApplyExpression("x > 0 ? x : " + CNumber(p_->slope) + " * x");
}

void CModel::Elu() {
  CopyIfNeeded();
  ApplyExpression("x > 0 ? x : " + CNumber(p_->alpha) + " * (expf(x) - 1)");
}

// Writes an operation on x and the slopes.
void CModel::PRelu() {
  helpers_.Add("merge");
  const CInts axes = AxesOver(XShape(), p_->slopes->shape, YShape());
  const std::string numbers = Numbers(axes), slopes = Weight(p_->slopes);
  Call("merge(%d, %s, %s, %s, %d, %s)", kCMergePRelu, X().c_str(),
       slopes.c_str(), Y().c_str(), static_cast<int>(axes.size() / 3),
       numbers.c_str());
}

// Neighbouring axes are treated as one. If they are not the last, x is
// transposed and transposed back.
void CModel::Softmax() {
  if (IsLogits()) return CopyIfNeeded();
  helpers_.Add("softmax");
  const Shape& x = XShape();
  const int first = p_->first_axis, end = first + p_->num_axes;
  int64_t count = 1, inner = 1;
  for (int i = first; i < x.rank(); ++i) (i < end ? count : inner) *= x[i];
  const int64_t all = count * inner, outer = x.elements() / all;
  std::string rows = Y();
  if (inner > 1) {
    rows = NewBuffer(x.elements());
    Copy(X(), rows, {outer, all, all, count, inner, 1, inner, 1, count});
  } else {
    CopyIfNeeded();
  }
  Call("softmax(%s, %lld, %lld)", rows.c_str(),
       static_cast<long long>(outer * inner), static_cast<long long>(count));
  if (inner == 1) return;
  Copy(rows, Y(), {outer, all, all, count, 1, inner, inner, count, 1});
}

// --- several inputs ----------------------------------------------------------

void CModel::Merge() {
  helpers_.Add("merge");
  const bool average = p_->merge == ringlet::Merge::kAverage;
  const auto operation =
      static_cast<int>(average ? ringlet::Merge::kAdd : p_->merge);
  for (size_t i = 1; i < p_->inputs.size(); ++i) {
    const CInts axes =
        AxesOver(i == 1 ? XShape(0) : YShape(), XShape(i), YShape());
    const std::string numbers = Numbers(axes);
    Call("merge(%d, %s, %s, %s, %zu, %s)", operation,
         i == 1 ? X().c_str() : Y().c_str(), X(i).c_str(), Y().c_str(),
         axes.size() / 3, numbers.c_str());
  }
  if (average) ApplyExpression("x / " + std::to_string(p_->inputs.size()));
}

void CModel::Concatenate() {
  const int64_t width = YShape().back(), rows = YShape().elements() / width;
  int64_t offset = 0;
  for (size_t i = 0; i < p_->inputs.size(); ++i) {
    const int64_t channels = XShape(i).back();
    Copy(X(i), Y() + " + " + std::to_string(offset),
         {rows, channels, width, channels, 1, 1});
    offset += channels;
  }
}

void CModel::Mask() {
  helpers_.Add("mask");
  const long long rows = YShape().elements();
  Call("mask(%s, %s, %lld, %lld, %s)", X().c_str(), Y().c_str(), rows,
       XShape().elements() / rows, CNumber(p_->fill).c_str());
}

// --- normalizations ----------------------------------------------------------

void CModel::MultiplyAdd() {
  helpers_.Add("affine");
  const int64_t width = YShape().back();
  const auto each = [&](const std::vector<float>& values) {
    return Values(
        values.size() == 1
            ? std::vector<float>(static_cast<size_t>(width), values[0])
            : values);
  };
  const Affine affine = MakeAffine(*p_, floats_);
  const std::string centers = each(affine.center), scales = each(affine.scale),
                    offsets = each(affine.offset);
  Call("affine(%s, %s, %lld, %lld, %s, %s, %s)", X().c_str(), Y().c_str(),
       static_cast<long long>(YShape().elements() / width),
       static_cast<long long>(width), centers.c_str(), scales.c_str(),
       offsets.c_str());
}

long long CModel::NormalizedWidth() const {
  long long width = 1;
  for (int i = 1; i <= p_->num_axes; ++i)
    width *= YShape()[YShape().rank() - i];
  return width;
}

void CModel::Normalize() {
  helpers_.Add("normalize");
  const long long width = NormalizedWidth(), rows = YShape().elements() / width;
  const std::string gamma = Weight(p_->gamma), beta = Weight(p_->beta);
  Call("normalize(%s, %s, %lld, %lld, %s, %s, %s)", X().c_str(), Y().c_str(),
       rows, width, CNumber(p_->epsilon).c_str(), gamma.c_str(), beta.c_str());
}

void CModel::GroupNormalize() {
  helpers_.Add("group_normalize");
  const long long channels = YShape().back(),
                  rows = YShape().elements() / channels, groups = p_->groups;
  const std::string gamma = Weight(p_->gamma), beta = Weight(p_->beta);
  Call("group_normalize(%s, %s, %lld, %lld, %lld, %s, %s, %s)", X().c_str(),
       Y().c_str(), rows, groups, channels / groups,
       CNumber(p_->epsilon).c_str(), gamma.c_str(), beta.c_str());
}

void CModel::UnitNormalize() {
  helpers_.Add("unit_normalize");
  const long long width = NormalizedWidth(), rows = YShape().elements() / width;
  Call("unit_normalize(%s, %s, %lld, %lld, %s)", X().c_str(), Y().c_str(), rows,
       width, CNumber(p_->epsilon).c_str());
}

// --- recurrences -------------------------------------------------------------

void CModel::Recur() {
  helpers_.Add("recur");
  helpers_.Add(int8::StepName(p_->cell));
  const int64_t units = YShape().back(), gates = GatesOf(p_->cell);
  const Activation gate = GateOf(*p_);
  const std::string kernel = Weight(p_->kernel),
                    recurrent_kernel = Weight(p_->recurrent_kernel),
                    bias = Weight(p_->bias),
                    cell = "c" + std::to_string(index_);
  numbers_ += "  static const cell " + cell + " = {" + kernel + ", " +
              recurrent_kernel + ", " + bias + ", " + std::to_string(units) +
              ", " + std::to_string(gates) + ", " + FunctionOf(p_->activation) +
              ", " + FunctionOf(gate) + "};\n";
  const std::string numbers = Numbers(
      {XShape()[0], XShape()[1], StatesOf(p_->cell) * units, p_->backwards,
       p_->all_steps, p_->reversed, p_->last_states, p_->zero_masked});
  const size_t states = p_->inputs.size() - (p_->masked ? 1 : 0);
  const auto initial = [&](size_t input) {
    return input < states ? X(input) : "0";
  };
  const std::string mask = p_->masked ? X(states) : "0";
  const std::string buffer = NewBuffer((gates + StatesOf(p_->cell)) * units);
  Call("recur(%s, %s, &%s, %s, %s, %s, %s, %s, %s)", X().c_str(), Y().c_str(),
       cell.c_str(), int8::StepName(p_->cell), numbers.c_str(),
       initial(1).c_str(), initial(2).c_str(), mask.c_str(), buffer.c_str());
}

// The tensors are one after another.
void CModel::TakeTensor() {
  const int64_t units = XShape()[1], states = At(p_->inputs[0]).last_states,
                row =
                    p_->tensor == 0 ? 0 : XShape()[0] - states + p_->tensor - 1;
  Copy(X() + " + " + std::to_string(row * units), Y(),
       {YShape().elements(), 1, 1});
}

// --- attention ---------------------------------------------------------------

void CModel::Attend() {
  helpers_.Add("attend");
  const int64_t heads = p_->heads, values = XShape(1)[0];
  const float trained = p_->gamma != nullptr ? floats_[p_->gamma->offset] : 1;
  const Shape mask = p_->masked ? XShape(3) : Shape{1, 1};
  const std::string numbers = Numbers(
      {heads, XShape()[0], values, XShape()[1] / heads, YShape()[1] / heads,
       p_->causal, mask[0] > 1 ? mask[1] : 0, mask[1] > 1});
  const std::string scores = NewBuffer(values);
  Call("attend(%s, %s, %s, %s, %s, %s, %s, %s)", X().c_str(), X(1).c_str(),
       X(2).c_str(), p_->masked ? X(3).c_str() : "0", Y().c_str(),
       numbers.c_str(), CNumber(p_->factor * trained).c_str(), scores.c_str());
}

void CModel::Positions() {
  const Shape& x = XShape();
  const int64_t sequence = x[x.rank() - 2] * x.back();
  Copy(Weight(p_->kernel), Y(),
       {x.elements() / sequence, 0, sequence, sequence, 1, 1});
}

void CModel::Gather() {
  helpers_.Add("gather");
  const std::string kernel = Weight(p_->kernel);
  Call("gather(%s, %s, %lld, %s, %lld, %lld)", X().c_str(), Y().c_str(),
       static_cast<long long>(XShape().elements()), kernel.c_str(),
       static_cast<long long>(p_->kernel->shape[0]),
       static_cast<long long>(p_->kernel->shape[1]));
}

void CModel::Sound() {
  const CSoundCall call = MakeSoundCall(*p_->layer, XShape());
  helpers_.Add(call.helpers);
  std::string arguments = X() + ", " + Y();
  for (const CSoundCall::Array& array : call.arrays) {
    arguments += ", " + (array.ints.empty() ? Values(array.floats)
                                            : Numbers(array.ints));
  }
  Call("%s(%s, %s)", call.function, arguments.c_str(),
       NewBuffer(call.scratch).c_str());
}

}  // namespace ringlet
