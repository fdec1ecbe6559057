// A learning rate is a number or a schedule. Names, defaults and the fields in
// the output are as in Keras 3. Keras 2's "lr" and "decay" are read, and never
// written: "decay" becomes an InverseTimeDecay.

#include "schedule_json.h"

#include <algorithm>
#include <limits>

#include "../../core/objective/optimizer_table.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxSteps = int64_t{1} << 53;

constexpr Interval kFromOne = {1, std::numeric_limits<float>::max()};

const char* StepsKey(LearningRate::Kind kind) {
  return kind == LearningRate::Kind::kCosineDecayRestarts ? "first_decay_steps"
                                                          : "decay_steps";
}

bool HasWarmup(const LearningRate& rate) {
  return rate.kind == LearningRate::Kind::kCosineDecay ||
         rate.kind == LearningRate::Kind::kPolynomialDecay ||
         rate.kind == LearningRate::Kind::kInverseTimeDecay;
}

void ReadBoundaries(FieldReader* fields, LearningRate* rate) {
  const char kTakes[] = "a list of increasing whole numbers";
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
  constexpr double kMax = std::numeric_limits<float>::max();
  bool good = list.is_array();
  for (Json m = list.first(); good && m; m = m.next()) {
    good = m.kind() == Json::Kind::kNumber && m.number() >= 0 &&
           m.number() <= kMax;
    if (good) rate->values.push_back(static_cast<float>(m.number()));
  }
  if (!good || rate->values.size() != rate->boundaries.size() + 1) {
    fields->MustBe("values", kTakes);
  }
  if (!rate->values.empty()) rate->initial = rate->values[0];
}

void ReadWarmup(FieldReader* fields, LearningRate* rate) {
  int64_t steps = 0;
  float target = -1;  // none
  fields->Int("warmup_steps", 0, kMaxSteps, &steps);
  if (!fields->MarkOptional("warmup_target"))
    return;  // then Keras has no warmup
  fields->Float("warmup_target", kNotNegative, &target);
  rate->Warmup(target, steps);
}

// A field of one class besides the common ones, which all classes but
// PiecewiseConstantDecay have.
struct OwnField {
  LearningRate::Kind kind;
  const char* key;
  float LearningRate::*number;
  Interval range;
  bool LearningRate::*flag = nullptr;  // or this bool in place of `number`
};
using Schedule = LearningRate::Kind;
constexpr OwnField kOwnFields[] = {
    {Schedule::kExponentialDecay, "decay_rate", &LearningRate::decay_rate,
     kAnyNumber},
    {Schedule::kExponentialDecay, "staircase", nullptr, kAnyNumber,
     &LearningRate::staircase},
    {Schedule::kInverseTimeDecay, "decay_rate", &LearningRate::decay_rate,
     kNotNegative},
    {Schedule::kInverseTimeDecay, "staircase", nullptr, kAnyNumber,
     &LearningRate::staircase},
    {Schedule::kPolynomialDecay, "end_learning_rate", &LearningRate::end,
     kNotNegative},
    {Schedule::kPolynomialDecay, "power", &LearningRate::power, kNotNegative},
    {Schedule::kPolynomialDecay, "cycle", nullptr, kAnyNumber,
     &LearningRate::cycle},
    {Schedule::kCosineDecayRestarts, "t_mul", &LearningRate::t_mul, kFromOne},
    {Schedule::kCosineDecayRestarts, "m_mul", &LearningRate::m_mul,
     kNotNegative},
    {Schedule::kCosineDecayRestarts, "alpha", &LearningRate::alpha, kAnyNumber},
    {Schedule::kCosineDecay, "alpha", &LearningRate::alpha, kAnyNumber},
};

void ReadOwn(FieldReader* fields, LearningRate* rate) {
  for (const OwnField& field : kOwnFields) {
    if (field.kind != rate->kind) continue;
    // Keras has no default for the rate of a decay.
    if (field.number == &LearningRate::decay_rate) fields->Require(field.key);
    if (field.flag != nullptr) {
      fields->Bool(field.key, &(rate->*field.flag));
    } else {
      fields->Float(field.key, field.range, &(rate->*field.number));
    }
  }
  if (HasWarmup(*rate)) ReadWarmup(fields, rate);
}

// In Keras only CosineDecay has a warmup. Other schedules write it only if they
// have one.
void WriteWarmup(JsonWriter* w, const LearningRate& rate) {
  const bool warms = rate.warmup_steps > 0;
  if (!warms && rate.kind != LearningRate::Kind::kCosineDecay) return;
  w->Key("warmup_target");
  if (warms) {
    w->Float(rate.warmup_target);
  } else {
    w->Null();
  }
  w->Key("warmup_steps").Int(std::max<int64_t>(rate.warmup_steps, 0));
}

void WriteOwn(JsonWriter* w, const LearningRate& rate) {
  for (const OwnField& field : kOwnFields) {
    if (field.kind != rate.kind) continue;
    w->Key(field.key);
    field.flag != nullptr ? w->Bool(rate.*field.flag)
                          : w->Float(rate.*field.number);
  }
  if (HasWarmup(rate)) WriteWarmup(w, rate);
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
    const char* const steps = StepsKey(kind);
    fields.Require(steps);
    fields.Int(steps, 1, kMaxSteps, &rate->decay_steps);
    ReadOwn(&fields, rate);
  }
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  return rate->Check().Annotate("%s", object.config_path.c_str());
}

// Keras 2: lr / (1 + decay * step).
void ReadDecay(FieldReader* fields, LearningRate* rate) {
  float decay = 0;
  if (fields->MarkOptional("decay"))
    fields->Float("decay", kNotNegative, &decay);
  if (decay == 0) return;
  if (rate->kind != LearningRate::Kind::kConstant) {
    return fields->Refuse("decay", "learning_rate is a schedule already");
  }
  *rate = InverseTimeDecay(rate->initial, 1, decay);
}

void ReadRate(FieldReader* fields, LearningRate* rate) {
  const char* const key = fields->Either("learning_rate", "lr");
  const Json json =
      fields->Take(key, "a number >= 0, or a schedule", AsJson(rate->initial));
  if (!json.is_object())
    return fields->Float(key, kNotNegative, &rate->initial);
  KerasObject object;
  if (fields->Object(key, "", "", &object)) {
    fields->Fail(ReadSchedule(object, rate));
  }
}

}  // namespace

void ReadLearningRate(FieldReader* fields, LearningRate* rate) {
  ReadRate(fields, rate);
  ReadDecay(fields, rate);
}

void WriteLearningRate(JsonWriter* w, const LearningRate& rate) {
  w->Key("learning_rate");
  if (rate.kind == LearningRate::Kind::kConstant) {
    w->Float(rate.initial);
    return;
  }
  const std::string name = FirstName(kSchedules, rate.kind);
  WriteKerasObject(w, "keras.optimizers.schedules", name.c_str(), [&] {
    if (rate.kind == LearningRate::Kind::kPiecewiseConstantDecay) {
      w->Key("boundaries").List(rate.boundaries);
      w->Key("values").List(rate.values);
    } else {
      w->Key("initial_learning_rate").Float(rate.initial);
      w->Key(StepsKey(rate.kind)).Int(rate.decay_steps);
      WriteOwn(w, rate);
    }
    // CosineDecayRestarts has a different name in Keras.
    w->Key("name").String(rate.kind == LearningRate::Kind::kCosineDecayRestarts
                              ? "SGDRDecay"
                              : name);
  });
}

std::vector<ClassInfo> DescribeSchedules() {
  return Describe(kSchedules, [](const KerasObject& object) {
    LearningRate rate;
    (void)ReadSchedule(object, &rate);
  });
}

}  // namespace ringlet
