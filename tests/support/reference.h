// Reads the reference cases of tests/reference: safetensors files computed with
// PyTorch. Their metadata has a JSON object that describes the case.

#ifndef RINGLET_TESTS_SUPPORT_REFERENCE_H_
#define RINGLET_TESTS_SUPPORT_REFERENCE_H_

#include <dirent.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/json.h"
#include "ringlet/shape.h"

namespace ringlet {

struct ReferenceTensor {
  Shape shape;
  std::vector<float> floats;
  std::vector<int32_t> ints;
};

// Returns item `index` of a list, from 0. A negative index or one behind the
// end gives no value.
inline Json At(const Json& list, int index) {
  Json item = list.first();
  for (; index > 0 && item; --index) item = item.next();
  return index == 0 ? item : Json();
}

// `value` as text again.
inline void WriteJson(const Json& value, JsonWriter* out) {
  switch (value.kind()) {
    case Json::Kind::kNone:
    case Json::Kind::kNull:
      out->Null();
      return;
    case Json::Kind::kBool:
      out->Bool(value.as_bool());
      return;
    case Json::Kind::kNumber:
      out->Number(value.number());
      return;
    case Json::Kind::kString:
      out->String(value.text());
      return;
    case Json::Kind::kArray:
      out->BeginArray();
      for (Json m = value.first(); m; m = m.next()) WriteJson(m, out);
      out->EndArray();
      return;
    case Json::Kind::kObject:
      out->BeginObject();
      for (Json m = value.first(); m; m = m.next()) {
        WriteJson(m, &out->Key(m.key()));
      }
      out->EndObject();
      return;
  }
}

struct Reference {
  std::map<std::string, ReferenceTensor> tensors;
  Json about;

  const std::vector<float>& floats(const std::string& name) const {
    return tensors.at(name).floats;
  }
  bool has(const std::string& name) const { return tensors.count(name) > 0; }
};

inline std::string ReferenceFolder() {
  const char* source = std::getenv("RINGLET_SOURCE");
  return std::string(source == nullptr ? "." : source) + "/tests/reference";
}

// The paths of all cases with names that begin with `prefix`, sorted.
// RINGLET_SOURCE names the source tree; without it the tests run there.
inline std::vector<std::string> ReferenceCases(const std::string& prefix) {
  std::vector<std::string> paths;
  const std::string folder = ReferenceFolder();
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return paths;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.compare(0, prefix.size(), prefix) == 0 &&
        name.find(".safetensors") != std::string::npos) {
      paths.push_back(folder + "/" + name);
    }
  }
  closedir(dir);
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline Reference LoadReference(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)),
                        std::istreambuf_iterator<char>());
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) {
    header = header << 8 | static_cast<unsigned char>(all[i]);
  }
  Json json;
  RINGLET_CHECK(Json::Parse(all.substr(8, header), path, &json).ok());
  Reference reference;
  for (Json entry = json.first(); entry; entry = entry.next()) {
    if (entry.key() == "__metadata__") {
      const Json about = entry["case"];
      RINGLET_CHECK(Json::Parse(about.text(), path, &reference.about).ok());
      continue;
    }
    ReferenceTensor tensor;
    for (Json dim = entry["shape"].first(); dim; dim = dim.next()) {
      tensor.shape.Append(static_cast<int64_t>(dim.number()));
    }
    const size_t begin =
        8 + header +
        static_cast<size_t>(entry["data_offsets"].first().number());
    const size_t n = static_cast<size_t>(tensor.shape.elements());
    const bool is_int = entry["dtype"].text() == "I32";
    for (size_t i = 0; i < n; ++i) {
      uint32_t bits = 0;
      for (int b = 3; b >= 0; --b) {
        bits = bits << 8 | static_cast<unsigned char>(all[begin + 4 * i + b]);
      }
      if (is_int) {
        tensor.ints.push_back(static_cast<int32_t>(bits));
      } else {
        float value;
        std::memcpy(&value, &bits, 4);
        tensor.floats.push_back(value);
      }
    }
    reference.tensors[entry.key()] = tensor;
  }
  return reference;
}

// max |a - b| / max |b|: the error relative to the tensor's own size.
inline double RelativeError(const std::vector<float>& a,
                            const std::vector<float>& b) {
  double error = a.size() == b.size() ? 0 : 1e9, size = 1e-30;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(double{a[i]} - b[i]);
    error = d == d ? std::max(error, d) : 1e9;
    size = std::max(size, std::abs(double{b[i]}));
  }
  return error / size;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_REFERENCE_H_
