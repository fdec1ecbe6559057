// Run: the steps from a RUN.json to a model and its data, which commands share.

#ifndef RINGLET_TOOLS_RINGLET_RUN_RUN_H_
#define RINGLET_TOOLS_RINGLET_RUN_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "../command_line.h"
#include "../config/run_config.h"
#include "ringlet/fit.h"
#include "ringlet/strategy.h"

namespace ringlet {

// The flags that override fields of "fit" in RUN.json.
struct FitFlags {
  int64_t epochs = -1, steps_per_epoch = -1, batch_size = -1, seed = -1,
          threads = -1;
  bool no_shuffle = false, recompute = false, mixed_bfloat16 = false;
  // AddStep adds the flags for one training step. AddOrder adds the flags for
  // the seed and the order of the data. AddAll adds all flags.
  void AddStep(CommandLine* flags);
  void AddOrder(CommandLine* flags);
  void AddAll(CommandLine* flags);
  void Apply(FitConfig* fit) const;
};

// The initial weights, and their layout in their file.
struct InitFlags {
  std::string path;    // empty if there is none
  std::string layout;  // "" for Keras's
  bool by_name = false, skip_mismatch = false;
  void Add(CommandLine* flags, const char* help);
  // If `path` is a folder with a model.safetensors.index.json, it becomes the
  // path of this file. If it is another folder, or a ModelCheckpoint's filepath
  // with fields such as {epoch}, it becomes the path of the newest model there.
  Status ChooseNewest();
};

// The file system of a command. It also reads sealed files if RINGLET_KEY_FILE
// names their key.
FileSystem* CommandFileSystem();

// Makes config->model of the saved model, with LoRA. It is not compiled, and
// has no weights yet.
Status LoadWithLora(RunConfig* config);

// Prepares config->model for training, alone (null) or in a job. Compiles it,
// or loads the saved model, and loads the weights that `init` names. May be
// called again for another collective. CompileOptions explains `replicas`.
Status MakeModel(RunConfig* config, const InitFlags& init,
                 Collective* collective, int replicas = 0);

// Gives the model the description of the training data that the file of --init
// has, if it has one.
Status CopyDescriptionOfInitFile(const InitFlags& init, Model* model);

// Prints a note if the columns of that file are the columns of the data in a
// different order: weights have no names of columns.
Status PrintOtherOrder(const InitFlags& init, const Model& model,
                       const std::optional<DataDescription>& data);

// The number of replicas that this worker requests: the number in RUN.json, or
// in the backup, so that a run continues as it began. 0 if neither has a
// number. Only the chief can read the backup.
int RequestedReplicas(const RunConfig& config, const ClusterConfig& cluster);

// The training data and the validation data (if RUN.json has any), in batches
// for a number of replicas.
struct RunData {
  Dataset train, validation;
  Dataset train_examples, validation_examples;  // not in batches
  // The description of `train`; none if its parts have their own scales.
  std::optional<DataDescription> description;
  // Makes new batches, for another number of replicas.
  void Batch(const FitConfig& fit, int replicas);
};
// Opens the data and checks them against the model, which must be compiled for
// one worker. Reads all labels. Reads the examples too if they are in memory
// and the bounds of their values are not known.
Status OpenRunData(const RunConfig& config, int replicas, RunData* data);
// fit.validation_split: the last `share` of *train becomes *validation, and
// *train keeps the other examples.
Status Split(double share, Dataset* train, Dataset* validation);

// The options of a fit that RUN.json gives, with callbacks that report its
// progress to a log and a service manager.
FitOptions MakeFitOptions(const RunConfig& config, const RunData& data);

// True if both paths lead to the same existing file.
bool NameOneFile(const std::string& a, const std::string& b);
// The same for outputs, of which the file need not exist.
bool WouldBeOneFile(const std::string& a, const std::string& b);
// Returns an error if `path`, the output file of `flag`, is among the files in
// `read`.
Status CheckNotRead(const char* flag, const std::string& path,
                    const std::vector<std::string>& read);
// Returns an error if `path` is one of the files of the data.
Status CheckNotData(const char* flag, const std::string& path,
                    const DataConfig& data);

// Prints a note if the environment has a job and the command takes no part in
// it.
void PrintIgnoredJob();

// Prints "wrote y.npy: the outputs of 400 examples, 16128 bytes" on stdout.
// Prints nothing if `path` is not a regular file.
void PrintWritten(const std::string& path, const std::string& contents);

// Returns an error if a file of this name cannot be created.
Status CheckWritable(const char* flag, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_RUN_H_
