#include "check_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "../base/fnv1a.h"
#include "../base/ieee_arithmetic.h"
#include "../compute/digest.h"
#include "ringlet/compute.h"
#include "step_report.h"

namespace ringlet {
namespace {

constexpr uint64_t kCheckStream = 0x636865636b;  // a stream of random numbers

// Replaces weights that are not finite by generated ones, until its destructor.
// A pass with such weights gives NaN on any machine, which would hide a faulty
// rank. Without memory for a copy the weights stay.
class FiniteWeights {
 public:
  FiniteWeights(float* weights, int64_t count, const Philox& random)
      : weights_(weights), count_(count) {
    if (std::all_of(weights, weights + count,
                    [](float w) { return std::isfinite(w); })) {
      return;
    }
    kept_.reset(new (std::nothrow) float[static_cast<size_t>(count)]);
    if (kept_ == nullptr) return;
    std::memcpy(kept_.get(), weights,
                sizeof(float) * static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const auto bits = random.At(static_cast<uint64_t>(i));
      weights[i] = (Philox::Unit(bits[0]) - 0.5f) / 4;
    }
  }
  ~FiniteWeights() {
    if (kept_ == nullptr) return;
    std::memcpy(weights_, kept_.get(),
                sizeof(float) * static_cast<size_t>(count_));
  }
  FiniteWeights(const FiniteWeights&) = delete;
  FiniteWeights& operator=(const FiniteWeights&) = delete;

 private:
  float* const weights_;
  const int64_t count_;
  std::unique_ptr<float[]> kept_;
};

uint64_t DigestOfStates(const MetricState* states, size_t count) {
  Fnv1a digest;
  for (size_t i = 0; i < count; ++i) {
    double sums[2];
    static_assert(sizeof(sums) == sizeof(*states));
    std::memcpy(sums, states + i, sizeof(sums));
    for (double sum : sums) {
      // Machines differ in the bits of a NaN.
      if (std::isnan(sum)) sum = std::numeric_limits<double>::quiet_NaN();
      uint64_t bits;
      std::memcpy(&bits, &sum, sizeof(bits));
      for (int byte = 0; byte < 8; ++byte, bits >>= 8) {
        const auto low = static_cast<unsigned char>(bits);
        digest.Add(&low, 1);
      }
    }
  }
  return digest.value();
}

}  // namespace

// Generated examples, new in each step: inputs and values from 0 to 1, and
// valid class numbers.
Batch CheckPass::MakeBatch(int64_t count) const {
  // A simple generator suffices. Its high bits are better than its low ones.
  const Philox random(config_.options.seed, kCheckStream);
  uint32_t word = random.At(static_cast<uint64_t>(updater_.iterations()))[0];
  const auto next = [&] {
    word = word * 747796405u + 2891336453u;
    return word;
  };
  float* x = memory_.step().x;
  for (int i = 0; i < graph_.num_inputs(); ++i) {
    const int64_t n = count * graph_.node(i).output.elements();
    for (int64_t k = 0; k < n; ++k) *x++ = Philox::Unit(next());
  }
  auto* const y = static_cast<unsigned char*>(memory_.step().y);
  for (const CompileConfig::Output& output : config_.outputs) {
    if (!output.has_loss) continue;
    const auto classes =
        static_cast<uint32_t>(graph_.node(output.node).output.back());
    for (int64_t k = output.first_target * count;
         k < (output.first_target + output.targets) * count; ++k) {
      next();
      const auto number = static_cast<int32_t>((word >> 8) % classes);
      const float value = Philox::Unit(word);
      std::memcpy(y + 4 * k,
                  output.loss.takes_classes()
                      ? static_cast<const void*>(&number)
                      : &value,
                  4);
    }
  }
  Batch batch;
  batch.count = batch.global_count = count;
  batch.x = memory_.step().x;
  batch.y = y;
  return batch;
}

PassDigests CheckPass::Compute(int64_t examples) {
  const IeeeArithmetic ieee;
  PassDigests digests;
  StepReport report(&config_);
  report.Reset();
  Status status = stepper_.Reserve(examples, /*training=*/true);
  stepper_.CancelStep();
  const FiniteWeights finite(memory_.persistent().weights, graph_.num_weights(),
                             Philox(config_.options.seed, kCheckStream));
  if (status.ok()) {  // every rank computes it as replica 0 of the job
    status = stepper_.ComputePassAlone(-config_.job_replicas.own().first,
                                       MakeBatch(examples), &report);
  }
  if (!status.ok()) {  // an error of a user's layer, and so on all ranks
    digests.metrics = static_cast<uint64_t>(status.code());
    return digests;
  }
  const float* const gradients = memory_.persistent().gradients;
  const int64_t count = graph_.num_trained() + graph_.num_changes();
  digests.metrics =
      DigestOfStates(report.own_states(), config_.first_states.back());
  digests.gradients = ComputeDigest(gradients, count, config_.pool.get());
  return digests;
}

}  // namespace ringlet
