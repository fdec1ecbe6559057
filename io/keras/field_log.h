// FieldLog: a list of the fields that a reader of JSON accepts.
//
// A reader that gets Json::ForDescription(&log) in the place of a text records
// its fields in the log and uses their defaults. So docs/reference.md describes
// what the readers do.

#ifndef RINGLET_IO_KERAS_FIELD_LOG_H_
#define RINGLET_IO_KERAS_FIELD_LOG_H_

#include <string>
#include <vector>

namespace ringlet {

struct FieldInfo {
  std::string path;      // the path of the object with the field: "strategy"
  std::string name;      // "timeout"
  std::string takes;     // "a number in [0.1, 1000000]"; empty if unknown
  std::string standard;  // the default, as JSON
  bool required = false;
  bool null = false;     // null is permitted
  bool only = false;     // Keras permits more values
  bool ignored = false;  // any value is permitted and ignored
};

class FieldLog {
 public:
  // The entry of this field; a new one if there is none.
  FieldInfo* At(const std::string& path, const std::string& name) {
    for (FieldInfo& field : fields_) {
      if (field.path == path && field.name == name) return &field;
    }
    fields_.emplace_back();
    fields_.back().path = path;
    fields_.back().name = name;
    return &fields_.back();
  }
  // The fields in the order of reading.
  const std::vector<FieldInfo>& fields() const { return fields_; }

 private:
  std::vector<FieldInfo> fields_;
};

// One row of a table of names: a class and its fields.
struct ClassInfo {
  std::vector<std::string> names;  // all names of the class
  std::string refusal;             // why it is refused; empty if it is not
  std::vector<FieldInfo> fields;
};

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_FIELD_LOG_H_
