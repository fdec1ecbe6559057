// Run: a RUN.json at work, as train, plan and their like share it.
//
// Internal to tools/ringlet/.

#ifndef RINGLET_TOOLS_RINGLET_RUN_H_
#define RINGLET_TOOLS_RINGLET_RUN_H_

#include <string>

#include "command_line.h"
#include "net/cluster/cluster.h"
#include "run_config.h"

namespace ringlet {

// Flags that override fields of "fit".
struct FitFlags {
  int64_t epochs = -1, steps_per_epoch = -1, batch_size = -1, seed = -1,
          threads = -1;
  bool no_shuffle = false, recompute = false;
  // Those that shape a step alone, what it begins with and on, or all.
  void AddStep(CommandLine* flags);
  void AddOrder(CommandLine* flags);
  void AddAll(CommandLine* flags);
  void Apply(FitConfig* fit) const;
};

// The weights to begin with, and how they lie in their file.
struct InitFlags {
  std::string path;    // "": none
  std::string layout;  // "": Keras's
  bool by_name = false, skip_mismatch = false;
  void Add(CommandLine* flags, const char* help);
};

// The disk of a command: sealed files are read too, where RINGLET_KEY_FILE
// names their key.
FileSystem* Disk();

// Makes config->model one that may be trained, alone (null) or by a job; may be
// called again for another collective. Compiles it, or loads the saved model,
// and loads the weights that `init` names. `replicas`: see CompileOptions.
Status MakeModel(RunConfig* config, const InitFlags& init,
                 Collective* collective, int replicas = 0);

// That this worker asks for: unless RUN.json says it, that of the backup, which
// the chief alone can read, so that a run goes on as it began; 0: none.
int AskedReplicas(const RunConfig& config, const ClusterConfig& cluster);

// The examples of training and of validation (none where RUN.json has none), in
// batches of so many replicas. They fit the model, which is compiled
// for one alone, labels too: these have all been looked at, and the examples
// where their values are not known without.
struct RunData {
  Dataset train, validation;
  Dataset train_examples, validation_examples;  // before they are batched
  // For other replicas than those that it was opened for.
  void Batch(const FitConfig& fit, int replicas);
};
Status OpenRunData(const RunConfig& config, int replicas, RunData* data);

bool IsSameFile(const std::string& a, const std::string& b);
// An error where a flag's file to write is one of the data's.
Status CheckNotData(const char* flag, const std::string& path,
                    const DataConfig& data);

// Of a command that takes no part in a job, where the environment has one.
void NoteThatAlone();

// An error where a file of this name could not be made.
Status CheckWritable(const char* flag, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_H_
