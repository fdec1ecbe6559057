// The fields of a single class are in its row of
// core/objective/optimizer_table.cc. The fields that all classes have are here.
// Reading checks what Optimizer::Check checks, too, so that an error names the
// field of the JSON.

#include <limits>

#include "../../core/objective/optimizer_table.h"
#include "compile_json.h"
#include "config_field_json.h"
#include "keras_json.h"
#include "schedule_json.h"

namespace ringlet {
namespace {

NameTable OptimizerNames() {
  NameTable names;
  for (const OptimizerClass& row : AllOptimizers()) {
    names.Add(row.name, row.aliases);
  }
  return names;
}

// Reads a number > 0, or null for no clipping.
void ReadClip(const char* key, FieldReader* fields, float* value) {
  if (fields->MarkOptional(key)) fields->Float(key, kPositive, value);
}

// Reads the number of steps, or null for no accumulation.
void ReadAccumulation(FieldReader* fields, Optimizer* o) {
  constexpr char kKey[] = "gradient_accumulation_steps";
  int64_t steps = 0;
  if (fields->MarkOptional(kKey)) {
    fields->Int(kKey, 2, std::numeric_limits<int>::max(), &steps);
  }
  o->gradient_accumulation_steps = static_cast<int>(steps);
}

// Without use_ema the other two fields have no effect, and are kept.
void ReadEma(FieldReader* fields, Optimizer* o) {
  fields->Bool("use_ema", &o->use_ema);
  fields->Float("ema_momentum", o->use_ema ? kFraction : kAnyNumber,
                &o->ema_momentum);
  constexpr char kKey[] = "ema_overwrite_frequency";
  int64_t every = 0;
  if (fields->MarkOptional(kKey)) {
    fields->Int(kKey, 1, std::numeric_limits<int>::max(), &every);
  }
  o->ema_overwrite_frequency = static_cast<int>(every);
}

// Reads the fields of all Keras optimizers.
void ReadCommon(FieldReader* fields, Optimizer* o) {
  ReadLearningRate(fields, &o->learning_rate);
  if (o->weight_decay != 0 || fields->MarkOptional("weight_decay")) {
    fields->Float("weight_decay", kNotNegative, &o->weight_decay);
  }
  ReadClip("clipnorm", fields, &o->clipnorm);
  ReadClip("global_clipnorm", fields, &o->global_clipnorm);
  ReadClip("clipvalue", fields, &o->clipvalue);
  ReadEma(fields, o);
  ReadAccumulation(fields, o);
  fields->OnlyNull({"loss_scale_factor"});
  fields->Ignore({"name", "jit_compile", "is_legacy_optimizer"});
}

void WriteClip(JsonWriter* w, const char* key, float value) {
  w->Key(key);
  if (value > 0) {
    w->Float(value);
  } else {
    w->Null();
  }
}

// 0 means none.
void WriteCount(JsonWriter* w, const char* key, int count) {
  w->Key(key);
  if (count != 0) {
    w->Int(count);
  } else {
    w->Null();
  }
}

Status ReadOptimizer(const KerasObject& object, Optimizer* optimizer) {
  size_t row = 0;
  RINGLET_RETURN_IF_ERROR(
      ChooseRow(OptimizerNames(), object.path, "optimizer", object.name, &row));
  Optimizer new_optimizer = AllOptimizers().first[row].make();
  FieldReader fields(object.config, object.config_path);
  ReadCommon(&fields, &new_optimizer);
  ReadFields(ClassOf(new_optimizer).fields, &new_optimizer, &fields);
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  RINGLET_RETURN_IF_ERROR(
      new_optimizer.Check().Annotate("%s", object.config_path.c_str()));
  *optimizer = new_optimizer;
  return Status();
}

}  // namespace

Status OptimizerFromJson(const Json& json, const std::string& path,
                         Optimizer* optimizer) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  return ReadOptimizer(object, optimizer);
}

std::string ToJson(const Optimizer& optimizer) {
  JsonWriter w;
  WriteKerasObject(&w, "keras.optimizers", optimizer.name(), [&] {
    w.Key("name").String(optimizer.name());
    WriteLearningRate(&w, optimizer.learning_rate);
    w.Key("weight_decay");
    // AdamW does not accept null.
    if (optimizer.weight_decay != 0 ||
        optimizer.kind == Optimizer::Kind::kAdamW) {
      w.Float(optimizer.weight_decay);
    } else {
      w.Null();
    }
    WriteClip(&w, "clipnorm", optimizer.clipnorm);
    WriteClip(&w, "global_clipnorm", optimizer.global_clipnorm);
    WriteClip(&w, "clipvalue", optimizer.clipvalue);
    w.Key("use_ema").Bool(optimizer.use_ema);
    w.Key("ema_momentum").Float(optimizer.ema_momentum);
    WriteCount(&w, "ema_overwrite_frequency",
               optimizer.ema_overwrite_frequency);
    w.Key("loss_scale_factor").Null();
    WriteCount(&w, "gradient_accumulation_steps",
               optimizer.gradient_accumulation_steps);
    WriteFields(ClassOf(optimizer).fields, optimizer, &w);
  });
  return w.text();
}

std::vector<ClassInfo> DescribeOptimizers() {
  return Describe(OptimizerNames(), [](const KerasObject& object) {
    Optimizer optimizer;
    (void)ReadOptimizer(object, &optimizer);
  });
}

}  // namespace ringlet
