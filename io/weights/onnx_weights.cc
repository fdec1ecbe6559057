// Elements in other files are compared with the lengths of these files before
// memory is allocated.

#include "onnx_weights.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/text.h"
#include "../files/path.h"
#include "onnx_weight_finder.h"

namespace ringlet {
namespace {

// Returns the elements, `size` bytes each, of an array of this shape with its
// axes permuted: axis i of the result is axis axes[i] of `stored`.
std::vector<unsigned char> Transposed(const std::vector<unsigned char>& stored,
                                      const Shape& shape,
                                      const std::vector<int>& axes,
                                      size_t size) {
  const int rank = shape.rank();
  size_t step[Shape::kMaxRank];
  int64_t index[Shape::kMaxRank] = {};
  const Shape permuted = Permuted(shape, axes);
  for (int i = 0; i < rank; ++i) {
    step[i] = size;
    for (int k = axes[static_cast<size_t>(i)] + 1; k < rank; ++k) {
      step[i] *= static_cast<size_t>(shape[k]);
    }
  }
  std::vector<unsigned char> permuted_bytes(stored.size());
  size_t from = 0;
  for (size_t to = 0; to < permuted_bytes.size(); to += size) {
    std::memcpy(permuted_bytes.data() + to, stored.data() + from, size);
    for (int i = rank - 1; i >= 0; --i) {
      from += step[i];
      if (++index[i] < permuted[i]) break;
      from -= step[i] * static_cast<size_t>(permuted[i]);
      index[i] = 0;
    }
  }
  return permuted_bytes;
}

// Returns the first `count` numbers of int32_data, each as two bytes.
std::vector<unsigned char> Unpacked(const std::vector<unsigned char>& varints,
                                    size_t count) {
  std::vector<unsigned char> unpacked(2 * count);
  size_t at = 0;
  uint32_t value = 0;
  int shift = 0;
  for (const unsigned char byte : varints) {
    if (shift < 16) value |= uint32_t{byte & 0x7fu} << shift;
    shift += 7;
    if (byte >= 0x80 || at == unpacked.size()) continue;
    StoreLittle(static_cast<uint16_t>(value), unpacked.data() + at);
    at += 2;
    value = 0;
    shift = 0;
  }
  return unpacked;
}

// Removes the byte between two floats that are fields of their own.
void RemoveKeys(std::vector<unsigned char>* stored) {
  size_t to = 0;
  for (size_t from = 0; from < stored->size(); ++from) {
    if (from % 5 < 4) (*stored)[to++] = (*stored)[from];
  }
  stored->resize(to);
}

// Returns these of `num_blocks` equal blocks, one after another.
std::vector<unsigned char> SelectBlocks(
    const std::vector<unsigned char>& stored, const std::vector<int>& blocks,
    int num_blocks) {
  const size_t size = stored.size() / static_cast<size_t>(num_blocks);
  std::vector<unsigned char> selected;
  selected.reserve(size * blocks.size());
  for (const int block : blocks) {
    const unsigned char* const from =
        stored.data() + static_cast<size_t>(block) * size;
    selected.insert(selected.end(), from, from + size);
  }
  return selected;
}

}  // namespace

Status OnnxWeights::Open(FileSystem* files, const std::string& path) {
  *this = OnnxWeights();
  path_ = path;
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  OnnxFileGraph graph;
  RINGLET_RETURN_IF_ERROR(
      ReadOnnxGraph(file.get(), &graph).Annotate("%s", path.c_str()));
  files_[""] = std::move(file);
  is_from_pytorch_ = graph.producer == kPyTorch;
  std::vector<OnnxZeros> zeros;
  RINGLET_RETURN_IF_ERROR(FindOnnxWeights(graph, &tensors_, &weights_, &zeros)
                              .Annotate("%s", path.c_str()));
  IndexNames();
  for (const StoredTensor& tensor : tensors_) {
    RINGLET_RETURN_IF_ERROR(
        OpenTensorFile(files, tensor, WeightOf(tensor).location));
  }
  for (const OnnxZeros& zero_tensor : zeros) {
    RINGLET_RETURN_IF_ERROR(
        OpenTensorFile(files, zero_tensor.tensor, zero_tensor.tensor.location));
    RINGLET_RETURN_IF_ERROR(CheckZeros(zero_tensor));
  }
  return FindDefaults();
}

// Opens the file of a tensor's elements, and checks that they are within it.
Status OnnxWeights::OpenTensorFile(FileSystem* files,
                                   const StoredTensor& tensor,
                                   const std::string& location) {
  if (location.empty()) return Status();
  const std::string name = Printable(tensor.name),
                    path = PathBeside(path_, location);
  if (path.empty()) {
    return Corruption(
        "%s: the data of '%s' are said to be in '%s', which is outside of the "
        "model's folder",
        path_.c_str(), name.c_str(), Printable(location).c_str());
  }
  std::shared_ptr<File>& file = files_[location];
  if (file == nullptr) {
    std::unique_ptr<File> opened;
    const Status status = files->Open(path, &opened);
    if (!status.ok()) {
      return Error(status.code(),
                   "%s: the data of '%s' are in another file: %s; copy it to "
                   "the model's folder, or export the model as one file "
                   "(external_data=False of torch.onnx.export)",
                   path_.c_str(), name.c_str(), status.message());
    }
    file = std::move(opened);
  }
  int64_t size = 0;
  RINGLET_RETURN_IF_ERROR(file->Size(&size).Annotate("%s", path_.c_str()));
  if (tensor.offset <= size && tensor.bytes <= size - tensor.offset) {
    return Status();
  }
  return Corruption("%s: '%s' has %" PRId64 " bytes from offset %" PRId64
                    " of %s, which has %" PRId64,
                    path_.c_str(), name.c_str(), tensor.bytes, tensor.offset,
                    Printable(path).c_str(), size);
}

Status OnnxWeights::CheckZeros(const OnnxZeros& zeros) const {
  const OnnxTensor& tensor = zeros.tensor;
  const Status error =
      InvalidArgument("%s: %s", path_.c_str(), zeros.error.c_str());
  if (!tensor.unread.empty()) return error;
  RINGLET_RETURN_IF_ERROR(CheckAddressable(path_, tensor));
  std::vector<unsigned char> stored(static_cast<size_t>(tensor.bytes));
  RINGLET_RETURN_IF_ERROR(
      files_.at(tensor.location)
          ->Read(tensor.offset, stored.data(), stored.size())
          .Annotate("%s", path_.c_str()));
  if (tensor.elements == OnnxElements::kFields) RemoveKeys(&stored);
  const bool all = std::all_of(stored.begin(), stored.end(),
                               [](unsigned char byte) { return byte == 0; });
  return all ? Status() : error;
}

Status OnnxWeights::FindDefaults() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const StoredTensor& tensor = tensors_[i];
    if (!weights_[i].may_be_identity ||
        DTypeOf(tensor.storage) != DType::kFloat32) {
      continue;
    }
    RINGLET_RETURN_IF_ERROR(CheckAddressable(path_, tensor));
    std::vector<float> floats(static_cast<size_t>(tensor.shape.elements()));
    RINGLET_RETURN_IF_ERROR(Read(tensor, floats.data()));
    const float identity = EndsWith(tensor.name, ".weight") ? 1 : 0;
    weights_[i].is_identity =
        std::all_of(floats.begin(), floats.end(),
                    [identity](float f) { return f == identity; });
  }
  return Status();
}

Status OnnxWeights::Read(const StoredTensor& tensor, void* elements) const {
  if (!tensor.unread.empty()) {
    return InvalidArgument("%s: '%s' is %s, which is not read", path_.c_str(),
                           Printable(tensor.name).c_str(),
                           Printable(tensor.unread).c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckAddressable(path_, tensor));
  const OnnxWeight& weight = WeightOf(tensor);
  const auto count = static_cast<size_t>(weight.file_shape.elements());
  std::vector<unsigned char> stored(static_cast<size_t>(tensor.bytes));
  RINGLET_RETURN_IF_ERROR(
      files_.at(weight.location)
          ->Read(tensor.offset, stored.data(), stored.size())
          .Annotate("%s", path_.c_str()));
  if (weight.elements == OnnxElements::kInts) stored = Unpacked(stored, count);
  if (weight.elements == OnnxElements::kFields) RemoveKeys(&stored);
  if (!weight.axes.empty()) {
    stored = Transposed(stored, weight.file_shape, weight.axes,
                        SizeOf(tensor.storage));
  }
  if (!weight.blocks.empty()) {
    stored = SelectBlocks(stored, weight.blocks, weight.num_blocks);
  }
  DecodeElements(tensor.storage, stored.data(),
                 static_cast<size_t>(tensor.shape.elements()), elements);
  return Status();
}

}  // namespace ringlet
