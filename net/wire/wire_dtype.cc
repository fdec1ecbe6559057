#include "wire_dtype.h"

#include <strings.h>

#include "frame.h"

namespace ringlet {

const char* WireDtypeName(WireDtype dtype) {
  switch (dtype) {
    case WireDtype::kFloat32:
      return "float32";
    case WireDtype::kBfloat16:
      return "bfloat16";
    case WireDtype::kFloat16:
      return "float16";
  }
  return "unknown";
}

int WireBytesPerFloat(WireDtype dtype, int64_t floats) {
  constexpr int64_t kShort = kEagerBytes / sizeof(float);
  return dtype == WireDtype::kFloat32 || floats <= kShort ? 4 : 2;
}

Status WireDtypeFromName(const std::string& name, WireDtype* out) {
  for (const WireDtype dtype :
       {WireDtype::kFloat32, WireDtype::kBfloat16, WireDtype::kFloat16}) {
    if (strcasecmp(name.c_str(), WireDtypeName(dtype)) != 0) continue;
    *out = dtype;
    return Status();
  }
  return InvalidArgument(
      "wire dtype '%s' is none of float32, bfloat16, float16", name.c_str());
}

}  // namespace ringlet
