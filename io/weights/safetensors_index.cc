#include "safetensors_index.h"

#include <cinttypes>

#include "../../core/base/json.h"
#include "../../core/base/text.h"
#include "../files/atomic_file.h"
#include "../files/file_kind.h"
#include "../files/path.h"

namespace ringlet {

Status SafetensorsIndex::Open(FileSystem* files, const std::string& path) {
  path_ = path;
  std::string text;
  Json json;
  RINGLET_RETURN_IF_ERROR(
      ReadWholeFile(files, path, FileKind::kMaxJsonBytes, &text));
  RINGLET_RETURN_IF_ERROR(Json::Parse(text, path, &json));
  const Json map = json["weight_map"];
  if (!map.is_object() || map.size() == 0) {
    return Corruption("%s: no \"weight_map\" of tensors and their files",
                      path.c_str());
  }
  if (map.size() > SafetensorsLimits::kTensors) {
    return Corruption("%s: more than %" PRId64 " tensors", path.c_str(),
                      SafetensorsLimits::kTensors);
  }
  for (Json m = map.first(); m; m = m.next()) {
    RINGLET_RETURN_IF_ERROR(AddTensor(files, m.key(), m.text()));
  }
  IndexNames();
  return Status();
}

Status SafetensorsIndex::AddTensor(FileSystem* files, const std::string& name,
                                   const std::string& shard) {
  const std::string path = PathBeside(path_, shard);
  if (path.empty()) {
    return Corruption(
        "%s: tensor '%s' is said to be in '%s', which is not a file of "
        "this folder",
        path_.c_str(), Printable(name).c_str(), Printable(shard).c_str());
  }
  const auto added = by_path_.emplace(path, shards_.size());
  const size_t number = added.first->second;
  if (added.second) {
    shards_.emplace_back();
    RINGLET_RETURN_IF_ERROR(shards_.back()
                                .Open(files, path)
                                .Annotate("%s: the file of tensor '%s'",
                                          path_.c_str(),
                                          Printable(name).c_str()));
  }
  const StoredTensor* const found = shards_[number].Find(name);
  if (found == nullptr) {
    return Corruption("%s: tensor '%s' is not in its file %s", path_.c_str(),
                      Printable(name).c_str(), path.c_str());
  }
  tensors_.push_back(*found);
  shard_of_.push_back(number);
  return Status();
}

Status SafetensorsIndex::Read(const StoredTensor& tensor,
                              void* elements) const {
  return shards_[shard_of_[IndexOf(tensor)]]
      .Read(tensor, elements)
      .Annotate("%s", path_.c_str());
}

}  // namespace ringlet
