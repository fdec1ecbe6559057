// ringlet verify: the first steps of a RUN.json, as a digest to compare.

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <utility>
#include <vector>

#include "../command_line.h"
#include "../config/run_config.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/text.h"
#include "core/compute/gemm.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Computes the first steps of RUN.json and prints a digest of the weights
after them: 16 digits, equal on all machines that compute the same bits.
)";

constexpr char kMore[] = R"(
Nothing is written, and callbacks and validation are left out. The command works
alone as all of strategy.replicas, whatever the environment says. If two machines
print different digests for the same RUN.json and data, they are of two
arithmetic classes, which the first line names, or one of them computes wrong
numbers: see docs/one_result.md. With strategy.overlap the digest after a step
lacks the round that is being sent; the last printed digest has it.
)";

struct VerifyFlags {
  FitFlags fit;
  int64_t steps = 10;
  std::string expected;  // empty if nothing is expected
  bool verbose = false;
};

// Records the weights after each step, and ends the fit after `steps` of them.
class Digests final : public Callback {
 public:
  Digests(int64_t steps, bool verbose) : steps_(steps), verbose_(verbose) {}
  const char* name() const override { return "digests"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    const int64_t step = fit.model->iterations();
    if (step >= steps_) fit.stop_training = 1;
    if (step < steps_ && !verbose_) return Status();
    last_ = HexText(fit.model->DigestWeights());
    if (verbose_) Print("step %" PRId64 ": %s", step, last_.c_str());
    return Status();
  }
  // If rounds overlap, the weights have the last round's change only now.
  Status OnEpochEnd(FitState& fit, Logs*) override {
    last_ = HexText(fit.model->DigestWeights());
    return Status();
  }
  const std::string& last() const { return last_; }

 private:
  const int64_t steps_;
  const bool verbose_;
  std::string last_;
};

Status CheckExpected(const std::string& text) {
  if (text.empty() ||
      (text.size() == 16 &&
       text.find_first_not_of("0123456789abcdef") == std::string::npos)) {
    return Status();
  }
  return InvalidArgument(
      "--expect %s: is not a digest; it takes 16 digits of 0-9 and a-f, as "
      "this command prints them",
      Printable(text).c_str());
}

// The default number of replicas is the number of the job's workers.
Status CheckStrategyReplicas(const StrategyOptions& strategy) {
  const int quorum = strategy.local.quorum;
  const int min_replicas = std::max(quorum, strategy.local.participation);
  if (strategy.replicas > 0 || min_replicas <= 1) return Status();
  return InvalidArgument(
      "strategy.%s: is %d, but the number of replicas is that of the job's "
      "workers, and this command works alone: set strategy.replicas to that "
      "number",
      quorum == min_replicas ? "quorum" : "participation", min_replicas);
}

// The last round must end with the last step. `epoch` is the number of steps of
// an epoch, or 0 if it is not known.
Status CheckRounds(const std::string& path, const LocalUpdates& local,
                   int64_t steps, int64_t epoch) {
  if (local.steps == LocalUpdates::kAutoSteps) {
    return InvalidArgument(
        "%s: strategy.local_steps is \"auto\", which depends on this machine's "
        "times; give the number that the run has chosen instead (train prints "
        "it in a note, `ringlet inspect BACKUP` as local_steps)",
        path.c_str());
  }
  if (local.enabled() && epoch > 0 && steps % epoch % local.steps != 0) {
    return InvalidArgument("--steps %" PRId64 ": of an epoch's %" PRId64
                           " steps, in rounds of %" PRId64
                           ", no round ends there",
                           steps, epoch, local.steps);
  }
  return Status();
}

Status Verify(const std::string& path, const VerifyFlags& flags) {
  RINGLET_RETURN_IF_ERROR(CheckExpected(flags.expected));
  PrintIgnoredJob();
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  flags.fit.Apply(&config.fit);
  const int replicas = std::max(config.strategy.options.replicas, 1);
  RINGLET_RETURN_IF_ERROR(CheckStrategyReplicas(config.strategy.options)
                              .Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      MakeModel(&config, {}, nullptr, replicas).Annotate("%s", path.c_str()));
  RunData data;
  RINGLET_RETURN_IF_ERROR(
      OpenRunData(config, replicas, &data).Annotate("%s", path.c_str()));
  Print("kernels %s: %s; seed %" PRId64 ", batch size %" PRId64
        ", %d replica%s",
        ChosenKernelSetName(), ArithmeticClassName(), config.fit.seed,
        config.fit.batch_size, replicas, replicas == 1 ? "" : "s");
  // Above 0 only for a saved model.
  const int64_t begin = config.model->iterations();
  const auto digests =
      std::make_shared<Digests>(begin + flags.steps, flags.verbose);
  FitOptions options;
  options.initial_epoch = config.fit.initial_epoch;
  options.epochs =
      options.initial_epoch + flags.steps;  // each of at least one step
  options.steps_per_epoch = config.fit.steps_per_epoch;
  const int64_t epoch = options.steps_per_epoch > 0
                            ? options.steps_per_epoch
                            : data.train.steps(replicas);
  RINGLET_RETURN_IF_ERROR(
      CheckRounds(path, config.strategy.options.local, flags.steps, epoch));
  options.class_weight = config.fit.class_weight;
  options.callbacks = {digests};
  options.verbose = Verbose::kSilent;
  RINGLET_RETURN_IF_ERROR(config.model->Fit(data.train, options).status());
  const std::string steps =
      std::to_string(flags.steps) + (flags.steps == 1 ? " step" : " steps");
  Print("digest after %s: %s", steps.c_str(), digests->last().c_str());
  if (flags.expected.empty() || flags.expected == digests->last()) {
    return Status();
  }
  return Error(Code::kInternal,
               "%s: after %s the weights are not those of --expect %s: other "
               "arithmetic (%s here), another version, other data or flags, or "
               "a machine that computes wrong",
               path.c_str(), steps.c_str(), flags.expected.c_str(),
               ArithmeticClassName());
}

}  // namespace

int VerifyCommand(const std::vector<std::string>& line) {
  VerifyFlags values;
  CommandLine flags("verify", "RUN.json", kAbout, kMore);
  flags.Int("--steps", 1, int64_t{1} << 40, &values.steps,
            "number of steps (10)");
  flags.Text("--expect", "DIGEST", &values.expected,
             "fail if the weights have another digest");
  flags.Switch("--verbose", &values.verbose,
               "print the digest after each step");
  values.fit.AddStep(&flags);
  values.fit.AddOrder(&flags);
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  return InputExitCode(Verify(flags.arguments()[0], values));
}

}  // namespace ringlet
