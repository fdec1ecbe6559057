// Fuzz entry: any bytes as a model's file, as the metadata of one with right
// checksums (lines: model, compile, seed), and as the template of a file name.
// A model is loaded whole, or there is an error with its place.

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "core/base/check.h"
#include "io/checkpoint/format_path.h"
#include "io/checkpoint/inspect.h"
#include "ringlet/checkpoint.h"
#include "tests/support/simulated_file_system.h"

namespace {

using namespace ringlet;

constexpr char kPath[] = "d/file";

std::unique_ptr<Sequential> Made() {
  std::unique_ptr<Sequential> model(new Sequential({Input({2}), Dense(2)}));
  model->Compile(Adam(0.01f), MeanSquaredError());
  return model;
}

void CheckError(const Status& status) {
  RINGLET_CHECK(status.code() == Code::kInvalidArgument ||
                status.code() == Code::kCorruption ||
                status.code() == Code::kUnimplemented);
  RINGLET_CHECK(std::string(status.message()).find(kPath) == 0);
}

void CheckLoad(SimulatedFileSystem* files) {
  std::unique_ptr<Model> model;
  const Status status = LoadModel(kPath, &model, {}, files);
  RINGLET_CHECK(status.ok() == (model != nullptr));
  if (!status.ok()) return CheckError(status);
  RINGLET_CHECK(model->status().ok());
  if (!model->compiled()) return;
  SaveModelOptions options;
  options.files = files;
  RINGLET_CHECK(SaveModel(model.get(), "d/again", options).ok());
  RINGLET_CHECK(LoadModel("d/again", &model, {}, files).ok());
}

void CheckOthers(SimulatedFileSystem* files) {
  FileInfo info;
  const Status inspected = InspectFile(kPath, &info, files);
  if (!inspected.ok()) return CheckError(inspected);
  RINGLET_CHECK(!ToText(info).empty() && !ToJson(info).empty());
  FileComparison comparison;
  const Status compared = CompareFiles(kPath, kPath, &comparison, 20, files);
  // The kind of another file is reported; its contents are not compared.
  RINGLET_CHECK(compared.ok() ? comparison.same()
                              : info.verification == Verification::kDamaged ||
                                    !info.what.empty());
  const std::unique_ptr<Sequential> model = Made();
  LoadWeightsOptions options;
  options.by_name = options.skip_mismatch = true;
  options.files = files;
  options.warn = [](const std::string&) {};
  const Status loaded = LoadWeights(model.get(), kPath, options);
  if (!loaded.ok()) CheckError(loaded);
}

void CheckTemplate(const std::string& text) {
  std::string path;
  const std::vector<PathField> fields = {{"epoch", true, 3, 0},
                                         {"loss", false, 0, -1e300}};
  const Status status = FormatPath(text, fields, &path);
  if (status.ok()) {
    RINGLET_CHECK(CheckPathFormat(text).ok());
  } else {
    RINGLET_CHECK(status.code() == Code::kInvalidArgument);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  CheckTemplate(bytes);
  SimulatedFileSystem files;
  files.MakeFolder("d").IgnoreError();
  std::unique_ptr<File> file;
  files.Create(kPath, &file).IgnoreError();
  RINGLET_CHECK(file->Write(data, size).ok());
  CheckLoad(&files);
  CheckOthers(&files);

  Metadata metadata;
  std::istringstream lines(bytes);
  for (const char* key : {"model", "compile", "seed"}) {
    std::string line;
    if (std::getline(lines, line)) metadata[key] = line;
  }
  const std::unique_ptr<Sequential> model = Made();
  SaveOptions options;
  options.files = &files;
  const Status saved =
      SaveCheckpoint(kPath, {model->weights_state(), model->optimizer_state()},
                     metadata, options);
  if (saved.ok()) CheckLoad(&files);
  return 0;
}
