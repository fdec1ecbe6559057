#include "tensor_file.h"

namespace ringlet {

const StoredTensor* TensorFile::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const StoredTensor* TensorFile::IndexNames() {
  const StoredTensor* duplicate = nullptr;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const bool added = by_name_.emplace(tensors_[i].name, i).second;
    if (!added && duplicate == nullptr) duplicate = &tensors_[i];
  }
  return duplicate;
}

}  // namespace ringlet
