#include <limits>

#include "compile_json.h"
#include "keras_json.h"
#include "schedule_json.h"

namespace ringlet {
namespace {

using Maker = Optimizer (*)();

// The last name of each is as TensorFlow 2.11 registered it.
constexpr Named<Maker> kOptimizers[] = {
    {"SGD sgd Custom>SGD", [] { return SGD(); }},
    {"RMSprop rmsprop Custom>RMSprop", [] { return RMSprop(); }},
    {"Adam adam Custom>Adam", [] { return Adam(); }},
    {"AdamW adamw Custom>AdamW", [] { return AdamW(); }},
};

// A number > 0, or null for none.
void ReadClip(const char* key, FieldReader* fields, float* value) {
  if (fields->Has(key)) fields->Float(key, kPositive, value);
}

// Steps to add up, or null for none.
void ReadAccumulation(FieldReader* fields, Optimizer* o) {
  constexpr char kKey[] = "gradient_accumulation_steps";
  int64_t steps = 0;
  if (fields->Has(kKey)) {
    fields->Int(kKey, 2, std::numeric_limits<int>::max(), &steps);
  }
  o->gradient_accumulation_steps = static_cast<int>(steps);
}

// What all of Keras's optimizers have.
void ReadCommon(FieldReader* fields, Optimizer* o) {
  ReadLearningRate(fields, &o->learning_rate);
  if (o->weight_decay != 0 || fields->Has("weight_decay")) {
    fields->Float("weight_decay", kNotNegative, &o->weight_decay);
  }
  ReadClip("clipnorm", fields, &o->clipnorm);
  ReadClip("global_clipnorm", fields, &o->global_clipnorm);
  ReadClip("clipvalue", fields, &o->clipvalue);
  fields->OnlyBool("use_ema", false);
  ReadAccumulation(fields, o);
  fields->OnlyNull({"loss_scale_factor"});
  fields->OnlyNumber("decay", 0);  // Keras 2's own schedule
  fields->Ignore({"name", "ema_momentum", "ema_overwrite_frequency",
                  "jit_compile", "is_legacy_optimizer"});
}

void ReadOwn(FieldReader* fields, Optimizer* o) {
  switch (o->kind) {
    case Optimizer::Kind::kSgd:
      fields->Float("momentum", kShare, &o->momentum);
      return fields->Bool("nesterov", &o->nesterov);
    case Optimizer::Kind::kRmsprop:
      fields->Float("rho", kShare, &o->rho);
      fields->Float("momentum", kShare, &o->momentum);
      fields->Float("epsilon", kNotNegative, &o->epsilon);
      return fields->Bool("centered", &o->centered);
    case Optimizer::Kind::kAdam:
      fields->Float("beta_1", kShareBelow1, &o->beta_1);
      fields->Float("beta_2", kShareBelow1, &o->beta_2);
      fields->Float("epsilon", kNotNegative, &o->epsilon);
      return fields->Bool("amsgrad", &o->amsgrad);
  }
}

void WriteClip(JsonWriter* w, const char* key, float value) {
  w->Key(key);
  if (value > 0) {
    w->Float(value);
  } else {
    w->Null();
  }
}

void WriteOwn(JsonWriter* w, const Optimizer& o) {
  switch (o.kind) {
    case Optimizer::Kind::kSgd:
      w->Key("momentum").Float(o.momentum).Key("nesterov").Bool(o.nesterov);
      return;
    case Optimizer::Kind::kRmsprop:
      w->Key("rho").Float(o.rho).Key("momentum").Float(o.momentum);
      w->Key("epsilon").Float(o.epsilon).Key("centered").Bool(o.centered);
      return;
    case Optimizer::Kind::kAdam:
      w->Key("beta_1").Float(o.beta_1).Key("beta_2").Float(o.beta_2);
      w->Key("epsilon").Float(o.epsilon).Key("amsgrad").Bool(o.amsgrad);
      return;
  }
}

Status ReadOptimizer(const KerasObject& object, Optimizer* optimizer) {
  Maker make = nullptr;
  RINGLET_RETURN_IF_ERROR(
      Choose(kOptimizers, object.path, "optimizer", object.name, &make));
  Optimizer made = make();
  FieldReader fields(object.config, object.config_path);
  ReadCommon(&fields, &made);
  ReadOwn(&fields, &made);
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  RINGLET_RETURN_IF_ERROR(
      made.Check().Annotate("%s", object.config_path.c_str()));
  *optimizer = made;
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
  WriteKerasObject(&w, "keras.optimizers", optimizer.name, [&] {
    w.Key("name").String(optimizer.name);
    WriteLearningRate(&w, optimizer.learning_rate);
    w.Key("weight_decay");
    // AdamW takes no null.
    if (optimizer.weight_decay != 0 ||
        std::string(optimizer.name) == AdamW().name) {
      w.Float(optimizer.weight_decay);
    } else {
      w.Null();
    }
    WriteClip(&w, "clipnorm", optimizer.clipnorm);
    WriteClip(&w, "global_clipnorm", optimizer.global_clipnorm);
    WriteClip(&w, "clipvalue", optimizer.clipvalue);
    w.Key("use_ema").Bool(false).Key("ema_momentum").Float(0.99f);
    w.Key("ema_overwrite_frequency").Null().Key("loss_scale_factor").Null();
    w.Key("gradient_accumulation_steps");
    if (optimizer.accumulates()) {
      w.Int(optimizer.gradient_accumulation_steps);
    } else {
      w.Null();
    }
    WriteOwn(&w, optimizer);
  });
  return w.text();
}

std::vector<ClassInfo> DescribeOptimizers() {
  return Describe(kOptimizers, [](const KerasObject& object) {
    Optimizer optimizer;
    (void)ReadOptimizer(object, &optimizer);
  });
}

}  // namespace ringlet
