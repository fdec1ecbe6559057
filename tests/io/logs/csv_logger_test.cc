#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/full_disk.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/base/text.h"
#include "core/fit/fit_details.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"

namespace ringlet {
namespace {

TEST(CSVLoggerTest, Write_TwoEpochs_IsExcelDialectWithSortedColumns) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  auto model = TinyModel(SGD(0.0f));
  FitOptions options = Quiet(2);
  options.callbacks = {CSVLogger(path)};
  auto history = model->Fit(Points(8).Batch(8), options);
  ASSERT_OK(history);
  const std::string text = ReadWhole(path);
  EXPECT_EQ(text.find("epoch,accuracy,loss\r\n0,"), 0u) << text;
  // Full precision: the value read back is the value.
  const size_t loss = text.find(',', text.find("\r\n0,") + 4) + 1;
  EXPECT_EQ(std::stod(text.substr(loss)), history->Values("loss")[0]);
}

// The columns exist when the first numbers come, as in Keras.
TEST(CSVLoggerTest, Header_ValidationAfterSomeEpochs_HasItsColumns) {
  for (const bool validates : {true, false}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    auto model = TinyModel(SGD(0.0f));
    FitOptions options = Quiet(2);
    options.callbacks = {CSVLogger(path)};
    if (validates) options.validation_data = Points(8).Batch(8);
    options.validation_freq = 2;
    ASSERT_OK(model->Fit(Points(8).Batch(8), options));
    const std::string text = ReadWhole(path);
    const std::string header = std::string("epoch,accuracy,loss") +
                               (validates ? ",val_accuracy,val_loss" : "");
    EXPECT_EQ(text.find(header + "\r\n0,"), 0u) << text;
    EXPECT_EQ(text.find(",NA,NA\r\n1,") != std::string::npos, validates)
        << text;
    EXPECT_EQ(text.find("NA", text.find("\r\n1,")), std::string::npos) << text;
  }
}

TEST(CSVLoggerTest, Append_SecondFit_WritesNoSecondHeader) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  for (int i = 0; i < 2; ++i) {
    auto model = TinyModel();
    FitOptions options = Quiet(1);
    options.callbacks = {CSVLogger(path, ';', /*append=*/true)};
    ASSERT_OK(model->Fit(Points(8).Batch(8), options));
  }
  const std::string text = ReadWhole(path);
  EXPECT_EQ(text.find("epoch;"), text.rfind("epoch;"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

// A metric's name that holds the separator.
TEST(CSVLoggerTest, Header_NameWithAComma_IsOneFieldAndReadBack) {
  TempFolder folder;
  const std::string path = folder / "log.csv", steps = folder / "steps.csv";
  Metric metric = Accuracy();
  metric.name = "top, \"best\"";
  for (int i = 0; i < 2; ++i) {
    Sequential model({Input({2}), Dense(3)});
    model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
                  {metric});
    FitOptions options = Quiet(1);
    options.callbacks = {CSVLogger(path, ',', /*append=*/true),
                         StepLogger(steps, /*digests=*/false)};
    ASSERT_OK(model.Fit(Points(8).Batch(8), options));
  }
  const std::string text = ReadWhole(path);
  EXPECT_EQ(text.find("epoch,loss,\"top, \"\"best\"\"\"\r\n"), 0u) << text;
  // The rows of both runs have a number of this metric.
  const size_t second = text.rfind("\r\n0,") + 2;
  const size_t metric_at = text.find(',', second + 2) + 1;
  EXPECT_NE(text.compare(metric_at, 2, "NA"), 0) << text;
  EXPECT_EQ(
      std::count(text.begin() + static_cast<int64_t>(second), text.end(), ','),
      2);
  EXPECT_EQ(ReadWhole(steps).find("epoch,step,loss,\"top, \"\"best\"\"\"\n"),
            0u);
}

// A metric with a value for each class is a column for each class, whatever the
// batches, and the macro average is their mean.
TEST(CSVLoggerTest, Header_MetricOfEachClass_HasAColumnForEach) {
  constexpr int64_t kPoints = 70;  // 7 batches, 3 with a short one, one
  std::vector<float> x(2 * kPoints), y(3 * kPoints);
  const Philox random(7, 0);
  for (int64_t i = 0; i < kPoints; ++i) {
    const float turn = Philox::Unit(random.At(static_cast<uint64_t>(i))[0]);
    x[static_cast<size_t>(2 * i)] = std::cos(turn * 6.2831853f);
    x[static_cast<size_t>(2 * i + 1)] = std::sin(turn * 6.2831853f);
    y[static_cast<size_t>(3 * i) + static_cast<size_t>(turn * 3)] = 1;
  }
  const Dataset points(MemorySource({DType::kFloat32, {2}}, x.data(),
                                    {DType::kFloat32, {3}}, y.data(), kPoints));
  for (const int batch : {1, 32, 100}) {
    SCOPED_TRACE(batch);
    TempFolder folder;
    const std::string path = folder / "log.csv";
    Sequential model({Input({2}), Dense(8, kRelu), Dense(3, kSoftmax)});
    model.Compile(Adam(0.01f), CategoricalCrossentropy(),
                  {F1Score(), F1Score(Metric::kMacro).Name("macro"),
                   AUC().ClassId(2).Name("auc_2")});
    FitOptions options = Quiet(2);
    options.callbacks = {CSVLogger(path)};
    options.validation_data = points.Take(40).Batch(batch);
    const auto history = model.Fit(points.Shuffle(3).Batch(batch), options);
    ASSERT_OK(history);
    EXPECT_EQ(ReadWhole(path).find(
                  "epoch,auc_2,f1_score_0,f1_score_1,f1_score_2,loss,macro,"
                  "val_auc_2,val_f1_score_0,val_f1_score_1,val_f1_score_2,"
                  "val_loss,val_macro\r\n0,"),
              0u)
        << ReadWhole(path);
    for (const std::string& prefix : {std::string(), std::string("val_")}) {
      for (size_t epoch = 0; epoch < 2; ++epoch) {
        double sum = 0;
        for (const char* name : {"f1_score_0", "f1_score_1", "f1_score_2"}) {
          sum += history->Values(prefix + name)[epoch];
        }
        EXPECT_NEAR(sum / 3, history->Values(prefix + "macro")[epoch], 1e-9);
        EXPECT_GT(sum, 0);
      }
    }
  }
}

TEST(CSVLoggerTest, Open_WithoutAppend_BeginsAgain) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  WriteWhole(path, "old\r\n");
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.callbacks = {CSVLogger(path)};
  ASSERT_OK(model->Fit(Points(8).Batch(8), options));
  EXPECT_EQ(ReadWhole(path).find("epoch,"), 0u);
}

TEST(CSVLoggerTest, Resume_RowsBehindTheBackup_AreCutOff) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  auto model = TinyModel();
  auto logger = CSVLogger(path);
  FitState fit;
  fit.model = model.get();
  fit.validation = Validation::kAfterSomeEpochs;
  Logs logs;
  logs.Set("loss", 0.5);
  ASSERT_OK(logger->OnSetup(fit));
  ASSERT_OK(logger->OnEpochBegin(fit));
  ASSERT_OK(logger->OnEpochEnd(fit, &logs));
  std::vector<StateSpan> spans;
  logger->AppendState(&spans);
  ASSERT_EQ(spans.size(), 1u);
  const int64_t saved = *static_cast<int64_t*>(spans[0].data);
  const std::string first = ReadWhole(path);
  // An epoch later than the backup, with a row that is cut off.
  fit.epoch = 1;
  ASSERT_OK(logger->OnEpochEnd(fit, &logs));
  logger.reset();
  WriteWhole(path, ReadWhole(path).substr(0, first.size() + 2));

  logger = CSVLogger(path);
  ASSERT_OK(logger->OnSetup(fit));
  spans.clear();
  logger->AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = saved;
  ASSERT_OK(logger->StateLoaded());
  ASSERT_OK(logger->OnEpochBegin(fit));
  ASSERT_OK(logger->OnEpochEnd(fit, &logs));
  logger->OnFitReturn(fit, Status());
  EXPECT_EQ(ReadWhole(path), first + "1,0.5,NA\r\n");
}

// Sets up a fit that continues from a backup with `saved` bytes of rows.
void Restore(Callback* logger, Model* model, int64_t saved, FitState* fit) {
  fit->model = model;
  fit->validation = Validation::kAfterSomeEpochs;
  fit->epoch = 2;
  ASSERT_OK(logger->OnSetup(*fit));
  std::vector<StateSpan> spans;
  logger->AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = saved;
  ASSERT_OK(logger->StateLoaded());
}

// The run's backup was made without the log. Rows 0 and 1 of the log are of the
// run. The chief is lost behind its first row; its new process has the state
// from before this row.
TEST(CSVLoggerTest, RestartedChief_BackupWithoutTheLog_KeepsTheFilesRows) {
  const std::string old = "epoch,loss\r\n0,1\r\n1,1\r\n";
  for (const int epoch : {0, 2}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, old);
    auto model = TinyModel();
    auto logger = CSVLogger(path);
    FitState fit;
    fit.model = model.get();
    fit.validation = Validation::kNever;
    fit.details->source = RestoreSource::kMemory;
    fit.epoch = epoch;
    Logs logs;
    logs.Set("loss", 0.5);
    ASSERT_OK(logger->OnSetup(fit));
    ASSERT_OK(logger->OnEpochBegin(fit));
    ASSERT_OK(logger->OnEpochEnd(fit, &logs));
    logger->OnFitReturn(fit, Status());
    // At the run's start there are no rows of it.
    const std::string kept = epoch > 0 ? old : "epoch,loss\r\n";
    EXPECT_EQ(ReadWhole(path), kept + std::to_string(epoch) + ",0.5\r\n");
  }
}

// The log was removed, or a power cut took its end, which is not synced.
TEST(CSVLoggerTest, Resume_RowsAreMissing_KeepsTheWholeOnes) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  const std::string header = "epoch,loss,val_loss\r\n";
  const std::string first = header + "0,0.5,NA\r\n";
  for (const auto& [left, kept] : {std::pair<std::string, std::string>{"", ""},
                                   {header.substr(0, 7), ""},
                                   {header + "0,0.", header},
                                   {first, first}}) {
    WriteWhole(path, left);
    auto model = TinyModel();
    auto logger = CSVLogger(path);
    const int64_t saved = static_cast<int64_t>(first.size()) + 10;
    FitState fit;
    Restore(logger.get(), model.get(), saved, &fit);
    Logs logs;
    logs.Set("loss", 0.25);
    testing::internal::CaptureStderr();
    ASSERT_OK(logger->OnEpochBegin(fit));
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(Contains(printed, "no row of " + path + " ends at byte " +
                                      std::to_string(saved) + " of " +
                                      std::to_string(left.size())));
    ASSERT_OK(logger->OnEpochEnd(fit, &logs));
    logger->OnFitReturn(fit, Status());
    EXPECT_EQ(ReadWhole(path),
              (kept.empty() ? header : kept) + "2,0.25,NA\r\n");
  }
}

// Everything in the file is of epochs that are yet to come, its header too.
TEST(CSVLoggerTest, Resume_BeforeTheFirstRow_WritesTheHeader) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  WriteWhole(path, "epoch,accuracy,loss\r\n0,1,0.5\r\n");
  auto model = TinyModel();
  auto logger = CSVLogger(path);
  FitState fit;
  fit.model = model.get();
  fit.validation = Validation::kAfterSomeEpochs;
  Logs logs;
  logs.Set("loss", 0.25);
  ASSERT_OK(logger->OnSetup(fit));
  std::vector<StateSpan> spans;
  logger->AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = 0;
  ASSERT_OK(logger->OnEpochBegin(fit));
  ASSERT_OK(logger->OnEpochEnd(fit, &logs));
  logger->OnFitReturn(fit, Status());
  EXPECT_EQ(ReadWhole(path), "epoch,loss,val_loss\r\n0,0.25,NA\r\n");
}

// A pipe, a terminal or a device has no rows to go back to, and no first line
// to read: its reader gets a header.
TEST(CSVLoggerTest, Resume_PipeOrDevice_WritesOn) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDWR | O_NONBLOCK);
  for (const std::string& log :
       {path, std::string("/dev/null"), std::string("/dev/full")}) {
    auto model = TinyModel();
    auto logger = CSVLogger(log);
    FitState fit;
    Restore(logger.get(), model.get(), /*saved=*/300, &fit);
    Logs logs;
    logs.Set("loss", 0.25);
    ASSERT_OK(logger->OnEpochBegin(fit));
    ASSERT_OK(logger->OnEpochEnd(fit, &logs));
    logger->OnFitReturn(fit, Status());
  }
  char text[256];
  const ssize_t n = read(reader, text, sizeof(text));
  close(reader);
  EXPECT_EQ(std::string(text, static_cast<size_t>(std::max<ssize_t>(n, 0))),
            "epoch,loss,val_loss\r\n2,0.25,NA\r\n");
}

// A row that a power cut tore is not the beginning of the next one, which would
// then have another epoch.
TEST(CSVLoggerTest, Append_LastRowIsCutOff_BeginsANewRow) {
  const std::string whole = "epoch,loss\r\n0,1\r\n";
  for (const std::string end : {"", "1", "1,0", "1,0.5", "1,0.5\r"}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, whole + end);
    auto model = TinyModel();
    FitOptions options = Quiet(1);
    options.callbacks = {CSVLogger(path, ',', /*append=*/true)};
    testing::internal::CaptureStderr();
    ASSERT_OK(model->Fit(Points(8).Batch(8), options));
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_EQ(printed.find("its last row has no end") != std::string::npos,
              !end.empty())
        << printed;
    const std::string kept = whole + (end.empty() ? end : end + "\n");
    const std::string text = ReadWhole(path);
    EXPECT_EQ(text.find(kept + "0,"), 0u) << text;
    EXPECT_EQ(text.find('\n', kept.size()), text.size() - 1) << text;
  }
}

TEST(StepLoggerTest, Resume_RowsAreMissing_KeepsTheWholeOnes) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  const std::string header = "epoch,step,loss,accuracy\n";
  const std::string first = header + "0,0,0.5,1\n";
  const std::string last = "0,1,0,0\n";  // nothing was counted
  for (const auto& [left, kept] :
       {std::pair<std::string, std::string>{"", header},
        {header.substr(0, 7), header},
        {header + "0,0,0.", header},
        {first + "0,1,0.2", first}}) {
    std::filesystem::remove(path);
    if (!left.empty()) WriteWhole(path, left);
    auto model = TinyModel();
    auto logger = StepLogger(path);
    FitState fit;
    fit.model = model.get();
    fit.validation = Validation::kAfterSomeEpochs;
    fit.step = 1;
    ASSERT_OK(logger->OnSetup(fit));
    std::vector<StateSpan> spans;
    logger->AppendState(&spans);
    const bool all = left == first + "0,1,0.2";
    *static_cast<int64_t*>(spans[0].data) =
        static_cast<int64_t>(first.size()) + (all ? 0 : 10);
    ASSERT_OK(logger->StateLoaded());
    testing::internal::CaptureStderr();
    const Status begun = logger->OnTrainBatchBegin(fit);
    const std::string printed = testing::internal::GetCapturedStderr();
    ASSERT_OK(begun);
    EXPECT_EQ(printed.empty(), all) << printed;
    ASSERT_OK(logger->OnTrainBatchEnd(fit, {}));
    logger->OnFitReturn(fit, Status());
    EXPECT_EQ(ReadWhole(path), kept + last);
  }
}

// A job of several workers has a backup of its beginning, from before the log
// was opened. All workers may be lost before the next one.
TEST(StepLoggerTest, Resume_StateWithoutTheLog_KeepsRowsOfTrainedSteps) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  const std::string header = "epoch,step,loss,accuracy\n";
  const std::string earlier = header + "0,0,0.5,1\n0,1,0.4,1\n";
  for (const int64_t step : {0, 2}) {
    WriteWhole(path, earlier);
    auto model = TinyModel();
    auto logger = StepLogger(path);
    FitState fit;
    fit.model = model.get();
    fit.details->restored_from = "backup-1.safetensors";
    fit.details->source = RestoreSource::kBackup;
    fit.step = step;
    ASSERT_OK(logger->OnSetup(fit));
    ASSERT_OK(logger->StateLoaded());
    ASSERT_OK(logger->OnTrainBatchBegin(fit));
    ASSERT_OK(logger->OnTrainBatchEnd(fit, {}));
    logger->OnFitReturn(fit, Status());
    EXPECT_EQ(ReadWhole(path), (step == 0 ? header : earlier) + "0," +
                                   std::to_string(step) + ",0,0\n");
  }
}

TEST(CSVLoggerTest, Write_DiskIsFull_TrainingContinuesAndRowsFollowLater) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  // The log is longer than the messages, since the limit also applies to the
  // file of stderr.
  std::string before = "epoch,loss,val_loss\r\n";
  while (before.size() < 4096) before += "0,0.5,NA\r\n";
  WriteWhole(path, before);
  auto model = TinyModel();
  auto logger = CSVLogger(path, ',', /*append=*/true);
  FitState fit;
  fit.model = model.get();
  fit.validation = Validation::kAfterSomeEpochs;
  Logs logs;
  logs.Set("loss", 0.5);
  ASSERT_OK(logger->OnSetup(fit));
  ASSERT_OK(logger->OnEpochBegin(fit));
  testing::internal::CaptureStderr();
  const auto rows = [&](int count) {
    for (int i = 0; i < count; ++i, ++fit.epoch) {
      ASSERT_OK(logger->OnEpochEnd(fit, &logs));
    }
  };
  {
    FullDisk full(before.size() + 3);
    rows(2);
    EXPECT_EQ(ReadWhole(path), before + "0,0");
  }
  rows(1);
  const std::string three = before + "0,0.5,NA\r\n1,0.5,NA\r\n2,0.5,NA\r\n";
  EXPECT_EQ(ReadWhole(path), three);
  std::string printed = testing::internal::GetCapturedStderr();
  const std::string warning = path + ": writing a row: ";
  ASSERT_TRUE(Contains(printed, warning));
  EXPECT_EQ(printed.find(warning, printed.find(warning) + 1),
            std::string::npos);
  testing::internal::CaptureStderr();
  {
    FullDisk full(three.size());
    rows(1);
    logger->OnFitReturn(fit, Status());
  }
  printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "its last 10 bytes are lost"));
  EXPECT_EQ(ReadWhole(path), three);
  // After a loss at the fit's end the rows may still be written.
  testing::internal::CaptureStderr();
  ASSERT_OK(logger->OnSetup(fit));
  ASSERT_OK(logger->OnEpochBegin(fit));
  {
    FullDisk full(three.size());
    rows(1);
    ASSERT_OK(logger->OnTrainEnd(fit, logs));
    logger->OnFitReturn(fit, PeerLost(1, "lost"));
  }
  printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, warning));
  EXPECT_FALSE(Contains(printed, "bytes are lost"));
}

// Each row has the values of its step alone, independent of earlier steps.
TEST(StepLoggerTest, Row_AnyStep_HasTheLossOfThatStepAlone) {
  TempFolder folder;
  const std::string path = folder / "steps.csv";
  const float x[4] = {0, 0, 0, 0}, y[4] = {1e12f, 1e12f, 2, 2};
  Sequential model({Input({1}), Dense(1)});
  model.Compile(SGD(0.0f), MeanSquaredError());
  FitOptions options = Quiet(2);
  options.callbacks = {StepLogger(path)};
  const Dataset data(
      MemorySource({DType::kFloat32, {1}}, x, {DType::kFloat32, {1}}, y, 4));
  ASSERT_OK(model.Fit(data.Batch(2), options));
  const std::string large = "1.0000000138484279e+24";  // float32's 1e24
  EXPECT_EQ(ReadWhole(path), "epoch,step,loss\n0,0," + large + "\n0,1,4\n1,0," +
                                 large + "\n1,1,4\n");
}

// Notes Model::DigestWeights after each step.
class WeightDigestRecorder final : public Callback {
 public:
  const char* name() const override { return "notes_digests"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    rows += HexText(fit.model->DigestWeights()) + "\n";
    return Status();
  }
  std::string rows;
};

TEST(StepLoggerTest, Digests_Option_AreTheLastColumn) {
  TempFolder folder;
  const std::string path = folder / "steps.csv";
  auto model = TinyModel();
  FitOptions options = Quiet(2);
  const auto notes = std::make_shared<WeightDigestRecorder>();
  options.callbacks = {StepLogger(path, /*digests=*/true), notes};
  ASSERT_OK(model->Fit(Points(32).Batch(8), options));
  std::string digests;
  std::istringstream rows(ReadWhole(path));
  for (std::string row; std::getline(rows, row);) {
    digests += row.substr(row.rfind(',') + 1) + "\n";
  }
  EXPECT_EQ(digests, "weights_digest\n" + notes->rows);
  EXPECT_NE(digests.substr(15, 16), digests.substr(32, 16));
}

TEST(StepLoggerTest, Resume_WithOrWithoutDigests_KeepsTheColumns) {
  TempFolder folder;
  for (const bool before : {false, true}) {
    const std::string path = folder / (before ? "with.csv" : "without.csv");
    const std::string header = std::string("epoch,step,loss,accuracy") +
                               (before ? ",weights_digest\n" : "\n");
    WriteWhole(path, header);
    auto model = TinyModel();
    const auto logger = StepLogger(path, !before);
    FitState fit;
    fit.model = model.get();
    fit.validation = Validation::kAfterSomeEpochs;
    ASSERT_OK(logger->OnSetup(fit));
    std::vector<StateSpan> spans;
    logger->AppendState(&spans);
    *static_cast<int64_t*>(spans[0].data) = static_cast<int64_t>(header.size());
    ASSERT_OK(logger->StateLoaded());
    ASSERT_OK(logger->OnTrainBatchBegin(fit));
    ASSERT_OK(logger->OnTrainBatchEnd(fit, {}));
    logger->OnFitReturn(fit, Status());
    const std::string row =
        before ? "0,0,0,0," + HexText(model->DigestWeights()) : "0,0,0,0";
    EXPECT_EQ(ReadWhole(path), header + row + "\n");
  }
}

// A metric's name holds the separator, and is one quoted field.
TEST(StepLoggerTest, Resume_QuotedNameInTheHeader_IsOneColumn) {
  TempFolder folder;
  const std::string path = folder / "steps.csv";
  const std::string header = "epoch,step,loss,\"top, \"\"best\"\"\"\n";
  WriteWhole(path, header);
  Metric metric = Accuracy();
  metric.name = "top, \"best\"";
  Sequential model({Input({2}), Dense(3)});
  model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
                {metric});
  const auto logger = StepLogger(path, /*digests=*/false);
  FitState fit;
  Restore(logger.get(), &model, static_cast<int64_t>(header.size()), &fit);
  ASSERT_OK(logger->OnTrainBatchBegin(fit));
  ASSERT_OK(logger->OnTrainBatchEnd(fit, {}));
  logger->OnFitReturn(fit, Status());
  EXPECT_EQ(ReadWhole(path), header + "2,0,0,0\n");
}

TEST(StepLoggerTest, Row_LossIsNaN_HasNoSign) {
  TempFolder folder;
  auto model = TinyModel(SGD(1e30f));
  FitOptions options = Quiet(3);
  options.callbacks = {StepLogger(folder / "steps.csv")};
  ASSERT_OK(model->Fit(Points(32).Batch(4), options));
  const std::string rows = ReadWhole(folder / "steps.csv");
  EXPECT_TRUE(Contains(rows, ",nan"));
  EXPECT_FALSE(Contains(rows, "-nan"));
}

TEST(CSVLoggerTest, Open_FileCannotBeWritten_ErrorNamesIt) {
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.callbacks = {CSVLogger("/nowhere/log.csv")};
  const auto history = model->Fit(Points(8).Batch(8), options);
  EXPECT_TRUE(Contains(history.status(), "/nowhere/log.csv"));
}

TEST(CSVLoggerTest, Row_LossIsNaN_HasNoSign) {
  TempFolder folder;
  auto model = TinyModel(SGD(1e30f));
  FitOptions options = Quiet(3);
  options.callbacks = {CSVLogger(folder / "log.csv")};
  const auto history = model->Fit(Points(32).Batch(4), options);
  ASSERT_OK(history);
  const double loss = history->Values("loss").back();
  ASSERT_TRUE(std::isnan(loss));
  EXPECT_FALSE(std::signbit(loss));
  const std::string rows = ReadWhole(folder / "log.csv");
  EXPECT_TRUE(Contains(rows, ",nan"));
  EXPECT_FALSE(Contains(rows, "-nan"));
}

// A crash has cut the first line off within a quoted name.
TEST(CSVLoggerTest, Append_CutHeaderWithAnOpenQuote_WritesItsOwnHeader) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  WriteWhole(path, "epoch,loss,\"top, ");
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.callbacks = {CSVLogger(path, ',', /*append=*/true)};
  testing::internal::CaptureStderr();
  const Status fitted = model->Fit(Points(8).Batch(8), options).status();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_OK(fitted);
  EXPECT_TRUE(Contains(printed, "line 1 of " + path + " is not a header"));
  EXPECT_EQ(
      ReadWhole(path).find("epoch,loss,\"top, \nepoch,accuracy,loss\r\n0,"), 0u)
      << ReadWhole(path);
}

}  // namespace
}  // namespace ringlet
