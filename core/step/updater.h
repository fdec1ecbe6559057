// Updater: applies the optimizer to the model's weights.
//
// It counts the steps and keeps the learning rate of SetLearningRate. As a
// Saveable it has the optimizer's slots, iterations and learning rate,
// "optimizer/…".

#ifndef RINGLET_CORE_STEP_UPDATER_H_
#define RINGLET_CORE_STEP_UPDATER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../exchange/compile_config.h"
#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "../graph/step_timer.h"
#include "../objective/optimizer_table.h"
#include "gradients.h"
#include "ringlet/shape.h"

namespace ringlet {

class Updater final : public Saveable {
 public:
  // All arguments outlive the Updater.
  Updater(const Graph* graph, const CompileConfig* config,
          const ModelMemory* memory, const StepTimer* timer)
      : graph_(*graph), config_(*config), memory_(*memory), timer_(*timer) {}

  // Resets to no steps and the schedule's rate.
  void Reset();

  // A step calls Begin, then Update once for every range of the weights, in any
  // order, then End. If the optimizer clips, it calls UpdateAll in the place of
  // Update.
  void Begin();
  // Updates the trained weights [begin, end) with these gradients; the range is
  // in the order of the gradient span.
  void Update(int64_t begin, int64_t end, const float* gradients);
  // True if a weight of this variable does not change when its gradient is 0.
  bool KeepsWithoutGradient(const Variable& v) const;
  // Updates these rows of such a variable, in the place of Update.
  void UpdateRows(const Variable& v, const GradientRows& rows);
  // Clips the gradients in memory, and updates all weights.
  void UpdateAll();
  // Adds to each layer state the mean of its changes over `replicas`.
  void ApplyLayerStateChanges(int replicas);
  // Applies the constraints to the trained weights. Call it at the end of each
  // step, also of a step that only accumulates gradients.
  void ApplyConstraints();
  void End() { ++iterations_; }
  // If the optimizer averages the weights, the averages become the weights. A
  // second call changes nothing.
  void UseAveragedWeights();

  // For local updates: BeginRound resets the optimizer, except its learning
  // rate. RewindRound returns to the state after BeginRound.
  void BeginRound() { round_begin_ = iterations_; }
  void RewindRound() { iterations_ = round_begin_; }
  void EndRound(int64_t steps) { iterations_ = round_begin_ + steps; }
  int64_t round_begin() const { return round_begin_; }

  int64_t iterations() const { return iterations_; }
  float LearningRate() const;  // the rate of the next step
  void SetLearningRate(float rate) { learning_rate_ = rate; }
  double Penalty() const;  // the regularizers' penalty for the present weights
  // The slots that are kept between two steps, num_trained() floats each. With
  // local updates: those kept between two rounds.
  std::vector<std::pair<std::string, float*>> Slots() const;

  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;

 private:
  void UpdatePart(const Variable& v, int64_t from, int64_t to,
                  const float* gradients);
  void UpdateWeights(const Variable& v, int64_t from, int64_t to,
                     const float* gradients);
  void Average(int64_t n, float* weights, float* average) const;
  void Clip();
  float* AverageOf(int64_t from) const;
  float* SumsOfGradients(int64_t from) const;

  const Graph& graph_;
  const CompileConfig& config_;
  const ModelMemory& memory_;
  const StepTimer& timer_;

  int64_t iterations_ = 0;  // steps, with or without an update
  // Iterations at the beginning of a round of local updates.
  int64_t round_begin_ = 0;
  float learning_rate_ = -1;        // negative if the schedule gives it
  int64_t saved_accumulation_ = 0;  // gradient_accumulation_steps, as saved

  // The step under way.
  StepScalars scalars_;
  bool updates_ = false;  // false if it only adds to the sums of gradients
  std::vector<GradientSpan> clip_spans_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_UPDATER_H_
