// SafetensorsIndex: the tensors of several safetensors files (shards), which a
// model.safetensors.index.json names.
//
// The index is a JSON object; its "weight_map" has the file name of each
// tensor, relative to the index's folder. Files are not trusted.

#ifndef RINGLET_IO_WEIGHTS_SAFETENSORS_INDEX_H_
#define RINGLET_IO_WEIGHTS_SAFETENSORS_INDEX_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "../readers/storage.h"
#include "ringlet/files.h"
#include "ringlet/status.h"
#include "safetensors.h"

namespace ringlet {

class SafetensorsIndex {
 public:
  // Opens every shard once. kCorruption or kNotFound names the shard and, if it
  // is about one, the tensor.
  Status Open(FileSystem* files, const std::string& path);

  // In the order of the index.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* Find(const std::string& name) const;
  // As SafetensorsReader::Read.
  Status Read(const StoredTensor& tensor, void* elements) const;

 private:
  Status AddTensor(FileSystem* files, const std::string& name,
                   const std::string& shard);

  std::string path_;
  std::vector<SafetensorsReader> shards_;
  std::map<std::string, size_t> by_path_;  // of shards
  std::vector<StoredTensor> tensors_;
  std::vector<size_t> shard_of_;  // each tensor
  std::map<std::string, size_t> by_name_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_SAFETENSORS_INDEX_H_
