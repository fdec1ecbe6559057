// DataPart: one file of a RUN.json's data, of an input or of an output.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_DATA_PART_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_DATA_PART_H_

#include <optional>
#include <string>
#include <vector>

#include "io/keras/field_reader.h"
#include "ringlet/dataset.h"

namespace ringlet {

// An input's values, or an output's targets: NPY, IDX or CSV, by its name.
struct DataPart {
  std::string name;  // the layer of the input or output, "" if by order
  std::string path;
  std::optional<Scale> scale;  // none if not given
};

// Reads "scale" and "offset".
void ReadScale(FieldReader* fields, std::optional<Scale>* scale);
// Reads x or y: *path if the field is one path, and otherwise *parts.
void ReadParts(const char* key, const std::string& folder, FieldReader* fields,
               std::string* path, std::vector<DataPart>* parts);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_DATA_PART_H_
