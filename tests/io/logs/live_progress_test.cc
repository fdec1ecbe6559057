#include "io/logs/live_progress.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "core/base/json.h"

namespace ringlet {
namespace {

constexpr int64_t kSecond = 1000000000;

LiveProgress Sample() {
  LiveProgress p;
  p.run = "a \"run\"\\\n.json";
  p.worker = 1;
  p.workers = 3;
  p.phase = LiveProgress::Phase::kTraining;
  p.epoch = 2;
  p.epochs = 10;
  p.step = 5;
  p.steps_per_epoch = 70;
  p.iterations = 75;
  p.steps_per_second = 4;
  p.seconds_left = 60;
  p.last_step_at = 10 * kSecond;
  p.logs = {{"loss", 0.25},
            {"a\"b", std::numeric_limits<double>::quiet_NaN()},
            {"big", std::numeric_limits<double>::infinity()}};
  return p;
}

TEST(LiveProgressTest, Json_AllFields_IsOneLineThatReadsBack) {
  const std::string text = ToJson(Sample(), 12 * kSecond);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  Json json;
  EXPECT_OK(Json::Parse(text, "text", &json));
  EXPECT_EQ(json["run"].text(), "a \"run\"\\\n.json");
  EXPECT_EQ(json["phase"].text(), "training");
  EXPECT_EQ(json["step"].number(), 5);
  EXPECT_EQ(json["seconds_since_step"].number(), 2);
  EXPECT_EQ(json["seconds_left"].number(), 60);
  EXPECT_EQ(json["logs"]["loss"].number(), 0.25);
  EXPECT_EQ(json["logs"]["a\"b"].kind(), Json::Kind::kNull);
}

TEST(LiveProgressTest, Wait_OfManyWorkers_IsShort) {
  LiveProgress p = Sample();
  p.wait = {{1}, 10 * kSecond};
  Json json;
  EXPECT_OK(Json::Parse(ToJson(p, 12 * kSecond), "text", &json));
  EXPECT_EQ(json["waiting_for"].text(), "worker 1");
  EXPECT_EQ(json["waiting_seconds"].number(), 2);
  EXPECT_TRUE(Contains(ToPrometheus(p, 12 * kSecond),
                       "ringlet_waiting_seconds{for=\"worker 1\"} 2\n"));
  p.wait.workers = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(AwaitedText(p.wait), "workers 1, 2, 3, 4 ...");
  p.wait.workers.clear();
  EXPECT_EQ(AwaitedText(p.wait), "");
  EXPECT_OK(Json::Parse(ToJson(p, 0), "text", &json));
  EXPECT_FALSE(json["waiting_for"]);
}

TEST(LiveProgressTest, Json_BeforeTheFirstStep_LeavesUnknownOut) {
  Json json;
  EXPECT_OK(Json::Parse(ToJson(LiveProgress(), 0), "text", &json));
  EXPECT_FALSE(json["seconds_since_step"]);
  EXPECT_FALSE(json["steps_per_second"]);
  EXPECT_FALSE(json["seconds_left"]);
  EXPECT_EQ(json["phase"].text(), "starting");
}

TEST(LiveProgressTest, Prometheus_LabelsAndNonFinite_AreEscaped) {
  const std::string text = ToPrometheus(Sample(), 12 * kSecond);
  EXPECT_TRUE(Contains(text, "run=\"a \\\"run\\\"\\\\\\n.json\"")) << text;
  EXPECT_TRUE(Contains(text, "ringlet_log{name=\"a\\\"b\"} NaN\n")) << text;
  EXPECT_TRUE(Contains(text, "ringlet_log{name=\"big\"} +Inf\n")) << text;
  EXPECT_TRUE(Contains(text, "ringlet_phase{phase=\"training\"} 1\n")) << text;
  EXPECT_TRUE(Contains(text, "ringlet_seconds_since_step 2\n")) << text;
}

}  // namespace
}  // namespace ringlet
