#include "wire_dtype.h"

#include <strings.h>

#include "../../core/base/named.h"
#include "frame.h"

namespace ringlet {

constexpr Named<WireDtype> kWireDtypes[] = {
    {"float32", WireDtype::kFloat32},
    {"bfloat16", WireDtype::kBfloat16},
    {"float16", WireDtype::kFloat16},
};

const char* WireDtypeName(WireDtype dtype) {
  return NameIn(kWireDtypes, dtype);
}

int WireBytesPerFloat(WireDtype dtype, int64_t floats) {
  constexpr int64_t kShort = kEagerBytes / sizeof(float);
  return dtype == WireDtype::kFloat32 || floats <= kShort ? 4 : 2;
}

Status WireDtypeFromName(const std::string& name, WireDtype* out) {
  for (const Named<WireDtype>& entry : kWireDtypes) {
    if (strcasecmp(name.c_str(), entry.names) != 0) continue;
    *out = entry.value;
    return Status();
  }
  return InvalidArgument(
      "wire dtype '%s' is none of float32, bfloat16, float16", name.c_str());
}

}  // namespace ringlet
