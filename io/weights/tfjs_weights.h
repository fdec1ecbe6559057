// TfjsWeights: the weights of a layers model of TensorFlow.js.
//
// model.json has groups of weights (weightsManifest). The bytes of a group
// follow one another in its shards, files in the folder of model.json. A weight
// may begin in one shard and end in the next. Quantized weights are float32 in
// memory. Files are not trusted: all sizes are compared with the sizes of the
// shards before memory is allocated.

#ifndef RINGLET_IO_WEIGHTS_TFJS_WEIGHTS_H_
#define RINGLET_IO_WEIGHTS_TFJS_WEIGHTS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "../../core/base/json.h"
#include "../files/file_system.h"
#include "../readers/tensor_file.h"
#include "ringlet/status.h"

namespace ringlet {

class TfjsWeights : public TensorFile {
 public:
  // kCorruption names the place where model.json breaks a rule, or a shard that
  // is too short or too long. The tensors' offsets count the bytes of all
  // shards, in the order of the manifest.
  Status Open(FileSystem* files, const std::string& path) override;
  Status Read(const StoredTensor& tensor, void* elements) const override;

 private:
  struct Shard {
    std::string path;
    int64_t begin = 0, bytes = 0;
  };
  // A whole number of `bytes` represents number * scale + min.
  struct Quantization {
    size_t bytes = 1;
    double scale = 1, min = 0;
  };

  Status ReadGroup(FileSystem* files, const Json& group,
                   const std::string& where);
  Status ReadShards(FileSystem* files, const Json& paths,
                    const std::string& where);
  Status ReadWeight(const Json& json, const std::string& where,
                    StoredTensor* tensor);
  Status ReadQuantization(const Json& json, const std::string& where,
                          StoredTensor* tensor);
  Status ReadBytes(const StoredTensor& tensor, unsigned char* bytes) const;

  FileSystem* files_ = nullptr;
  std::vector<Shard> shards_;
  std::set<std::string> paths_;                    // the shards' paths
  std::map<std::string, Quantization> quantized_;  // keys: the tensors' names
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_TFJS_WEIGHTS_H_
