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

#include "../files/file_system.h"
#include "ringlet/status.h"
#include "safetensors.h"

namespace ringlet {

class SafetensorsIndex : public TensorFile {
 public:
  // Opens every shard once. kCorruption or kNotFound names the shard and, if it
  // is about one, the tensor. The tensors are in the order of the index.
  Status Open(FileSystem* files, const std::string& path) override;
  // Like SafetensorsReader::Read.
  Status Read(const StoredTensor& tensor, void* elements) const override;

 private:
  Status AddTensor(FileSystem* files, const std::string& name,
                   const std::string& shard);

  std::vector<SafetensorsReader> shards_;
  std::map<std::string, size_t> by_path_;  // indices of shards
  std::vector<size_t> shard_of_;           // each tensor
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_SAFETENSORS_INDEX_H_
