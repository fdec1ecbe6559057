// The description of a model's data as text, for the metadata of its file.
//
// docs/checkpoint_format.md has the format.

#ifndef RINGLET_IO_CHECKPOINT_DATA_DESCRIPTION_H_
#define RINGLET_IO_CHECKPOINT_DATA_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../weights/safetensors.h"
#include "ringlet/dataset.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// The most bytes of the names of columns, or of classes, in a model file.
constexpr size_t kMaxNamesBytes = 128 << 10;
// False if a model file cannot have these names: they are no UTF-8, have a NUL,
// or take more bytes.
bool CanBeSaved(const std::vector<std::string>& names,
                size_t max_bytes = kMaxNamesBytes);

// The most bytes of a vocabulary's tokens in a model file. A larger vocabulary,
// or a vocabulary with tokens that the file cannot have, is kept as a digest.
constexpr size_t kMaxVocabularyBytes = 2 * kMaxNamesBytes;
std::string VocabularyDigest(const std::vector<std::string>& vocabulary);

// Leaves out names that cannot be saved, and a scale that is not finite.
std::string ToJson(const DataDescription& description);

// The text is not trusted. Members that are not known are ignored. `inputs` is
// the number of the model's input values that windows must fit, or zero.
Status DataDescriptionFromJson(const std::string& text, int64_t inputs,
                               DataDescription* description);

// Reads the description in a file's metadata; none if the file has none.
Status ReadDataDescription(const SafetensorsReader& file, const Model& model,
                           std::optional<DataDescription>* description);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_DATA_DESCRIPTION_H_
