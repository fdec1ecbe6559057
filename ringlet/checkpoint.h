// Checkpoints, models and weights in files, and the callbacks that save them.

#ifndef RINGLET_CHECKPOINT_H_
#define RINGLET_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collective.h"
#include "files.h"
#include "fit.h"
#include "model.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

// --- checkpoints -------------------------------------------------------------

// State in one safetensors file, durable across crashes
// (docs/checkpoint_format.md).

using Saveables = std::vector<Saveable*>;  // not owned

struct SaveOptions {
  // The type of the weights ("model/…") in the file.
  Storage weights = Storage::kF32;
  FileSystem* files = PosixFiles();  // SealedFiles encrypts
  bool replace = true;               // if false, an old file is kAlreadyExists
  // For SaveWeights: leaves out weights that training does not change, such as
  // the frozen weights of a model with LoRA. LoadWeights expects that these
  // weights are loaded already.
  bool trainable_only = false;
};

// Writes every span of `state`, with mode 0600 or the mode of an earlier file.
// The metadata keys "format" and "format_version" are reserved. After an error
// the earlier file is still at `path`, unless *replaced (may be null) is true.
Status SaveCheckpoint(const std::string& path, const Saveables& state,
                      const Metadata& metadata = {},
                      const SaveOptions& options = {},
                      bool* replaced = nullptr);

struct LoadOptions {
  // Allows tensors that `state` lacks, as in a whole run's file.
  bool ignore_others = false;
  std::set<std::string> ignored;  // names of tensors to allow, too
  // Accepts a plain safetensors file, in which damage cannot be detected.
  bool accept_unverified = false;
  FileSystem* files = PosixFiles();
};

struct LoadedCheckpoint {
  Metadata metadata;
  bool verified = false;
};

// Reads the spans of `state`, then calls StateLoaded of each. Names, dtypes and
// shapes must be equal; F16 and BF16 become float32. Before any span changes,
// kInvalidArgument names the first difference, kCorruption the damaged part.
Status LoadCheckpoint(const std::string& path, const Saveables& state,
                      const LoadOptions& options = {},
                      LoadedCheckpoint* loaded = nullptr);

// Reads every byte of a checkpoint of ringlet, and compares the checksums.
Status VerifyCheckpoint(const std::string& path,
                        FileSystem* files = PosixFiles());

// The newest checkpoint that verifies; empty if there is none. Fails if there
// are some and none verifies. Takes no lock.
Status LatestCheckpoint(const std::string& directory, std::string* path,
                        const std::string& checkpoint_name = "ckpt",
                        FileSystem* files = PosixFiles());

struct CheckpointManagerOptions {
  int max_to_keep = 5;  // Zero means all.
  double keep_checkpoint_every_n_hours = 0;
  std::string checkpoint_name = "ckpt";
  // With checkpoint_interval, Save does nothing until *step_counter has grown
  // by the interval since the last save or restore. Not owned.
  const int64_t* step_counter = nullptr;
  int64_t checkpoint_interval = 0;
  // If there is no checkpoint, RestoreOrInitialize calls it.
  std::function<Status()> init_fn;
  Metadata metadata;
  Storage weights = Storage::kF32;
  FileSystem* files = PosixFiles();
  Clock* clock = Clock::System();
  std::function<void(const std::string&)> warn;
};

// The numbered checkpoints of one run, as of tf.train.CheckpointManager:
// <directory>/<name>-<n>.safetensors, and the text file `checkpoint`. For one
// thread at a time.
//
// The constructor creates the directory, locks it until the destructor, and
// renames damaged checkpoints to *.bad with a warning. If the constructor
// fails, all calls return its error:
//   kAlreadyExists  another process has locked the directory
//   kCorruption     there are checkpoints, and none verifies
class CheckpointManager {
 public:
  CheckpointManager(const Saveables& state, const std::string& directory,
                    const CheckpointManagerOptions& options = {});
  ~CheckpointManager();
  const Status& status() const;

  // *path is the durable new checkpoint, or "" if the interval has not passed.
  // With check_interval false, Save skips only a second save of the same step.
  Status Save(std::string* path = nullptr, bool check_interval = true);
  // Loads latest_checkpoint(), or calls init_fn and sets *path to "".
  Status RestoreOrInitialize(std::string* path = nullptr);

  std::string latest_checkpoint() const;  // "" if there is none
  std::vector<std::string> checkpoints() const;
  const std::string& directory() const;
  const Metadata& restored_metadata() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// --- a model as JSON ---------------------------------------------------------

// Keras 3's to_json(), without weights and the arguments of Compile. Needs
// status() OK. A custom layer lacks its options, and cannot be read.
std::string ToJson(const Model& model);

// Reads the JSON of Keras 3 and 2 (tf.keras), for Sequential and functional
// models. *model is replaced only on success, and is not compiled. Seeds, and
// fields that change no model of ringlet, are ignored. For any other field
// kInvalidArgument names the layer and the field. The text is untrusted: at
// most 1 MiB, 64 levels, 4096 layers of a model, 16 levels of nested models.
Status ModelFromJson(const std::string& json, std::unique_ptr<Model>* model);

// --- models and weights ------------------------------------------------------

// Keras's functions, with one file each (docs/checkpoint_format.md). In a job
// the chief saves, and every rank loads a copy of the file.

struct SaveModelOptions {
  // If false, the loaded model must be compiled.
  bool include_optimizer = true;
  // With kF16 and kBF16 training continues from rounded weights.
  Storage weights = Storage::kF32;
  Metadata metadata;
  FileSystem* files = PosixFiles();  // SealedFiles encrypts
  bool replace = true;               // if false, an old file is kAlreadyExists
};

// Writes the model as SaveCheckpoint writes state. A custom layer, loss or
// metric cannot be saved: kInvalidArgument names it and an alternative.
Status SaveModel(Model* model, const std::string& path,
                 const SaveModelOptions& options = {});

// Builds, compiles and restores a model. Training continues with the same bits,
// and the file's seed replaces options.seed. A file without "compile" gives a
// model that must be compiled. *model is replaced only on success. kCorruption
// names the damaged part, kInvalidArgument the part that does not fit. Workers
// must load the same model (kOutOfSync); a worker that joins a job gets the
// job's state.
Status LoadModel(const std::string& path, std::unique_ptr<Model>* model,
                 const CompileOptions& options = {},
                 FileSystem* files = PosixFiles());

// Ignores the file's "compile": Compile gives a new optimizer.
Status LoadModelToCompile(const std::string& path,
                          std::unique_ptr<Model>* model,
                          FileSystem* files = PosixFiles());

Status SaveWeights(Model* model, const std::string& path,
                   const SaveOptions& options = {});

// The names of the weights in another program's file, and their layout.
enum class WeightsLayout : uint8_t {
  // "dense/kernel", with the variants of Keras and TensorFlow. Arrays without
  // names are in model.get_weights()'s order.
  kKeras,
  // A state_dict of PyTorch: "fc.weight" and "fc.bias", in its layouts.
  kTorch,
};

// docs/from-keras.md has the rules.
struct LoadWeightsOptions {
  WeightsLayout layout = WeightsLayout::kKeras;
  // Loads only layers that both the file and the model have. Arrays without
  // names go to the model's first weights in order.
  bool by_name = false;
  // Skips a layer with missing weights or other shapes.
  bool skip_mismatch = false;
  // Takes a layer also if the file has only some of its weights, unless it is a
  // saved model. The layer's other weights stay, also those of LoRA.
  bool partial_layers = false;
  FileSystem* files = PosixFiles();
  // Reports skipped weights and unverifiable files; by default on stderr.
  std::function<void(const std::string&)> warn;
};

// The lists have names, such as "dense/kernel".
struct WeightsReport {
  bool verified = false;
  std::vector<std::string> loaded;      // in the model's order
  std::vector<std::string> missing;     // names in the model, not in the file
  std::vector<std::string> unexpected;  // names in the file, not in the model
  // "dense/kernel: F32 (2, 16) in the file, F32 (2, 8) here"
  std::vector<std::string> mismatched;
  // Weights that fit, in a layer with another weight that does not.
  std::vector<std::string> skipped;
  // Matrices of LoRA that the file lacks: A stays, and B becomes zeros.
  std::vector<std::string> lora;
};

// Loads weights by name from a file of ringlet (also a run's checkpoint), an
// npz file, a plain safetensors file or an ONNX model (layout kTorch). Damage
// in the last two cannot be detected. All checks come before the first change.
// Numbers are rounded to float32; one beyond its range is an error. *report
// (may be null) is always set. The optimizer's state stays.
Status LoadWeights(Model* model, const std::string& path,
                   const LoadWeightsOptions& options = {},
                   WeightsReport* report = nullptr);

// --- callbacks ---------------------------------------------------------------

// In a job every worker must have these callbacks; only the chief reads and
// writes their files.

// Keras's BackupAndRestore: an interrupted fit continues from its last step,
// and ends with the same bits.
//
//   options.callbacks = {BackupAndRestore("backup", SaveEvery(30))};
//
// A restarted worker of a job gets the state from the other workers' memory.
// The backup is loaded only if no reachable worker has a valid state.

struct BackupAndRestoreOptions {
  // The number of steps between two saves, across epochs. Zero means every
  // epoch.
  int64_t save_freq = 0;
  bool double_checkpoint = false;  // keeps the two newest backups
  bool delete_checkpoint = true;   // deletes them after training
  // SIGTERM, SIGINT and SIGHUP save after the present step and end the fit with
  // kCancelled (exit code 75). A second signal kills the process.
  bool save_before_preemption = true;
  // Another thread writes a copy of the state. If false, training waits for the
  // write.
  bool background = true;
  // Allows a backup of a different optimizer (class or number; different slots
  // are always an error), or of a different seed.
  bool other_optimizer = false;
  bool other_seed = false;
  FileSystem* files = PosixFiles();  // SealedFiles encrypts
  Clock* clock = Clock::System();
};

// Keras's save_freq: "epoch", or a number of steps.
inline BackupAndRestoreOptions SaveEveryEpoch() { return {}; }
inline BackupAndRestoreOptions SaveEvery(int64_t steps) {
  BackupAndRestoreOptions options;
  options.save_freq = steps;
  return options;
}

// If a write fails, there is a warning on stderr, and the previous backup
// stays. Fit returns an error if a backup cannot be read, has a different
// model, or is of a later epoch than the last. Callbacks and metrics may
// differ. Different data give a warning, or an error if the position is outside
// the data.
std::shared_ptr<Callback> BackupAndRestore(
    const std::string& backup_dir, const BackupAndRestoreOptions& options = {});

// Saves the model, or its weights, as Keras 3's callbacks/model_checkpoint.py.
// The file is durable when the message appears.
//
//   ModelCheckpointOptions best;
//   best.save_best_only = true;
//   options.callbacks = {
//       ModelCheckpoint("run/{epoch:02d}-{val_loss:.2f}.safetensors", best)};

struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  int verbose = 0;
  // Saves only if `monitor` is better than at every earlier save. If the logs
  // of an epoch lack it (validation_freq), saves with a warning.
  bool save_best_only = false;
  bool save_weights_only = false;
  bool save_trainable_only = false;  // weights only
  MonitorMode mode = MonitorMode::kAuto;
  // The number of batches between two saves, across epochs. Zero means every
  // epoch.
  int64_t save_freq = 0;
  // With save_best_only the first save must be better than this value. NaN
  // means that any value suffices.
  double initial_value_threshold = std::numeric_limits<double>::quiet_NaN();
  // Keeps the newest files of this callback, at most 100, and with
  // save_best_only the best one; zero means all. Only this run's own files are
  // removed.
  int max_to_keep = 0;
  Storage weights = Storage::kF32;
  FileSystem* files = PosixFiles();
};

// `filepath` may have Python's fields {epoch}, {batch} (only with save_freq)
// and the names in the logs, as {epoch:02d} or {loss:.2f}, from 1. Missing
// folders are created. Extensions of data files and RUN.json (".csv", ".json",
// ".npy", ".npz", ".gz") are refused.
//
// A save replaces a file atomically. If it fails, there is a warning on stderr,
// and the earlier file and the best value stay. If the last one has failed, Fit
// returns its error; a resumed run tries again, if BackupAndRestore is earlier
// in the list. docs/membership.md explains what a split elastic job saves.
std::shared_ptr<Callback> ModelCheckpoint(
    const std::string& filepath, const ModelCheckpointOptions& options = {});

// Saves the whole model at the end of a fit, or at the end of the step after
// SIGINT (Ctrl-C), SIGTERM or SIGHUP.
//
//   options.callbacks = {SaveWhenTrained("mnist.safetensors")};

struct SaveWhenTrainedOptions {
  Metadata metadata;
  // A file at `path` that lacks a part of `metadata` stays, and the model gets
  // the first free name of "m-1.safetensors" and so on.
  bool keep_others = false;
  // Writes nothing if another callback has saved the final model.
  bool skip_if_saved = false;
  // A signal ends the fit after its step, with kInterrupted. The model is in
  // "<path>-interrupted.safetensors", or the next free name; with
  // BackupAndRestore in the backup. If the loss of a worker ends the job, the
  // chief saves there too. If the chief was lost, rank 1 does. A second signal
  // kills the process.
  bool save_if_interrupted = true;
  // A folder to try if the write fails, or empty. The fit still fails.
  std::string fallback_folder;
  FileSystem* files = PosixFiles();
};

// Writes `path` in OnTrainEnd, so list it last. An empty path writes nothing.
std::shared_ptr<Callback> SaveWhenTrained(
    const std::string& path, const SaveWhenTrainedOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_CHECKPOINT_H_
