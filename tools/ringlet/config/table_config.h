// The fields of a RUN.json's data for a table: its columns and their values.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_TABLE_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_TABLE_CONFIG_H_

#include "io/keras/field_reader.h"
#include "ringlet/readers.h"

namespace ringlet {

// The values that "sample_weight" takes. With IDX and NPY it is a file of
// weights.
constexpr char kSampleWeightTakes[] =
    "a file's path (NPY), or for a CSV a column's name or number";

// Reads the fields of a CSV file, without its path.
void ReadTable(FieldReader* fields, CsvOptions* table);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_TABLE_CONFIG_H_
