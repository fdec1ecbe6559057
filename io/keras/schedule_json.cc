#include "schedule_json.h"

#include <algorithm>
#include <limits>

namespace ringlet {
namespace {

constexpr int64_t kMaxSteps = int64_t{1} << 53;

constexpr Named<LearningRate::Kind> kSchedules[] = {
    {"ExponentialDecay", LearningRate::Kind::kExponentialDecay},
    {"CosineDecay", LearningRate::Kind::kCosineDecay},
    {"PiecewiseConstantDecay", LearningRate::Kind::kPiecewiseConstantDecay},
};

void ReadBoundaries(FieldReader* fields, LearningRate* rate) {
  const char kTakes[] = "a list of growing whole numbers";
  fields->Require("boundaries");
  const Json list = fields->Take("boundaries", kTakes);
  if (!list) return;
  bool good = list.is_array();
  for (Json m = list.first(); good && m; m = m.next()) {
    int64_t step = 0;
    good = m.ToInt64(&step) &&
           (rate->boundaries.empty() || step >= rate->boundaries.back());
    rate->boundaries.push_back(step);
  }
  if (!good) fields->MustBe("boundaries", kTakes);
}

void ReadValues(FieldReader* fields, LearningRate* rate) {
  const char kTakes[] = "a list of numbers >= 0, one more than boundaries";
  fields->Require("values");
  const Json list = fields->Take("values", kTakes);
  if (!list) return;
  constexpr double kMost = std::numeric_limits<float>::max();
  bool good = list.is_array();
  for (Json m = list.first(); good && m; m = m.next()) {
    good = m.kind() == Json::Kind::kNumber && m.number() >= 0 &&
           m.number() <= kMost;
    if (good) rate->values.push_back(static_cast<float>(m.number()));
  }
  if (!good || rate->values.size() != rate->boundaries.size() + 1) {
    fields->MustBe("values", kTakes);
  }
  if (!rate->values.empty()) rate->initial = rate->values[0];
}

void ReadCosineDecay(FieldReader* fields, LearningRate* rate) {
  fields->Float("alpha", &rate->alpha);
  fields->Int("warmup_steps", 0, kMaxSteps, &rate->warmup_steps);
  if (!fields->Has("warmup_target")) {
    rate->warmup_steps = 0;  // Keras then warms nothing up
    return;
  }
  float target = -1;  // none
  fields->Float("warmup_target", kNotNegative, &target);
  rate->warmup_target = target;
  // Without a step of warming up Keras decays from the target all the same.
  if (rate->warmup_steps == 0) {
    rate->initial = rate->warmup_target;
    rate->warmup_target = 0;
  }
}

Status ReadSchedule(const KerasObject& object, LearningRate* rate) {
  LearningRate::Kind kind{};
  RINGLET_RETURN_IF_ERROR(Choose(kSchedules, object.path,
                                 "learning rate schedule", object.name, &kind));
  *rate = LearningRate();
  rate->kind = kind;
  FieldReader fields(object.config, object.config_path);
  fields.Ignore({"name"});
  if (kind == LearningRate::Kind::kPiecewiseConstantDecay) {
    ReadBoundaries(&fields, rate);
    ReadValues(&fields, rate);
  } else {
    fields.Require("initial_learning_rate");
    fields.Float("initial_learning_rate", kNotNegative, &rate->initial);
    fields.Require("decay_steps");
    fields.Int("decay_steps", 1, kMaxSteps, &rate->decay_steps);
    if (kind == LearningRate::Kind::kCosineDecay) {
      ReadCosineDecay(&fields, rate);
    } else {
      fields.Require("decay_rate");
      fields.Float("decay_rate", &rate->decay_rate);
      fields.Bool("staircase", &rate->staircase);
    }
  }
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  return rate->Check().Annotate("%s", object.config_path.c_str());
}

}  // namespace

void ReadLearningRate(FieldReader* fields, LearningRate* rate) {
  constexpr char kKey[] = "learning_rate";
  const Json json =
      fields->Take(kKey, "a number >= 0, or a schedule", AsJson(rate->initial));
  if (!json.is_object())
    return fields->Float(kKey, kNotNegative, &rate->initial);
  KerasObject object;
  if (fields->Object(kKey, "", "", &object)) {
    fields->Fail(ReadSchedule(object, rate));
  }
}

void WriteLearningRate(JsonWriter* w, const LearningRate& rate) {
  using Kind = LearningRate::Kind;
  w->Key("learning_rate");
  if (rate.kind == Kind::kConstant) {
    w->Float(rate.initial);
    return;
  }
  const std::string name = FirstName(kSchedules, rate.kind);
  WriteKerasObject(w, "keras.optimizers.schedules", name.c_str(), [&] {
    if (rate.kind == Kind::kPiecewiseConstantDecay) {
      w->Key("boundaries").BeginArray();
      for (int64_t step : rate.boundaries) w->Int(step);
      w->EndArray().Key("values").BeginArray();
      for (float value : rate.values) w->Float(value);
      w->EndArray();
    } else {
      w->Key("initial_learning_rate").Float(rate.initial);
      w->Key("decay_steps").Int(rate.decay_steps);
    }
    if (rate.kind == Kind::kExponentialDecay) {
      w->Key("decay_rate").Float(rate.decay_rate);
      w->Key("staircase").Bool(rate.staircase);
    } else if (rate.kind == Kind::kCosineDecay) {
      w->Key("alpha").Float(rate.alpha);
      w->Key("warmup_target");
      if (rate.warmup_steps > 0) {
        w->Float(rate.warmup_target);
      } else {
        w->Null();
      }
      w->Key("warmup_steps").Int(std::max<int64_t>(rate.warmup_steps, 0));
    }
    w->Key("name").String(name);
  });
}

std::vector<ClassInfo> DescribeSchedules() {
  return Describe(kSchedules, [](const KerasObject& object) {
    LearningRate rate;
    (void)ReadSchedule(object, &rate);
  });
}

}  // namespace ringlet
