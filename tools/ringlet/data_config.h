// DataConfig: the examples of a RUN.json, or of a command's arguments.
//
// Internal to tools/ringlet/.

#ifndef RINGLET_TOOLS_RINGLET_DATA_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_DATA_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/status.h"
#include "core/data/dataset.h"
#include "core/model/model.h"

namespace ringlet {

// An input's values, or an output's targets: NPY, IDX or CSV, by its name.
struct DataPart {
  std::string name;  // of the input's or output's layer; "": by order
  std::string path;
  Scale scale;
};

// One of three forms; the paths of the other two are empty.
struct DataConfig {
  std::string images, labels;  // IDX
  bool in_memory = true;       // false: examples are read when asked for
  std::string x, y;            // NPY …
  // … or, of several inputs or outputs, these; the other may be one path.
  std::vector<DataPart> inputs, targets;
  std::string csv;
  int64_t csv_values = 0;  // not 0: CsvOptions::values
  std::string label_name;  // column of the CSV's label …
  int64_t label_column = -1;
  std::optional<bool> header;  // none: told from the first line
  char separator = ',';
  std::string sample_weight;  // NPY, of IDX and NPY; "": none
  std::string weight_name;    // column of the CSV's weights …
  std::optional<int> weight_column;
  Scale scale;
  AutoShardPolicy policy = AutoShardPolicy::kAuto;
  std::vector<int64_t> own_examples;  // Dataset::OwnExamples; empty: none
  bool empty() const {
    return images.empty() && x.empty() && csv.empty() && inputs.empty();
  }
  bool has_parts() const { return !inputs.empty() || !targets.empty(); }
};

// Of "data". Relative paths are relative to `folder`; nothing is opened.
Status ReadBothData(const Json& json, const std::string& folder,
                    DataConfig* train, DataConfig* validation);

// The examples, scaled, not yet in batches; of a compiled model, whose inputs
// and outputs parts are named by.
Dataset OpenData(const DataConfig& data, const Model& model);
// Of data with parts, without `targets` the inputs alone.
Dataset OpenParts(const DataConfig& data, const Model& model, bool targets);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_CONFIG_H_
