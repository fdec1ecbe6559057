// The functions that a model in C calls, as text.
//
// Internal to io/deploy. A file has those that it uses.

#ifndef RINGLET_IO_DEPLOY_C_HELPERS_H_
#define RINGLET_IO_DEPLOY_C_HELPERS_H_

#include <cstdint>
#include <string>

#include "../../core/layers/layers.h"

namespace ringlet {

// A bit each.
enum CHelper : uint32_t {
  kCSigmoid = 1,
  kCHardSigmoid = 2,
  kCMish = 4,
  kCErf = 8,
  kCLog1p = 16,
  kCLog = 32 | kCLog1p,
  kCRoot = 64,
  kCConv = 128,
  kCPool = 256,
  kCCopy = 512,
  kCMerge = 1024,
  kCAffine = 2048,
  kCNormalize = 4096 | kCRoot,
  kCSoftmax = 8192,
  kCLogSoftmax = 16384 | kCLog,
  kCZero = 32768,
};

// A constant: "0.5f".
std::string CNumber(float value);

// Of these bits, in an order in which each stands before its uses.
std::string CHelpers(uint32_t needed);

// An activation of one number x; null: it is none. *needed gets its bits.
const char* CExpression(Activation activation, uint32_t* needed);

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_C_HELPERS_H_
