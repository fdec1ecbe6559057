// The names of Keras 3's classes, so that those that ringlet lacks can be told
// from misspelt ones.
//
// Internal to io/ and tools/.

#ifndef RINGLET_IO_KERAS_KERAS_NAMES_H_
#define RINGLET_IO_KERAS_KERAS_NAMES_H_

#include <string>
#include <vector>

namespace ringlet {

// Of a family, as messages name it: "layer", "loss", "metric", "optimizer",
// "learning rate schedule", "callback", "activation", "initializer",
// "regularizer", "constraint". None of another.
std::vector<std::string> KerasNames(const std::string& family);

// Keras's own spelling of `word`, in which capitals and "_" do not count
// ("kl_divergence" is KLDivergence); "" where Keras has no such name.
std::string KerasName(const std::string& family, const std::string& word);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_KERAS_NAMES_H_
