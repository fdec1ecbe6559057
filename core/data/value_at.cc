#include "value_at.h"

#include <cstring>

namespace ringlet {

double ValueAt(DType dtype, const unsigned char* raw, int64_t i) {
  switch (dtype) {
    case DType::kUint8:
      return raw[i];
    case DType::kInt32: {
      int32_t v;
      std::memcpy(&v, raw + 4 * i, 4);
      return v;
    }
    case DType::kInt64: {
      int64_t v;
      std::memcpy(&v, raw + 8 * i, 8);
      return static_cast<double>(v);
    }
    case DType::kFloat32: {
      float v;
      std::memcpy(&v, raw + 4 * i, 4);
      return v;
    }
    case DType::kFloat64: {
      double v;
      std::memcpy(&v, raw + 8 * i, 8);
      return v;
    }
  }
  return 0;
}

}  // namespace ringlet
