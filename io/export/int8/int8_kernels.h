// The functions of an int8 model, as text for a C file and compiled here. So
// the results of a file can be measured before it is written.
//
// A number q means scale (q - zero). int32 sums are scaled by multiplier /
// 2^shift, rounded to nearest.

#ifndef RINGLET_IO_EXPORT_INT8_INT8_KERNELS_H_
#define RINGLET_IO_EXPORT_INT8_INT8_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "../lowering.h"

namespace ringlet {
namespace int8 {

// One bit for each function.
enum Kernel : uint32_t {
  kConv = 1,
  kPool = 2,
  kMerge = 4,
  kMap = 8,
  kCopy = 16,
  kFill = 32,
  kConvTranspose = 64,
  kGather = 128,
  kQuantize = 256,
  kSoftmax = 512,
  kNormalize = 1024,
  kAttend = 2048,
  kRecur = 4096,  // and the StepBit of each cell
  kScaledQuantize = 131072,
};
constexpr uint32_t StepBit(Cell cell) {
  return 8192u << static_cast<uint32_t>(cell);
}

// The names of the numbers in the geometry of a convolution or a pool, also for
// functions of floats.
std::string GeometryText();
// The text of the functions of these bits that use integers, and of the
// function that converts to floats.
std::string KernelText(uint32_t needed);
// The text of the functions of these bits that use floats between integer sums.
// These functions call quantize(), and expf() or root().
std::string FloatKernelText(uint32_t needed);
// The text and the name of the function for a step of a recurrence. The
// function calls add_state(c, h, first, z, n), which adds n sums of the state,
// from sum number `first` on, to z.
const char* StepText(Cell cell);
const char* StepName(Cell cell);

// The value of an argument: a pointer, an int or a float.
class Value {
 public:
  Value() = default;
  Value(const void* pointer) : pointer_(pointer) {}  // NOLINT: any argument
  Value(int number) : int_(number) {}                // NOLINT
  Value(float number) : float_(number) {}            // NOLINT
  template <typename T>
  T As() const {
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<T>(const_cast<void*>(pointer_));
    } else if constexpr (std::is_same_v<T, float>) {
      return float_;
    } else {
      return int_;
    }
  }

 private:
  const void* pointer_ = nullptr;
  int int_ = 0;
  float float_ = 0;
};

// A function of the C file that is compiled here, too.
struct Function {
  uint32_t kernels;  // those that need its text
  const char* text;
  const char* name = nullptr;  // null if no step calls it
  void (*call)(const Value* arguments) = nullptr;
};
const Function& FunctionOf(Kernel kernel);
const Function& FloatFunctionOf(Kernel kernel);  // of FloatKernelText

template <typename... P, size_t... i>
void CallWith(void (*function)(P...), const Value* arguments,
              std::index_sequence<i...>) {
  function(arguments[i].As<P>()...);
}
template <typename... P>
void CallWith(void (*function)(P...), const Value* arguments) {
  CallWith(function, arguments, std::index_sequence_for<P...>());
}
template <auto function>
void Call(const Value* arguments) {
  CallWith(function, arguments);
}

// The operation of a merge.
enum MergeOperation : uint8_t {
  kMergeAdd,
  kMergeMultiply,
  kMergeLarger,
  kMergeSmaller,
  kMergeSlopes,  // a, times b below 0
};

// w and r have a row and a factor for each number of the gates. The state is
// quantized to int16 of at most `levels`, so that sums fit int32. q has room
// for the larger of features and units.
struct Recurrence {
  Cell cell;
  const int8_t *w, *r;
  const float *w_factors, *r_factors, *b;
  int units, gates, levels;
  Activation activation, gate;
  int16_t* q;
};

// --- between the caller's floats and int8 ------------------------------------

void Quantize(const float* x, int8_t* y, int n, float factor, int zero);
// y = x factor + shift, rounded, with one factor and one shift for each
// channel. The factors and shifts include the scale and the zero of y.
void QuantizeScaled(const float* x, int8_t* y, int n, int channels,
                    const float* factors, const float* shifts);
void Dequantize(const int8_t* x, float* y, int n, float scale, int zero);
// Converts floats to row numbers for gather.
void TakeTokens(const float* x, int32_t* y, int n);

}  // namespace int8
}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_INT8_KERNELS_H_
