#include "local_config.h"

#include "core/exchange/replica_range.h"

namespace ringlet {
namespace {

constexpr Named<LocalUpdates::Delta> kDeltas[] = {
    {"int8", LocalUpdates::Delta::kInt8},
    {"float32", LocalUpdates::Delta::kFloat32},
    {"sparse", LocalUpdates::Delta::kSparse}};

void ReadLocalSteps(FieldReader* fields, int64_t* steps) {
  const std::string takes =
      "a whole number from 1 to " + AsJson(kMaxLocalSteps) + ", or \"auto\"";
  if (!fields->MarkOptional("local_steps")) return;
  const Json json = fields->Take("local_steps", takes, AsJson(*steps));
  if (json.text() == "auto") {
    *steps = LocalUpdates::kAutoSteps;
  } else if (json &&
             (!json.ToInt64(steps) || *steps < 1 || *steps > kMaxLocalSteps)) {
    fields->MustBe("local_steps", takes);
  }
}

void ReadFederated(FieldReader* fields, LocalUpdates* local) {
  int64_t participation = 0, quorum = 0;
  fields->IntOrNull("participation", 1, kMaxReplicas, &participation);
  fields->IntOrNull("quorum", 1, kMaxReplicas, &quorum);
  local->participation = static_cast<int>(participation);
  local->quorum = static_cast<int>(quorum);
  fields->DoubleOrNull("round_deadline", Interval{0.1, 1e6},
                       &local->round_deadline_seconds);
}

}  // namespace

void ReadLocal(FieldReader* fields, bool is_local, LocalUpdates* local) {
  LocalUpdates usual;
  usual.steps = LocalUpdates::kDefaultSteps;
  LocalUpdates read = usual;
  ReadLocalSteps(fields, &read.steps);
  if (fields->MarkOptional("outer")) {
    FieldReader outer(fields->Part("outer", "an object", "{}"),
                      "strategy.outer");
    outer.Float("learning_rate", kPositive, &read.learning_rate);
    outer.Float("momentum", kFractionBelow1, &read.momentum);
    outer.Bool("nesterov", &read.nesterov);
    fields->Fail(outer.Finish());
  }
  if (fields->MarkOptional("delta"))
    fields->Choice("delta", kDeltas, &read.delta);
  fields->Bool("overlap", &read.overlap);
  ReadFederated(fields, &read);
  fields->Fail(read.Check().Annotate("strategy"));
  if (is_local) {
    *local = read;
    return;
  }
  const bool same_outer = read.learning_rate == usual.learning_rate &&
                          read.momentum == usual.momentum &&
                          read.nesterov == usual.nesterov;
  const struct {
    const char* name;
    bool same;
  } given[] = {{"local_steps", read.steps == usual.steps},
               {"outer", same_outer},
               {"delta", read.delta == usual.delta},
               {"overlap", read.overlap == usual.overlap},
               {"participation", read.participation == 0},
               {"quorum", read.quorum == 0},
               {"round_deadline", read.round_deadline_seconds == 0}};
  for (const auto& field : given) {
    if (!field.same) fields->Refuse(field.name, "set \"mode\": \"local\" too");
  }
}

}  // namespace ringlet
