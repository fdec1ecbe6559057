#include "weight_settings_json.h"

namespace ringlet {
namespace {

// Makes the initializer without a config; `a` and `b` are the fields for its
// numbers, "" for none.
struct Maker {
  Initializer (*make)();
  const char* a;
  const char* b;
};

Initializer DefaultScaling() {
  return VarianceScaling(1, Initializer::Mode::kFanIn,
                         Initializer::Distribution::kTruncatedNormal);
}

constexpr Named<Maker> kInitializers[] = {
    {"Zeros zeros", {Zeros, "", ""}},
    {"Ones ones", {Ones, "", ""}},
    {"Constant constant", {[] { return Constant(0); }, "value", ""}},
    {"RandomUniform random_uniform uniform",
     {[] { return RandomUniform(); }, "minval", "maxval"}},
    {"RandomNormal random_normal normal",
     {[] { return RandomNormal(); }, "mean", "stddev"}},
    {"TruncatedNormal truncated_normal",
     {[] { return TruncatedNormal(); }, "mean", "stddev"}},
    {"VarianceScaling variance_scaling", {DefaultScaling, "scale", ""}},
    {"GlorotUniform glorot_uniform", {GlorotUniform, "", ""}},
    {"GlorotNormal glorot_normal", {GlorotNormal, "", ""}},
    {"HeUniform he_uniform", {HeUniform, "", ""}},
    {"HeNormal he_normal", {HeNormal, "", ""}},
    {"LecunUniform lecun_uniform", {LecunUniform, "", ""}},
    {"LecunNormal lecun_normal", {LecunNormal, "", ""}},
    {"Orthogonal orthogonal OrthogonalInitializer",
     {[] { return Orthogonal(); }, "gain", ""}},
};

constexpr Named<Initializer::Mode> kModes[] = {
    {"fan_in", Initializer::Mode::kFanIn},
    {"fan_out", Initializer::Mode::kFanOut},
    {"fan_avg", Initializer::Mode::kFanAvg},
};

constexpr Named<Initializer::Distribution> kDistributions[] = {
    {"uniform", Initializer::Distribution::kUniform},
    // "normal" is the older name in Keras 2.
    {"truncated_normal normal", Initializer::Distribution::kTruncatedNormal},
    {"untruncated_normal", Initializer::Distribution::kUntruncatedNormal},
};

Status ReadInitializerClass(const KerasObject& object,
                            Initializer* initializer) {
  Maker maker{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kInitializers, object.path, "initializer", object.name, &maker));
  FieldReader fields(object.config, object.config_path);
  Initializer new_initializer = maker.make();
  const bool scales = maker.make == DefaultScaling;
  if (*maker.a != 0) {
    fields.Float(maker.a, scales ? kPositive : kAnyNumber, &new_initializer.a);
  }
  if (*maker.b != 0) fields.Float(maker.b, &new_initializer.b);
  if (scales) {
    fields.Choice("mode", kModes, &new_initializer.mode);
    fields.Choice("distribution", kDistributions,
                  &new_initializer.distribution);
  }
  fields.Ignore({"seed"});
  fields.OnlyText("dtype", "float32");
  *initializer = new_initializer;
  return fields.Finish();
}

bool AreEqual(const Initializer& a, const Initializer& b) {
  return a.kind == b.kind && a.a == b.a && a.b == b.b && a.mode == b.mode &&
         a.distribution == b.distribution;
}

// Returns the row of the first equal initializer without a config or, without
// such a row, the row of this kind that has a config.
const Named<Maker>& RowOf(const Initializer& i) {
  const Named<Maker>* row = nullptr;
  for (const auto& entry : kInitializers) {
    const Initializer default_initializer = entry.value.make();
    const bool fits = *entry.value.a != 0 ? default_initializer.kind == i.kind
                                          : AreEqual(default_initializer, i);
    if (fits && (row == nullptr || *entry.value.a == 0)) row = &entry;
  }
  return *row;
}

std::string InitializerName(const Initializer& i) {
  return Words(RowOf(i).names)[0];
}

}  // namespace

void ReadInitializer(const char* key, FieldReader* fields,
                     Initializer* initializer) {
  KerasObject object;
  if (fields->Object(key, "an initializer",
                     AsJson(InitializerName(*initializer)), &object)) {
    fields->Fail(ReadInitializerClass(object, initializer));
  }
}

void WriteInitializer(JsonWriter* w, const Initializer& i) {
  const Maker& maker = RowOf(i).value;
  WriteKerasObject(w, "keras.initializers", InitializerName(i).c_str(), [&] {
    if (*maker.a != 0) w->Key(maker.a).Float(i.a);
    if (*maker.b != 0) w->Key(maker.b).Float(i.b);
    if (maker.make == DefaultScaling) {
      w->Key("mode").String(FirstName(kModes, i.mode));
      w->Key("distribution").String(FirstName(kDistributions, i.distribution));
    }
    if (i.kind != Initializer::Kind::kConstant) w->Key("seed").Null();
  });
}

std::vector<ClassInfo> DescribeInitializers() {
  return Describe(kInitializers, [](const KerasObject& object) {
    Initializer initializer;
    (void)ReadInitializerClass(object, &initializer);
  });
}

}  // namespace ringlet
