#include "weight_settings_json.h"

namespace ringlet {
namespace {

enum class RegularizerClass : uint8_t { kL1, kL2, kL1L2 };

constexpr Named<RegularizerClass> kRegularizers[] = {
    {"L1 l1", RegularizerClass::kL1},
    {"L2 l2", RegularizerClass::kL2},
    {"L1L2 l1l2 l1_l2", RegularizerClass::kL1L2},
};

Status ReadRegularizerClass(const KerasObject& object,
                            Regularizer* regularizer) {
  RegularizerClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kRegularizers, object.path, "regularizer", object.name, &which));
  FieldReader fields(object.config, object.config_path);
  const bool both = which == RegularizerClass::kL1L2 && !object.name_only;
  *regularizer = Regularizer();
  if (which != RegularizerClass::kL2) {
    regularizer->l1 = both ? 0 : 0.01f;
    fields.Float("l1", kNotNegative, &regularizer->l1);
  }
  if (which != RegularizerClass::kL1) {
    regularizer->l2 = both ? 0 : 0.01f;
    fields.Float("l2", kNotNegative, &regularizer->l2);
  }
  return fields.Finish();
}

}  // namespace

void ReadRegularizer(const char* key, FieldReader* fields,
                     Regularizer* regularizer) {
  KerasObject object;
  if (fields->MarkOptional(key) &&
      fields->Object(key, "a regularizer", "null", &object)) {
    fields->Fail(ReadRegularizerClass(object, regularizer));
  }
}

void WriteRegularizer(JsonWriter* w, const Regularizer& r) {
  if (r.empty()) {
    w->Null();
    return;
  }
  const char* name = r.l2 == 0 ? "L1" : r.l1 == 0 ? "L2" : "L1L2";
  WriteKerasObject(w, "keras.regularizers", name, [&] {
    if (r.l1 != 0) w->Key("l1").Float(r.l1);
    if (r.l2 != 0) w->Key("l2").Float(r.l2);
  });
}

std::vector<ClassInfo> DescribeRegularizers() {
  return Describe(kRegularizers, [](const KerasObject& object) {
    Regularizer regularizer;
    (void)ReadRegularizerClass(object, &regularizer);
  });
}

}  // namespace ringlet
