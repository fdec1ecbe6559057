// The description of a model's data as text, for the metadata of its file.
//
// docs/checkpoint_format.md has the format.

#ifndef RINGLET_IO_CHECKPOINT_DATA_DESCRIPTION_H_
#define RINGLET_IO_CHECKPOINT_DATA_DESCRIPTION_H_

#include <optional>
#include <string>
#include <vector>

#include "../weights/safetensors.h"
#include "ringlet/dataset.h"
#include "ringlet/status.h"

namespace ringlet {

// False if a model file cannot have these names: they are no UTF-8, have a NUL,
// or take more than 128 KiB.
bool CanBeSaved(const std::vector<std::string>& names);
// Of the label's name, which may take 4 KiB.
bool CanBeSaved(const std::string& label);

// Leaves out names that cannot be saved, and a scale that is not finite.
std::string ToJson(const DataDescription& description);

// The text is not trusted. Members that are not known are ignored.
Status DataDescriptionFromJson(const std::string& text,
                               DataDescription* description);

// None if the file has none.
Status ReadDataDescription(const SafetensorsReader& file,
                           std::optional<DataDescription>* description);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_DATA_DESCRIPTION_H_
