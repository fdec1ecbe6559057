// The rows in the CSV file are the state: a file is done if a row has its path
// and the time of its writing. A row is written after the scalars, so that a
// kill between both repeats a scalar with the same value and loses none.

#include "evaluator.h"

#include <sys/stat.h>

#include <chrono>
#include <cinttypes>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/number_text.h"
#include "core/base/text.h"
#include "io/files/atomic_file.h"
#include "io/files/path.h"
#include "io/logs/event_file.h"
#include "io/logs/row_writer.h"
#include "io/readers/tables/csv_records.h"
#include "io/weights/safetensors.h"
#include "model_files.h"
#include "output_plan.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

constexpr auto kPause = std::chrono::milliseconds(500);
// The most bytes of all rows.
constexpr int64_t kMaxRowBytes = int64_t{1} << 26;

// The path of the file that reports the end of the run.
std::string EndFile(const std::string& run, const RunConfig& config) {
  const std::string& filepath = config.checkpoints.front();
  return FolderOf(filepath.substr(0, filepath.find('{'))) + "/" +
         NameOfRun(run) + ".ended";
}

// A file and the time of its writing, as in a row.
using Key = std::pair<std::string, std::string>;

Key KeyOf(const ModelFile& file) {
  return {file.path, FormatText("%" PRId64 ".%09ld",
                                static_cast<int64_t>(file.written.tv_sec),
                                static_cast<long>(file.written.tv_nsec))};
}

// The rows of the evaluations.
class Rows {
 public:
  explicit Rows(std::string path)
      : path_(std::move(path)), file_("evaluator", PosixFiles()) {}

  // Reads the rows of an earlier process, and removes an incomplete last row.
  Status Open() {
    RINGLET_RETURN_IF_ERROR(file_.Open(path_));
    if (file_.Size() > kMaxRowBytes) {
      return InvalidArgument("%s: is larger than any evaluator's rows; move it",
                             path_.c_str());
    }
    const std::string text = file_.Read(0, file_.Size());
    const size_t end = text.rfind('\n') + 1;  // 0 without a whole row
    if (end < text.size()) {
      RINGLET_RETURN_IF_ERROR(file_.CutTo(static_cast<int64_t>(end)));
    }
    std::string_view rest = std::string_view(text).substr(0, end);
    for (std::string row; TakeLine(&rest, &row);) {
      RINGLET_RETURN_IF_ERROR(ReadRow(row));
    }
    return Status();
  }
  const std::string& path() const { return path_; }
  bool Has(const Key& key) const { return done_.count(key) != 0; }
  int64_t count() const { return static_cast<int64_t>(done_.size()); }
  void Skip(const Key& key) { done_.insert(key); }

  Status Add(const Key& key, int64_t iterations, const Logs& logs) {
    std::string header = "file,written,iterations";
    std::string row = CsvField(key.first, ',') + "," + key.second + "," +
                      (iterations < 0 ? "" : std::to_string(iterations));
    for (const auto& [name, value] : logs.entries()) {
      header += "," + CsvField(name, ',');
      row += "," + ShortestText(value);
    }
    if (header_.empty()) {
      file_.Append(header + "\n");
      header_ = header;
    }
    if (header != header_) {
      return InvalidArgument(
          "%s: has the columns %s, and this run has %s; move the file",
          path_.c_str(), Printable(header_).c_str(), header.c_str());
    }
    file_.Append(row + "\n");
    done_.insert(key);
    return Status();
  }
  // Returns an error if rows are not in the file. Append has warned of the
  // first.
  Status Finish() {
    file_.Append("");  // tries to write them again
    struct stat written = {};
    if (stat(path_.c_str(), &written) == 0 && written.st_size >= file_.Size()) {
      return Status();
    }
    return Error(Code::kResourceExhausted,
                 "%s: the last rows could not be written; free room on the "
                 "disk and start the evaluator again",
                 path_.c_str());
  }

 private:
  Status ReadRow(const std::string& line) {
    std::vector<std::string> fields;
    RINGLET_RETURN_IF_ERROR(RecordReader::SplitLine(line, ',', &fields)
                                .Annotate("%s", path_.c_str()));
    if (fields.size() < 3 || (header_.empty() && fields[0] != "file")) {
      return InvalidArgument("%s: does not have an evaluator's rows; move it",
                             path_.c_str());
    }
    if (header_.empty()) {
      header_ = line;
    } else {
      done_.insert({fields[0], fields[1]});
    }
    return Status();
  }

  const std::string path_;
  RowWriter file_;
  std::string header_;
  std::set<Key> done_;
};

// Reads the steps before the save; -1 if the file has weights only.
Status ReadIterations(FileSystem* files, const std::string& path,
                      int64_t* iterations) {
  *iterations = -1;
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path));
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name != "optimizer/iterations") continue;
    if (tensor.storage != Storage::kI64 ||
        tensor.bytes != sizeof(*iterations)) {
      return Corruption("%s: optimizer/iterations is not one whole number",
                        path.c_str());
    }
    return file.Read(tensor, iterations);
  }
  return Status();
}

class Evaluator {
 public:
  Evaluator(const std::string& run, RunConfig* config)
      : config_(config),
        end_file_(EndFile(run, *config)),
        rows_(NameOfRun(run) + "-evaluations.csv") {}

  Status Begin(const InitFlags& init) {
    RINGLET_RETURN_IF_ERROR(rows_.Open());
    RINGLET_RETURN_IF_ERROR(MakeModel(config_, init, nullptr));
    RINGLET_RETURN_IF_ERROR(OpenRunData(*config_, 1, &data_));
    if (!data_.validation.empty()) return Status();
    return InvalidArgument(
        "an evaluator needs data.validation or fit.validation_split");
  }

  // Evaluates all files that are there now.
  Status EvaluateNewFiles() {
    for (const std::string& filepath : config_->checkpoints) {
      std::vector<ModelFile> found;
      // A folder that is not there yet has no files. A sealed file is listed
      // without its key too: reading it says what is missing.
      const Status listed = ListModelFiles(PosixFiles(), filepath, &found);
      if (listed.code() == Code::kNotFound) continue;
      RINGLET_RETURN_IF_ERROR(listed);
      for (const ModelFile& file : found) {
        if (!rows_.Has(KeyOf(file)))
          RINGLET_RETURN_IF_ERROR(EvaluateFile(file));
      }
    }
    return Status();
  }

  bool RunHasEnded() const { return IsFile(end_file_); }
  const Rows& rows() const { return rows_; }
  Status Finish() { return rows_.Finish(); }

 private:
  Status EvaluateFile(const ModelFile& file) {
    Model* const model = config_->model.get();
    LoadWeightsOptions loading;
    loading.files = config_->disk.get();
    int64_t iterations = -1;
    Status loaded = ReadIterations(loading.files, file.path, &iterations);
    if (loaded.ok()) loaded = LoadWeights(model, file.path, loading);
    if (!loaded.ok()) {
      Notice("warning: evaluator: %s is left out: %s", file.path.c_str(),
             loaded.message());
      rows_.Skip(KeyOf(file));
      return Status();
    }
    // A file that was replaced meanwhile is evaluated as the newer one.
    std::vector<ModelFile> now;
    const Status listed = ListModelFiles(PosixFiles(), file.path, &now);
    if (!listed.ok() || now.empty() || KeyOf(now[0]) != KeyOf(file)) {
      return Status();
    }
    EvaluateOptions options;
    options.verbose = Verbose::kSilent;
    const Result<Logs> logs = model->Evaluate(data_.validation, options);
    RINGLET_RETURN_IF_ERROR(logs.status());
    Status written = WriteScalars(iterations, logs.value());
    if (!written.ok()) Notice("warning: evaluator: %s", written.message());
    RINGLET_RETURN_IF_ERROR(rows_.Add(KeyOf(file), iterations, logs.value()));
    std::string text;
    for (const auto& [name, value] : logs->entries()) {
      text += " - " + name + ": " + PrintedText(value, 'f', 4);
    }
    Print("%s%s", file.path.c_str(), text.c_str());
    return Status();
  }

  // Writes the logs with the tags and steps of Keras's TensorBoard callback.
  Status WriteScalars(int64_t iterations, const Logs& logs) {
    if (config_->tensorboard.empty()) return Status();
    if (!scalars_.is_open()) {
      RINGLET_RETURN_IF_ERROR(
          scalars_.Open(config_->tensorboard + "/validation"));
    }
    const int64_t step = iterations < 0 ? rows_.count() + 1 : iterations;
    for (const auto& [name, value] : logs.entries()) {
      RINGLET_RETURN_IF_ERROR(scalars_.AddScalar(
          "evaluation_" + name + "_vs_iterations", step, value));
    }
    return scalars_.Flush();
  }

  RunConfig* const config_;
  const std::string end_file_;
  Rows rows_;
  RunData data_;
  EventFile scalars_;
};

class EndReporter final : public Callback {
 public:
  explicit EndReporter(std::string path) : path_(std::move(path)) {}
  const char* name() const override { return "end_reporter"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  // Removes the report of an earlier run.
  Status OnTrainBegin(FitState& fit) override {
    if (fit.chief && IsFile(path_)) {
      RINGLET_RETURN_IF_ERROR(PosixFiles()->Remove(path_));
    }
    return Status();
  }
  void OnFitReturn(FitState& fit, const Status& status) override {
    if (!status.ok() || !fit.chief) return;
    const Status written = WriteReport();
    if (!written.ok()) {
      Notice("warning: cannot report the end of the run to the evaluator: %s",
             written.message());
    }
  }

 private:
  Status WriteReport() {
    RINGLET_RETURN_IF_ERROR(PosixFiles()->MakeFolder(FolderOf(path_)));
    return WriteWholeFile(PosixFiles(), path_, "");
  }

  const std::string path_;
};

}  // namespace

Status EvaluateCheckpoints(const std::string& run, const ClusterConfig& cluster,
                           const InitFlags& init, RunConfig* config) {
  if (config->checkpoints.empty()) {
    return InvalidArgument(
        "%s: the environment makes this process an evaluator, which evaluates "
        "the files of the callback ModelCheckpoint; add one",
        run.c_str());
  }
  Evaluator evaluator(run, config);
  RINGLET_RETURN_IF_ERROR(evaluator.Begin(init).Annotate("%s", run.c_str()));
  Print("%s: evaluates each file of ModelCheckpoint %s; the rows go to %s",
        run.c_str(), config->checkpoints.front().c_str(),
        evaluator.rows().path().c_str());
  if (!cluster.has_evaluator) {
    Notice(
        "note: TF_CONFIG does not list this evaluator in \"cluster\", so the "
        "chief does not report the end of the run; stop it with Ctrl-C");
  }
  for (;;) {
    // Looked at first: files that were written before the end are evaluated.
    const bool ended = evaluator.RunHasEnded();
    RINGLET_RETURN_IF_ERROR(evaluator.EvaluateNewFiles());
    if (ended) break;
    std::this_thread::sleep_for(kPause);
  }
  RINGLET_RETURN_IF_ERROR(evaluator.Finish());
  Print("the run has ended; %" PRId64 " evaluations are in %s",
        evaluator.rows().count(), evaluator.rows().path().c_str());
  return Status();
}

std::shared_ptr<Callback> ReportEndToEvaluator(const std::string& run,
                                               const ClusterConfig& cluster,
                                               const RunConfig& config) {
  if (!cluster.has_evaluator || config.checkpoints.empty()) return nullptr;
  return std::make_shared<EndReporter>(EndFile(run, config));
}

}  // namespace ringlet
