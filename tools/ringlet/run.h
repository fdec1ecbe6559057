// Run: the steps from a RUN.json to a model and its data, which commands share.

#ifndef RINGLET_TOOLS_RINGLET_RUN_H_
#define RINGLET_TOOLS_RINGLET_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "ringlet/strategy.h"
#include "run_config.h"

namespace ringlet {

// Flags that override fields of "fit".
struct FitFlags {
  int64_t epochs = -1, steps_per_epoch = -1, batch_size = -1, seed = -1,
          threads = -1;
  bool no_shuffle = false, recompute = false;
  // Adds only the flags of a step, those of the seed and the data's order, or
  // all.
  void AddStep(CommandLine* flags);
  void AddOrder(CommandLine* flags);
  void AddAll(CommandLine* flags);
  void Apply(FitConfig* fit) const;
};

// The initial weights, and their layout in their file.
struct InitFlags {
  std::string path;    // "": none
  std::string layout;  // "": Keras's
  bool by_name = false, skip_mismatch = false;
  void Add(CommandLine* flags, const char* help);
  // If `path` is a folder with a model.safetensors.index.json, it becomes the
  // path of this file. If it is another folder, or a ModelCheckpoint's filepath
  // with fields such as {epoch}, it becomes that of the newest model there.
  Status TakeNewest();
};

// The file system of a command. It also reads sealed files if RINGLET_KEY_FILE
// names their key.
FileSystem* CommandFileSystem();

// Prepares config->model for training, alone (null) or in a job. Compiles it,
// or loads the saved model, and loads the weights that `init` names. May be
// called again for another collective. `replicas`: see CompileOptions.
Status MakeModel(RunConfig* config, const InitFlags& init,
                 Collective* collective, int replicas = 0);

// Copies the description of the training data from the file of --init, if the
// file has one and the model does not.
Status CopyDescriptionOfInitFile(const InitFlags& init, Model* model);

// The number of replicas that this worker requests: that of RUN.json, or that
// of the backup, so that a run continues as it began. Only the chief can read
// the backup. 0: no number.
int RequestedReplicas(const RunConfig& config, const ClusterConfig& cluster);

// The examples of training and of validation (if RUN.json has any), in batches
// of so many replicas. Examples and labels are checked against the model, which
// is compiled for one worker. All labels are read, and the examples if the
// source does not know the bounds of their values.
struct RunData {
  Dataset train, validation;
  Dataset train_examples, validation_examples;  // before they are batched
  // The description of `train`; none if its parts have their own scales.
  std::optional<DataDescription> description;
  // Makes batches for another number of replicas.
  void Batch(const FitConfig& fit, int replicas);
};
Status OpenRunData(const RunConfig& config, int replicas, RunData* data);
// fit.validation_split: the last `share` of *train becomes *validation, and
// *train keeps the others.
Status Split(double share, Dataset* train, Dataset* validation);

// True if both paths lead to one file that exists.
bool NameOneFile(const std::string& a, const std::string& b);
// An error if `path`, the output file of `flag`, is among the files in `read`.
Status CheckNotRead(const char* flag, const std::string& path,
                    const std::vector<std::string>& read);
// An error if `path` is one of the files of the data.
Status CheckNotData(const char* flag, const std::string& path,
                    const DataConfig& data);

// Prints a note if the environment has a job and the command takes no part in
// it.
void NoteIgnoredJob();

// Prints "wrote y.npy: the outputs of 400 examples, 16128 bytes" on stdout.
// Prints nothing if `path` is not a regular file.
void PrintWritten(const std::string& path, const std::string& what);

// An error if a file of this name cannot be created.
Status CheckWritable(const char* flag, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_H_
