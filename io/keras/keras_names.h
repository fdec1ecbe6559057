// The names of Keras 3's classes. They separate names that ringlet does not
// support from misspelt ones.

#ifndef RINGLET_IO_KERAS_KERAS_NAMES_H_
#define RINGLET_IO_KERAS_KERAS_NAMES_H_

#include <string>
#include <vector>

namespace ringlet {

// The names of a category: "layer", "loss", "metric", "optimizer", "learning
// rate schedule", "callback", "activation", "initializer", "regularizer",
// "constraint", "interpolation". Other categories have no names.
std::vector<std::string> KerasNames(const std::string& category);

// Keras's spelling of `word`, ignoring capitals and "_" ("kl_divergence" is
// KLDivergence). Empty if Keras has no such name.
std::string KerasName(const std::string& category, const std::string& word);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_KERAS_NAMES_H_
