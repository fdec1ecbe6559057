// FieldLog: which fields a reader of JSON knows, reported by the reader itself.
//
// Internal to io/ and tools/. A reader that is given Json::Asking(&log) in
// place of a text takes its defaults and notes in the log what it would have
// taken, so that docs/reference.md says what the readers do.

#ifndef RINGLET_IO_KERAS_FIELD_LOG_H_
#define RINGLET_IO_KERAS_FIELD_LOG_H_

#include <string>
#include <vector>

namespace ringlet {

struct FieldInfo {
  std::string path;      // of the object that has it: "strategy"
  std::string name;      // "timeout"
  std::string takes;     // "a number in [0.1, 1000000]"; "" where not said
  std::string standard;  // the default, as JSON
  bool required = false;
  bool null = false;     // null too
  bool only = false;     // Keras takes more
  bool ignored = false;  // anything, and nothing is made of it
};

class FieldLog {
 public:
  // The entry of this field, new where it is not there.
  FieldInfo* At(const std::string& path, const std::string& name) {
    for (FieldInfo& field : fields_) {
      if (field.path == path && field.name == name) return &field;
    }
    fields_.emplace_back();
    fields_.back().path = path;
    fields_.back().name = name;
    return &fields_.back();
  }
  // In the order in which they were asked for.
  const std::vector<FieldInfo>& fields() const { return fields_; }

 private:
  std::vector<FieldInfo> fields_;
};

// One row of a table of names: a class, and its fields.
struct ClassInfo {
  std::vector<std::string> names;  // all that it is known by
  std::string refusal;             // why it is refused; "" where it is not
  std::vector<FieldInfo> fields;
};

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_FIELD_LOG_H_
