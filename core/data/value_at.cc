#include "value_at.h"

#include <cstring>
#include <type_traits>

#include "element_types.h"

namespace ringlet {

double ValueAt(DType dtype, const unsigned char* raw, int64_t i) {
  double value = 0;
  WithType(dtype, [&](auto* type) {
    std::remove_const_t<std::remove_pointer_t<decltype(type)>> element;
    std::memcpy(&element, raw + i * int64_t{sizeof(element)}, sizeof(element));
    value = static_cast<double>(element);
  });
  return value;
}

}  // namespace ringlet
