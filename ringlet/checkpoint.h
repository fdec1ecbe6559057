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

// State in one safetensors file, durable across crashes. A span's name is its
// tensor's name (docs/checkpoint_format.md).

using Saveables = std::vector<Saveable*>;  // not owned

struct SaveOptions {
  // The type of the weights ("model/…") in the file. kF16 and kBF16 lose
  // precision.
  Storage weights = Storage::kF32;
  FileSystem* files = PosixFiles();  // SealedFiles encrypts
  bool replace = true;               // false: kAlreadyExists if `path` exists
  // SaveWeights: leaves out weights that training does not change, such as
  // those under LoRA. LoadWeights then expects them to be loaded already.
  bool trainable_only = false;
};

// Writes every span of `state`, with mode 0600 or the mode of the file that it
// replaces. The metadata keys `format` and `format_version` are reserved. After
// OK the file is durable. After an error the earlier file is still at `path`,
// unless *replaced (may be null) is true.
Status SaveCheckpoint(const std::string& path, const Saveables& state,
                      const Metadata& metadata = {},
                      const SaveOptions& options = {},
                      bool* replaced = nullptr);

struct LoadOptions {
  // Allows tensors in the file that `state` lacks, as in a whole run's file.
  bool ignore_others = false;
  std::set<std::string> ignored;  // the same, by name
  // Accepts a plain safetensors file, in which damage cannot be detected.
  bool accept_unverified = false;
  FileSystem* files = PosixFiles();
};

struct LoadedCheckpoint {
  Metadata metadata;
  bool verified = false;  // true if checksums verified the file
};

// Reads the file into the spans of `state`, then calls StateLoaded of each. The
// names, dtypes and shapes must be equal; F16 and BF16 become float32. All
// checks come before the first span is overwritten: kInvalidArgument names the
// first difference, kCorruption the damaged part. `loaded` may be null.
Status LoadCheckpoint(const std::string& path, const Saveables& state,
                      const LoadOptions& options = {},
                      LoadedCheckpoint* loaded = nullptr);

// Compares every byte of a ringlet checkpoint with its checksums.
Status VerifyCheckpoint(const std::string& path,
                        FileSystem* files = PosixFiles());

// The newest checkpoint in `directory` that verifies; empty if there is none.
// Fails if there are checkpoints and none verifies. Takes no lock.
Status LatestCheckpoint(const std::string& directory, std::string* path,
                        const std::string& checkpoint_name = "ckpt",
                        FileSystem* files = PosixFiles());

struct CheckpointManagerOptions {
  int max_to_keep = 5;  // 0: all, as TensorFlow's None
  double keep_checkpoint_every_n_hours = 0;
  std::string checkpoint_name = "ckpt";
  // With checkpoint_interval, Save does nothing until *step_counter has grown
  // by the interval since the last save or restore. Not owned.
  const int64_t* step_counter = nullptr;
  int64_t checkpoint_interval = 0;
  // Called by RestoreOrInitialize if there is no checkpoint.
  std::function<Status()> init_fn;
  Metadata metadata;  // the metadata of every save
  Storage weights = Storage::kF32;
  FileSystem* files = PosixFiles();
  Clock* clock = Clock::System();
  std::function<void(const std::string&)> warn;
};

// The numbered checkpoints of one run, with the names and the semantics of
// tf.train.CheckpointManager: <directory>/<name>-<n>.safetensors, and the text
// file `checkpoint`. One thread at a time may use a manager.
//
// The constructor creates the directory, locks it until the destructor, and
// renames checkpoints that do not verify to *.bad, with a warning. Every call
// returns its error:
//   kAlreadyExists  another process has locked the directory
//   kCorruption     there are checkpoints, and none verifies
class CheckpointManager {
 public:
  CheckpointManager(const Saveables& state, const std::string& directory,
                    const CheckpointManagerOptions& options = {});
  ~CheckpointManager();
  const Status& status() const;

  // Returns when the file is durable. *path is the new checkpoint, or "" if the
  // interval has not passed. With check_interval false only a second save of
  // the same step is skipped.
  Status Save(std::string* path = nullptr, bool check_interval = true);
  // Restores latest_checkpoint(), or calls init_fn and sets *path to "".
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

// The format of Keras's model.to_json(), without weights and the arguments of
// Compile.

// Writes Keras 3's form of a model with status() OK. Equal models give the same
// text. A custom layer is written without its options, and cannot be read.
std::string ToJson(const Model& model);

// Reads the JSON of Keras 3 and of Keras 2 (tf.keras), for Sequential and
// functional models. *model is replaced only on success, and is not compiled.
// Fields that change no model of ringlet are ignored, and the seed of an
// initializer; for others kInvalidArgument names the layer and the field. The
// text is untrusted: at most 1 MiB, 64 levels, 4096 layers of a model and 16
// levels of nested models.
Status ModelFromJson(const std::string& json, std::unique_ptr<Model>* model);

// --- models and weights ------------------------------------------------------

// Keras's save, load_model, save_weights and load_weights, with one file each
// (docs/checkpoint_format.md). In a job of several workers the chief saves, and
// every rank loads a copy of the file.

struct SaveModelOptions {
  // False: configuration and weights; the loaded model must be compiled.
  bool include_optimizer = true;
  // kF16 and kBF16: training continues from rounded weights.
  Storage weights = Storage::kF32;
  Metadata metadata;                 // the caller's metadata
  FileSystem* files = PosixFiles();  // SealedFiles encrypts
  bool replace = true;               // false: kAlreadyExists if `path` exists
};

// Saves a compiled model, as SaveCheckpoint does. kInvalidArgument names a
// custom layer, loss or metric, which no file can have, and an alternative.
Status SaveModel(Model* model, const std::string& path,
                 const SaveModelOptions& options = {});

// Builds, compiles and restores a model. Training continues with the same bits
// as without the save; the file's seed replaces options.seed. A file without
// `compile` gives a model that must be compiled. *model is replaced only on
// success. kCorruption names the damaged part, kInvalidArgument the part that
// does not fit. Workers must load the same model (kOutOfSync); one that joins a
// running job receives the job's state instead.
Status LoadModel(const std::string& path, std::unique_ptr<Model>* model,
                 const CompileOptions& options = {},
                 FileSystem* files = PosixFiles());

// Loads a model without the file's `compile`: Compile gives it a new optimizer.
Status LoadModelToCompile(const std::string& path,
                          std::unique_ptr<Model>* model,
                          FileSystem* files = PosixFiles());

// Saves only the weights of a compiled model.
Status SaveWeights(Model* model, const std::string& path,
                   const SaveOptions& options = {});

// The names of the weights in another program's file, and their layout.
enum class WeightsLayout : uint8_t {
  // "dense/kernel", with the layout of this library, and the variants of Keras
  // and TensorFlow. Arrays without names are in model.get_weights()'s order.
  kKeras,
  // A state_dict of PyTorch: "fc.weight" and "fc.bias", in its layouts.
  kTorch,
};

// docs/from-keras.md has the rules.
struct LoadWeightsOptions {
  WeightsLayout layout = WeightsLayout::kKeras;
  // Loads only layers that the file and the model both have. Arrays without
  // names go to the model's first weights in order.
  bool by_name = false;
  // Skips a layer with missing weights or other shapes, instead of an error.
  bool skip_mismatch = false;
  FileSystem* files = PosixFiles();
  // Called with the skipped weights, and for a file that cannot be verified. By
  // default "warning: ..." on stderr.
  std::function<void(const std::string&)> warn;
};

// The lists have names of weights, such as "dense/kernel".
struct WeightsReport {
  bool verified = false;                // true if checksums verified the file
  std::vector<std::string> loaded;      // the names, in the model's order
  std::vector<std::string> missing;     // names in the model, not in the file
  std::vector<std::string> unexpected;  // names in the file, not in the model
  // "dense/kernel: F32 (2, 16) in the file, F32 (2, 8) here"
  std::vector<std::string> mismatched;
  // Weights that fit, in a layer with another one that does not.
  std::vector<std::string> skipped;
  // Matrices of LoRA that a file without LoRA lacks: A keeps its values, and B
  // becomes zeros.
  std::vector<std::string> lora;
};

// Loads weights by the names of layer and weight, in any order, from a file of
// ringlet (also a run's checkpoint), an npz file, a plain safetensors file or
// an ONNX model, which has the layout kTorch. Damage in the last two cannot be
// detected. All checks come before the first weight is overwritten. Numbers are
// rounded to float32; one beyond its range is an error. *report (may be null)
// is set also if the weights do not fit. The optimizer's state stays.
Status LoadWeights(Model* model, const std::string& path,
                   const LoadWeightsOptions& options = {},
                   WeightsReport* report = nullptr);

// --- callbacks ---------------------------------------------------------------

// In a job of several workers every worker has the callback, and only the chief
// reads and writes files.

// BackupAndRestore: Keras's callback. An interrupted fit continues from its
// last step, and ends with the same bits as an uninterrupted one.
//
//   options.callbacks = {BackupAndRestore("backup", SaveEvery(30))};
//
// A restarted worker of a job receives the state from the others' memory. The
// backup is loaded only if no reachable worker has a valid state.

struct BackupAndRestoreOptions {
  // 0: after every epoch. N: after every N steps, counted across epochs.
  int64_t save_freq = 0;
  bool double_checkpoint = false;  // keeps the two newest backups
  // Removes the backup once training has completed.
  bool delete_checkpoint = true;
  // SIGTERM, SIGINT and SIGHUP save at the end of the present step and end the
  // fit with kCancelled (exit code 75: run again to continue). A second signal
  // kills the process.
  bool save_before_preemption = true;
  // Another thread writes a copy of the state. False: training waits for the
  // disk, and needs no copy.
  bool background = true;
  // Allow a resume from a backup with a different optimizer (its class or a
  // number; different slots are always an error), or with a different seed.
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

// If a backup cannot be written, there is a warning on stderr, and the previous
// one stays. Fit returns an error if a backup cannot be read, has a different
// model, or is of a later epoch than the fit's last. Callbacks and metrics may
// be added or removed. A backup with different data gives a warning, and an
// error if its position is outside the data.
std::shared_ptr<Callback> BackupAndRestore(
    const std::string& backup_dir, const BackupAndRestoreOptions& options = {});

// ModelCheckpoint: saves the model, or its weights, after epochs or batches.
// Options, rules and messages are as in Keras 3's
// callbacks/model_checkpoint.py. The file is durable when the message appears.
//
//   ModelCheckpointOptions best;
//   best.save_best_only = true;
//   options.callbacks = {
//       ModelCheckpoint("run/{epoch:02d}-{val_loss:.2f}.safetensors", best)};

struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  int verbose = 0;
  // Saves only if `monitor` is better than at every earlier save, or with a
  // warning if the logs of an epoch lack it (validation_freq).
  bool save_best_only = false;
  bool save_weights_only = false;
  // Weights only, as SaveOptions::trainable_only.
  bool save_trainable_only = false;
  MonitorMode mode = MonitorMode::kAuto;
  // 0: after every epoch. N: after every N batches, counted across epochs.
  int64_t save_freq = 0;
  // The value that the first save must improve; NaN: none.
  double initial_value_threshold = std::numeric_limits<double>::quiet_NaN();
  // Keeps the newest n files of this callback, and with save_best_only also the
  // best one; n is at most 100. 0: all. Older files are removed after a save,
  // if they still are what this run has written.
  int max_to_keep = 0;
  Storage weights = Storage::kF32;
  FileSystem* files = PosixFiles();
};

// `filepath` may have fields of Python's str.format: {epoch}, {batch} (only
// with save_freq N) and the names in the logs, as {epoch:02d} or {loss:.2f}.
// Epochs and batches count from 1. Missing folders are created. Any extension
// is accepted except those of data files and RUN.json (".csv", ".json", ".npy",
// ".npz", ".gz"). LoadModel, or LoadWeights, reads the file.
//
// A save replaces any file of its name by an atomic rename. If it fails, there
// is a warning on stderr, training continues, and the earlier file and the best
// value stay. If the last save has failed, Fit returns its error; a resumed run
// tries it again, if BackupAndRestore is before a ModelCheckpoint in the list.
// docs/membership.md explains what a split elastic job saves.
std::shared_ptr<Callback> ModelCheckpoint(
    const std::string& filepath, const ModelCheckpointOptions& options = {});

// SaveWhenTrained: saves the whole model in one file at the end of a fit, or
// after SIGINT (Ctrl-C), SIGTERM or SIGHUP at the end of the step.
//
//   options.callbacks = {SaveWhenTrained("mnist.safetensors")};

struct SaveWhenTrainedOptions {
  Metadata metadata;  // the caller's metadata, beside that of SaveModel
  // True: a file at `path` that lacks a part of `metadata` stays, and the model
  // gets the first free name of "m-1.safetensors" and so on.
  bool keep_others = false;
  // Writes nothing if another callback's last file of the whole model already
  // has the final model.
  bool skip_if_saved = false;
  // A signal ends the fit after its step, with kInterrupted (exit code 128 +
  // the signal). The model is then in "<path>-interrupted.safetensors", or the
  // next free name; with BackupAndRestore in the backup instead. If a lost
  // worker ends the job, the chief, or rank 1 if the chief is lost, saves there
  // too. A second signal ends the process immediately.
  bool save_if_interrupted = true;
  // A folder to try if the file cannot be written, with a free name. The fit
  // still ends with the error. Empty if there is none.
  std::string fallback_folder;
  FileSystem* files = PosixFiles();
};

// Writes `path` in OnTrainEnd, so list it after callbacks that change the
// weights there. With an empty path nothing is written.
std::shared_ptr<Callback> SaveWhenTrained(
    const std::string& path, const SaveWhenTrainedOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_CHECKPOINT_H_
