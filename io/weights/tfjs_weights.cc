// Offsets of tensors count over all shards of the file. Names of shards come
// from the file: ShardPath permits only files below the folder, each under one
// name. No size is used before it was compared with the shards' own.

#include "tfjs_weights.h"

#include <algorithm>
#include <cfloat>
#include <cinttypes>
#include <cmath>
#include <memory>

#include "../../core/base/byte_order.h"
#include "../../core/base/text.h"
#include "../files/atomic_file.h"
#include "../files/path.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxModelJsonBytes = 1 << 20;
constexpr int kMaxJsonDepth = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 53;  // the most bytes of all shards

// A type of TensorFlow.js. Only the size of types that are not read is known.
struct TfjsType {
  const char* name;
  Storage storage;
  int64_t bytes;
  bool read;
};
constexpr TfjsType kTypes[] = {
    // name, storage, bytes, read
    {"float32", Storage::kF32, 4, true},   {"int32", Storage::kI32, 4, true},
    {"float16", Storage::kF16, 2, true},   {"bool", Storage::kU8, 1, true},
    {"uint8", Storage::kU8, 1, true},      {"uint16", Storage::kU8, 2, false},
    {"complex64", Storage::kU8, 8, false},
};

const TfjsType* TypeOf(const std::string& name) {
  for (const TfjsType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

// Finds the shard's path beside model.json, or below its folder. Names that
// could mean the file of another name ("a//b", "a/./b") are refused, so that
// each shard is read once.
Status ShardPath(const std::string& model, const std::string& where,
                 const Json& json, std::string* path) {
  std::string name = json.text();
  if (StartsWith(name, "./")) name.erase(0, 2);
  const std::string parts = "/" + name + "/";
  path->clear();
  if (parts.find("//") == std::string::npos &&
      parts.find("/./") == std::string::npos &&
      name.find('\\') == std::string::npos) {
    *path = PathBeside(model, name);
  }
  if (!path->empty()) return Status();
  return Corruption("%s: '%s' is not the path of a file in the folder",
                    where.c_str(), Printable(json.text()).c_str());
}

Status ReadTensorShape(const Json& json, const std::string& where,
                       Shape* shape) {
  bool good = json.is_array() && json.size() <= Shape::kMaxRank;
  *shape = Shape();
  for (Json m = json.first(); good && m; m = m.next()) {
    int64_t size = 0;
    good = m.ToInt64(&size) && size >= 0;
    if (good) shape->Append(size);
  }
  if (good) return Status();
  return Corruption("%s: \"shape\" must be a list of at most %d sizes",
                    where.c_str(), Shape::kMaxRank);
}

// The shard of a group that seems to be cut: all but the last have one size.
template <typename Shards>
const auto& ShortShard(const Shards& shards, size_t first) {
  int64_t longest = 0;
  for (size_t i = first; i < shards.size(); ++i) {
    longest = std::max(longest, shards[i].bytes);
  }
  while (first + 1 < shards.size() && shards[first].bytes == longest) ++first;
  return shards[first];
}

std::string PlaceName(const std::string& where, const char* key,
                      int64_t index) {
  return where + key + "[" + std::to_string(index) + "]";
}

}  // namespace

Status TfjsWeights::Open(FileSystem* files, const std::string& path) {
  *this = TfjsWeights();
  files_ = files;
  path_ = path;
  std::string text;
  RINGLET_RETURN_IF_ERROR(
      ReadWholeFile(files, path, kMaxModelJsonBytes, &text));
  Json json;
  RINGLET_RETURN_IF_ERROR(Json::Parse(text, path, &json, kMaxJsonDepth));
  const Json manifest = json["weightsManifest"];
  if (!manifest.is_array() || manifest.size() == 0) {
    return Corruption(
        "%s: has no \"weightsManifest\", which lists the weights of a layers "
        "model of TensorFlow.js",
        path.c_str());
  }
  int64_t i = 0;
  for (Json group = manifest.first(); group; group = group.next()) {
    RINGLET_RETURN_IF_ERROR(ReadGroup(
        files, group, PlaceName(path + ": ", "weightsManifest", i++)));
  }
  const StoredTensor* const duplicate = IndexNames();
  if (duplicate == nullptr) return Status();
  return Corruption("%s: weightsManifest has two weights '%s'", path.c_str(),
                    Printable(duplicate->name).c_str());
}

Status TfjsWeights::ReadGroup(FileSystem* files, const Json& group,
                              const std::string& where) {
  const size_t first = shards_.size();
  const int64_t begin =
      shards_.empty() ? 0 : shards_.back().begin + shards_.back().bytes;
  RINGLET_RETURN_IF_ERROR(ReadShards(files, group["paths"], where));
  const Shard& last = shards_.back();
  const int64_t end = last.begin + last.bytes;
  if (!group["weights"].is_array()) {
    return Corruption("%s: \"weights\" must be a list", where.c_str());
  }
  int64_t at = begin, i = 0;
  for (Json m = group["weights"].first(); m; m = m.next()) {
    StoredTensor tensor;
    const std::string place = PlaceName(where, ".weights", i++);
    RINGLET_RETURN_IF_ERROR(ReadWeight(m, place, &tensor));
    tensor.offset = at;
    if (tensor.bytes > end - at) {
      return Corruption(
          "%s: is cut short, or another model's: weight '%s' of "
          "%s ends %" PRId64 " bytes behind the shards",
          ShortShard(shards_, first).path.c_str(),
          Printable(tensor.name).c_str(), path_.c_str(),
          tensor.bytes - (end - at));
    }
    at += tensor.bytes;
    tensors_.push_back(tensor);
  }
  if (at == end) return Status();
  return Corruption("%s: has %" PRId64
                    " bytes more than the weights that %s lists",
                    last.path.c_str(), end - at, path_.c_str());
}

Status TfjsWeights::ReadShards(FileSystem* files, const Json& paths,
                               const std::string& where) {
  if (!paths.is_array() || paths.size() == 0) {
    return Corruption("%s: \"paths\" must be a list of files", where.c_str());
  }
  int64_t i = 0;
  for (Json m = paths.first(); m; m = m.next()) {
    Shard shard;
    const std::string place = PlaceName(where, ".paths", i++);
    RINGLET_RETURN_IF_ERROR(ShardPath(path_, place, m, &shard.path));
    if (!paths_.insert(shard.path).second) {
      return Corruption("%s: names %s a second time", place.c_str(),
                        shard.path.c_str());
    }
    std::unique_ptr<File> file;
    RINGLET_RETURN_IF_ERROR(
        files->Open(shard.path, &file).Annotate("%s", place.c_str()));
    RINGLET_RETURN_IF_ERROR(file->Size(&shard.bytes));
    if (!shards_.empty()) {
      shard.begin = shards_.back().begin + shards_.back().bytes;
    }
    if (shard.bytes > kMaxBytes - shard.begin) {
      return Corruption("%s: %" PRId64
                        " bytes are too many: the files of a model may have "
                        "at most 2^53",
                        shard.path.c_str(), shard.bytes);
    }
    shards_.push_back(shard);
  }
  return Status();
}

Status TfjsWeights::ReadWeight(const Json& json, const std::string& where,
                               StoredTensor* tensor) {
  tensor->name = json["name"].text();
  if (tensor->name.empty()) {
    return Corruption("%s: \"name\" must be a string", where.c_str());
  }
  const std::string named = where + " '" + Printable(tensor->name) + "'";
  RINGLET_RETURN_IF_ERROR(
      ReadTensorShape(json["shape"], named, &tensor->shape));
  if (json["quantization"].is_object()) {
    return ReadQuantization(json, named, tensor);
  }
  const std::string name = json["dtype"].text();
  const TfjsType* const type = TypeOf(name);
  if (type == nullptr) {
    return Corruption("%s: dtype '%s' is not supported", named.c_str(),
                      Printable(name).c_str());
  }
  tensor->storage = type->storage;
  if (!type->read) tensor->unread = type->name;
  const int64_t elements = StoredBytes(tensor->shape, Storage::kU8);
  if (elements < 0 || elements > kMaxBytes / type->bytes) {
    return Corruption("%s: shape %s is too large", named.c_str(),
                      tensor->shape.ToString().c_str());
  }
  tensor->bytes = elements * type->bytes;
  return Status();
}

Status TfjsWeights::ReadQuantization(const Json& json, const std::string& where,
                                     StoredTensor* tensor) {
  const Json quantization = json["quantization"];
  const std::string dtype = quantization["dtype"].text();
  if (json["dtype"].text() != "float32" ||
      (dtype != "float16" && dtype != "uint8" && dtype != "uint16")) {
    return Corruption(
        "%s: is %s as %s; float32 as float16, uint8 or uint16 is "
        "supported",
        where.c_str(), Printable(json["dtype"].text()).c_str(),
        Printable(dtype).c_str());
  }
  tensor->storage = dtype == "float16" ? Storage::kF16 : Storage::kF32;
  tensor->bytes = StoredBytes(tensor->shape,
                              dtype == "uint8" ? Storage::kU8 : Storage::kF16);
  if (tensor->bytes < 0) {
    return Corruption("%s: shape %s is too large", where.c_str(),
                      tensor->shape.ToString().c_str());
  }
  if (dtype == "float16") return Status();
  Quantization& values = quantized_[tensor->name];
  values.bytes = dtype == "uint8" ? 1 : 2;
  values.scale = quantization["scale"].number();
  values.min = quantization["min"].number();
  const double max_stored = dtype == "uint8" ? 255 : 65535;
  const bool fits =
      std::fabs(values.min) <= FLT_MAX &&
      std::fabs(values.min + max_stored * values.scale) <= FLT_MAX;
  if (quantization["scale"].is_number() && quantization["min"].is_number() &&
      fits) {
    return Status();
  }
  return Corruption("%s: \"scale\" and \"min\" must be numbers within float32",
                    where.c_str());
}

Status TfjsWeights::ReadBytes(const StoredTensor& tensor,
                              unsigned char* bytes) const {
  const int64_t end = tensor.offset + tensor.bytes;
  auto shard = std::partition_point(
      shards_.begin(), shards_.end(), [&](const Shard& before) {
        return before.begin + before.bytes <= tensor.offset;
      });
  for (; shard != shards_.end() && shard->begin < end; ++shard) {
    const int64_t from = std::max(tensor.offset, shard->begin);
    const int64_t to = std::min(end, shard->begin + shard->bytes);
    std::unique_ptr<File> file;
    RINGLET_RETURN_IF_ERROR(files_->Open(shard->path, &file));
    RINGLET_RETURN_IF_ERROR(file->Read(from - shard->begin,
                                       bytes + (from - tensor.offset),
                                       static_cast<size_t>(to - from)));
  }
  return Status();
}

Status TfjsWeights::Read(const StoredTensor& tensor, void* elements) const {
  if (!tensor.unread.empty()) {
    return InvalidArgument("%s: '%s': %s is not read", path_.c_str(),
                           Printable(tensor.name).c_str(),
                           tensor.unread.c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckAddressable(path_, tensor));
  std::vector<unsigned char> stored(static_cast<size_t>(tensor.bytes));
  RINGLET_RETURN_IF_ERROR(ReadBytes(tensor, stored.data()));
  const size_t count = static_cast<size_t>(tensor.shape.elements());
  const auto found = quantized_.find(tensor.name);
  if (found == quantized_.end()) {
    DecodeElements(tensor.storage, stored.data(), count, elements);
    return Status();
  }
  const Quantization& values = found->second;
  float* const floats = static_cast<float*>(elements);
  for (size_t i = 0; i < count; ++i) {
    const int number = values.bytes == 1
                           ? stored[i]
                           : LoadLittle<uint16_t>(stored.data() + 2 * i);
    floats[i] = static_cast<float>(number * values.scale + values.min);
  }
  return Status();
}

}  // namespace ringlet
