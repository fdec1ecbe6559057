// CInterface: the functions and names of a model in C that a program uses.
//
// The parts of the file that do not depend on the kind of its arithmetic:
// declarations, the names of the classes, the scale of raw values, and the
// anomaly score.

#ifndef RINGLET_IO_EXPORT_C_C_INTERFACE_H_
#define RINGLET_IO_EXPORT_C_C_INTERFACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "c_table.h"
#include "ringlet/dataset.h"
#include "ringlet/export.h"
#include "ringlet/model.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// An argument of the functions.
struct CArgument {
  std::string name;  // "in", or with the layer's name, if there are several
  Shape shape;
  bool tokens = false;  // whole numbers in int8
};

struct CInterface {
  std::string name;  // the prefix of the functions' names
  std::vector<CArgument> inputs, outputs;
  const Shape& in() const { return inputs[0].shape; }
  const Shape& out() const { return outputs[0].shape; }
  bool int8 = false;
  std::vector<std::string> classes;
  // Scales raw values; without it the caller scales them.
  std::optional<Scale> scale;
  // Set with `scale`, if raw values are not the input.
  std::optional<CTable> table;
  // The number of floats in the first argument.
  int64_t num_inputs() const {
    return table ? table->num_columns() : in().elements();
  }
  std::string InText() const {
    return table ? "columns of a table" : in().ToString();
  }
  size_t row_bytes() const {  // bytes beside the memory of the model
    return table ? sizeof(float) * static_cast<size_t>(in().elements()) : 0;
  }
  ReconstructionError anomaly_score = ReconstructionError::kNone;
  // The most examples of a step. 0 if the file does not train.
  int64_t batch = 0;
  int64_t targets = 0, state_bytes = 0;
  bool takes_classes = false;
};

// Returns an error if `model` does not fit the options.
Status MakeCInterface(const Model& model, const ExportCOptions& options,
                      CInterface* c);

// "MODEL" of "model".
std::string UpperName(const std::string& name);
// "   in:    ", for the first comment.
std::string CLabel(const std::string& name);
// "float* out".
std::string COutputs(const CInterface& c);
// CInputs returns "const float* in", and CNames of the inputs "in".
std::string CInputs(const CInterface& c);
std::string CNames(const std::vector<CArgument>& arguments);
// The function that trains, without a body.
std::string TrainSignature(const CInterface& c);
// The function of floats, without a body.
std::string PredictSignature(const CInterface& c);
// The function of int8 numbers, without a body.
std::string PredictInt8(const CInterface& c);
// The declarations of all functions and names, for the C file and its header.
std::string CDeclarations(const CInterface& c);
// The definitions of the names, and of the functions that do not call the
// model.
std::string CDefinitions(const CInterface& c);
// The functions that scale raw values. `begin` are the first lines of a body,
// `store` takes the number x as input i, and `end` calls the model.
std::string CPredictions(const CInterface& c, const std::string& begin,
                         const std::string& store, const std::string& end);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_INTERFACE_H_
