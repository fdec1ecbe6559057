// Prints as JSON what the readers of the library and of the program accept:
// classes with their fields, the fields of a RUN.json, and the names of Keras
// 3's classes. tools/reference/write.py makes docs/reference.md of it.

#include <cstdio>
#include <string>
#include <vector>

#include "io/keras/keras_json.h"
#include "io/keras/keras_names.h"
#include "tools/ringlet/config/callback_config.h"
#include "tools/ringlet/config/run_config.h"

namespace ringlet {
namespace {

void Write(JsonWriter* w, const FieldInfo& field) {
  w->BeginObject().Key("path").String(field.path);
  w->Key("name").String(field.name).Key("takes").String(field.takes);
  w->Key("default").String(field.standard);
  w->Key("required").Bool(field.required).Key("null").Bool(field.null);
  w->Key("only").Bool(field.only).Key("ignored").Bool(field.ignored);
  w->EndObject();
}

void Write(JsonWriter* w, const std::vector<FieldInfo>& fields) {
  w->BeginArray();
  for (const FieldInfo& field : fields) Write(w, field);
  w->EndArray();
}

struct Category {
  const char* name;  // the name in messages and keras_names.h
  std::vector<ClassInfo> classes;
};

void Write(JsonWriter* w, const Category& category) {
  w->BeginObject().Key("category").String(category.name);
  w->Key("classes").BeginArray();
  for (const ClassInfo& info : category.classes) {
    w->BeginObject().Key("names").List(info.names);
    w->Key("refusal").String(info.refusal).Key("fields");
    Write(w, info.fields);
    w->EndObject();
  }
  w->EndArray().Key("keras").List(KerasNames(category.name)).EndObject();
}

std::string Description() {
  const Category categories[] = {
      {"model", DescribeModels()},
      {"layer", DescribeLayers()},
      {"activation", DescribeActivations()},
      {"initializer", DescribeInitializers()},
      {"regularizer", DescribeRegularizers()},
      {"constraint", DescribeConstraints()},
      {"optimizer", DescribeOptimizers()},
      {"learning rate schedule", DescribeSchedules()},
      {"loss", DescribeLosses()},
      {"metric", DescribeMetrics()},
      {"callback", DescribeCallbacks()},
  };
  JsonWriter w;
  w.BeginObject().Key("categories").BeginArray();
  for (const Category& category : categories) Write(&w, category);
  w.EndArray().Key("run");
  Write(&w, DescribeRun());
  return w.EndObject().text();
}

}  // namespace
}  // namespace ringlet

int main() {
  std::printf("%s\n", ringlet::Description().c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}
