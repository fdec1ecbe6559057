// Reads the reference cases of tests/reference: safetensors files computed with
// PyTorch, whose metadata holds one JSON object that describes the case.

#ifndef RINGLET_TESTS_SUPPORT_REFERENCE_H_
#define RINGLET_TESTS_SUPPORT_REFERENCE_H_

#include <cjson/cJSON.h>
#include <dirent.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/shape.h"

namespace ringlet {

struct ReferenceTensor {
  Shape shape;
  std::vector<float> floats;
  std::vector<int32_t> ints;
};

struct Json {
  std::shared_ptr<cJSON> root;
  const cJSON* at = nullptr;

  static Json Parse(const std::string& text) {
    Json j;
    j.root.reset(cJSON_Parse(text.c_str()), cJSON_Delete);
    j.at = j.root.get();
    return j;
  }
  Json operator[](const char* key) const {
    return {root, cJSON_GetObjectItemCaseSensitive(at, key)};
  }
  Json operator[](int i) const { return {root, cJSON_GetArrayItem(at, i)}; }
  int size() const { return cJSON_GetArraySize(at); }
  bool has(const char* key) const {
    return cJSON_GetObjectItemCaseSensitive(at, key) != nullptr;
  }
  double number() const { return at->valuedouble; }
  std::string text() const { return at->valuestring; }
  std::string json() const {
    char* const printed = cJSON_PrintUnformatted(at);
    const std::string copy = printed;
    cJSON_free(printed);
    return copy;
  }
  bool truth() const { return cJSON_IsTrue(at); }
};

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

// The paths of all cases whose names begin with `prefix`, sorted.
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
  const Json json = Json::Parse(all.substr(8, header));
  Reference reference;
  for (const cJSON* item = json.at->child; item != nullptr; item = item->next) {
    const Json entry = {json.root, item};
    if (std::string(item->string) == "__metadata__") {
      reference.about = Json::Parse(entry["case"].text());
      continue;
    }
    ReferenceTensor tensor;
    for (int i = 0; i < entry["shape"].size(); ++i) {
      tensor.shape.Append(static_cast<int64_t>(entry["shape"][i].number()));
    }
    const size_t begin =
        8 + header + static_cast<size_t>(entry["data_offsets"][0].number());
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
    reference.tensors[item->string] = tensor;
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
