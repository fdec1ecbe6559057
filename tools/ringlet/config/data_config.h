// DataConfig: the examples of a RUN.json, or of a command's arguments.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_DATA_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_DATA_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "data_part.h"
#include "picture_config.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "text_config.h"
#include "timeseries_config.h"

namespace ringlet {

// One of five forms; the paths of the other forms are empty.
struct DataConfig {
  std::string images, labels;  // IDX
  bool in_memory = true;  // if false, all forms of data are read on request
  int64_t memory = 0;     // for Dataset::Memory; 0 without it
  std::string x, y;       // NPY
  // Instead of x or y, for several inputs or outputs.
  std::vector<DataPart> inputs, targets;
  std::string csv;
  CsvOptions table;            // its `classes` are also for NPY
  std::string sample_weight;   // NPY, with IDX and NPY; empty if there is none
  TimeseriesConfig windows;    // requires a single input and output
  TextConfig text;             // the text columns of a csv
  PictureConfig pictures;      // pictures in folders, or of csv
  std::optional<Scale> scale;  // none if not given
  AutoShardPolicy policy = AutoShardPolicy::kAuto;
  std::vector<int64_t> own_examples;  // for Dataset::OwnExamples, or empty
  bool empty() const {
    return images.empty() && x.empty() && csv.empty() && inputs.empty() &&
           pictures.empty();
  }
  bool has_parts() const { return !inputs.empty() || !targets.empty(); }
};

// Reads the field "data". Relative paths are relative to `folder`. Opens no
// file.
Status ReadBothData(const Json& json, const std::string& folder,
                    DataConfig* train, DataConfig* validation);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_DATA_CONFIG_H_
