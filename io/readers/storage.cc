#include "storage.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "../../core/base/byte_order.h"
#include "../../core/base/check.h"
#include "../../core/base/float16.h"
#include "../../core/base/text.h"

namespace ringlet {

namespace {

struct StorageTraits {
  Storage storage;
  const char* name;
  size_t bytes;
  DType dtype;
};
constexpr StorageTraits kStorages[] = {
    {Storage::kF32, "F32", 4, DType::kFloat32},
    {Storage::kF64, "F64", 8, DType::kFloat64},
    {Storage::kI32, "I32", 4, DType::kInt32},
    {Storage::kI64, "I64", 8, DType::kInt64},
    {Storage::kU8, "U8", 1, DType::kUint8},
    {Storage::kF16, "F16", 2, DType::kFloat32},
    {Storage::kBF16, "BF16", 2, DType::kFloat32},
};

const StorageTraits& TraitsOf(Storage storage) {
  return kStorages[static_cast<size_t>(storage)];
}

}  // namespace

const char* StorageName(Storage storage) { return TraitsOf(storage).name; }
size_t SizeOf(Storage storage) { return TraitsOf(storage).bytes; }
DType DTypeOf(Storage storage) { return TraitsOf(storage).dtype; }

Storage StorageOf(DType dtype) {
  for (const StorageTraits& traits : kStorages) {
    if (traits.dtype == dtype) return traits.storage;  // exact types come first
  }
  RINGLET_CHECK(false);
  return Storage::kF32;
}

void EncodeElements(Storage storage, const void* elements, size_t count,
                    unsigned char* bytes) {
  const float* floats = static_cast<const float*>(elements);
  if (storage == Storage::kF16) {
    for (size_t i = 0; i < count; ++i) {
      StoreLittle(Float16OfFloat(floats[i]), bytes + 2 * i);
    }
  } else if (storage == Storage::kBF16) {
    for (size_t i = 0; i < count; ++i) {
      StoreLittle(BFloat16OfFloat(floats[i]), bytes + 2 * i);
    }
  } else if (count > 0) {
    std::memcpy(bytes, elements, count * SizeOf(storage));
    SwapToLittle(bytes, SizeOf(storage), count);
  }
}

void DecodeElements(Storage storage, const unsigned char* bytes, size_t count,
                    void* elements) {
  float* floats = static_cast<float*>(elements);
  const auto half = [bytes](size_t i) {
    return LoadLittle<uint16_t>(bytes + 2 * i);
  };
  if (storage == Storage::kF16) {
    for (size_t i = 0; i < count; ++i) floats[i] = FloatOfFloat16(half(i));
  } else if (storage == Storage::kBF16) {
    for (size_t i = 0; i < count; ++i) floats[i] = FloatOfBFloat16(half(i));
  } else if (count > 0) {
    std::memcpy(elements, bytes, count * SizeOf(storage));
    SwapToLittle(elements, SizeOf(storage), count);
  }
}

bool StorageNamed(const std::string& name, Storage* storage) {
  for (const StorageTraits& traits : kStorages) {
    if (name == traits.name) {
      *storage = traits.storage;
      return true;
    }
  }
  return false;
}

bool SameInMemory(Storage storage) {
  return storage == Storage::kU8 ||
         (!kBigEndian && storage != Storage::kF16 && storage != Storage::kBF16);
}

int64_t StoredBytes(const Shape& shape, Storage storage) {
  constexpr int64_t kLargest = int64_t{1} << 53;  // exact in JSON's numbers
  int64_t bytes = static_cast<int64_t>(SizeOf(storage));
  bool is_empty = false;
  for (int i = 0; i < shape.rank(); ++i) {
    is_empty |= shape[i] == 0;
    // Sizes beside an axis of 0 are checked too, since their products are
    // computed.
    const int64_t size = std::max<int64_t>(shape[i], 1);
    if (bytes > kLargest / size) return -1;
    bytes *= size;
  }
  return is_empty ? 0 : bytes;
}

Status CheckAddressable(const std::string& path, const StoredTensor& tensor,
                        uint64_t max_bytes) {
  const uint64_t elements = static_cast<uint64_t>(tensor.shape.elements());
  const uint64_t element_bytes =
      std::max(SizeOf(tensor.storage), SizeOf(DTypeOf(tensor.storage)));
  if (elements <= max_bytes / element_bytes) return Status();
  return ResourceExhausted(
      "%s: tensor '%s' of %" PRIu64 " elements of %" PRIu64
      " bytes does not fit into the memory of this machine's processes; use a "
      "64-bit system",
      path.c_str(), Printable(tensor.name).c_str(), elements, element_bytes);
}

}  // namespace ringlet
