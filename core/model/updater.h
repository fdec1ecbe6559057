// Updater: the optimizer at work on the model's weights.
//
// Internal to core/. Counts the steps, and keeps the learning rate that
// SetLearningRate gave. As a Saveable it is the optimizer's slots, iterations
// and learning rate, "optimizer/…".

#ifndef RINGLET_CORE_MODEL_UPDATER_H_
#define RINGLET_CORE_MODEL_UPDATER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../base/saveable.h"
#include "compile_config.h"
#include "gradients.h"
#include "graph.h"
#include "model_memory.h"
#include "optimizer_table.h"
#include "step_timer.h"

namespace ringlet {

class Updater final : public Saveable {
 public:
  // All outlive it.
  Updater(const Graph* graph, const CompileConfig* config,
          const ModelMemory* memory, const StepTimer* timer)
      : graph_(*graph), config_(*config), memory_(*memory), timer_(*timer) {}

  // No step was made, and the rate is the schedule's.
  void Reset();

  // A step: Begin, then Update of every range of the weights in any order, once
  // each, then End. Where the optimizer clips, UpdateAll instead of Update.
  void Begin();
  // Of the trained weights, as the gradient span has them, [begin, end), whose
  // gradients are given.
  void Update(int64_t begin, int64_t end, const float* gradients);
  // Clips the memory's gradients, and updates all weights.
  void UpdateAll();
  // Adds to each state the mean over `replicas` of what they changed it by.
  void ChangeState(int replicas);
  void End() { ++iterations_; }
  // Where the optimizer averages the weights: the averages become the weights.
  // A second call changes nothing.
  void Finalize();

  // Of local updates: from here on the optimizer is as new, but for its
  // learning rate; RoundAgain goes back to here.
  void BeginRound() { round_begin_ = iterations_; }
  void RoundAgain() { iterations_ = round_begin_; }
  void EndRound(int64_t steps) { iterations_ = round_begin_ + steps; }
  int64_t round_begin() const { return round_begin_; }

  int64_t iterations() const { return iterations_; }
  float LearningRate() const;  // of the next step
  void SetLearningRate(float rate) { learning_rate_ = rate; }
  double Penalty() const;  // of the regularizers, for the weights as they are
  // What of the optimizer is kept between two steps, num_trained() floats each:
  // with local updates between two rounds.
  std::vector<std::pair<std::string, float*>> Slots() const;

  // Gives all ranks the iterations and the learning rate of `root`.
  Status BroadcastProgress(Collective* collective, int root);

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

  int64_t iterations_ = 0;          // steps, whether each updates or not
  int64_t round_begin_ = 0;         // of local updates; else 0
  float learning_rate_ = -1;        // < 0: the schedule's
  int64_t saved_accumulation_ = 0;  // gradient_accumulation_steps, as saved

  // The step under way.
  StepScalars scalars_;
  bool updates_ = false;  // or only adds to the sums of gradients
  std::vector<GradientSpan> clip_spans_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_UPDATER_H_
