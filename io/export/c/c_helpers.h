// The text of the functions that a model in C calls.
//
// A file has only the functions that it uses.

#ifndef RINGLET_IO_EXPORT_C_C_HELPERS_H_
#define RINGLET_IO_EXPORT_C_C_HELPERS_H_

#include <cstdint>
#include <string>

#include "../lowering.h"
#include "ringlet/layers.h"

namespace ringlet {

// One bit for each function; some names join it with those of functions that it
// calls.
enum CHelper : uint32_t {
  kCSigmoid = 1,
  kCHardSigmoid = 2,
  kCMish = 4,
  kCErf = 8,
  kCLog1p = 16,
  kCLogBit = 32,
  kCLog = kCLogBit | kCLog1p,
  kCRoot = 64,
  kCConv = 128,
  kCPool = 256,
  kCCopy = 512,
  kCMerge = 1024,
  kCAffine = 2048,
  kCNormalizeBit = 4096,
  kCNormalize = kCNormalizeBit | kCRoot,
  kCSoftmax = 8192,
  kCLogSoftmaxBit = 16384,
  kCLogSoftmax = kCLogSoftmaxBit | kCLog,
  kCZero = 32768,
  kCRecurrenceBit = 65536,
  // 131072 and the next three: see CStepBit.
  kCGather = 2097152,
  kCConvTranspose = 4194304,
  kCAttendBit = 8388608,
  kCAttend = kCAttendBit | kCSoftmax,
  kCResize = 16777216,
  kCFastPowers = 33554432,
  kCDirectPowers = 67108864,
  kCSpectrogram = 134217728,
  kCUnitNormalizeBit = 268435456,
  kCStft = 536870912,
  kCUnitNormalize = kCUnitNormalizeBit | kCRoot,
  kCGroupNormalizeBit = 1073741824,
  kCGroupNormalize = kCGroupNormalizeBit | kCRoot,
  kCMask = 2147483648,
};

constexpr uint32_t CStepBit(Cell cell) {
  return 131072u << static_cast<uint32_t>(cell);
}

// The operation of a PReLU in merge(). Its other operations are those of Merge,
// except for kAverage.
constexpr int kCMergePRelu = 5;
static_assert(kCMergePRelu == static_cast<int>(Merge::kAverage));

// A constant: "0.5f".
std::string CNumber(float value);
// `bytes` as a string: "a\"b".
std::string CString(const std::string& bytes);

// The functions of these bits; each precedes its uses.
std::string CHelpers(uint32_t needed);

// A function that replaces n numbers x by the expression.
std::string CFunction(const std::string& name, const std::string& expression);

// The expression of an activation of one number x; null if there is none. Adds
// the bits that it needs to *needed.
const char* CExpression(Activation activation, uint32_t* needed);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_HELPERS_H_
