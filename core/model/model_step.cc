#include <algorithm>
#include <cinttypes>

#include "../base/byte_order.h"
#include "../base/flush_denormals.h"
#include "../layers/kernels.h"
#include "model_impl.h"

namespace ringlet {

void Model::Impl::Observe(const char* what, const char* phase,
                          int64_t begin) const {
  if (observer != nullptr) observer->Piece(what, phase, begin, Now());
}

OpCall Model::Impl::CallOf(int i) {
  Node& node = nodes[i];
  OpCall call;
  call.batch = count;
  call.x = node.x.data();
  call.y = node.y;
  call.weights = node.weights.data();
  call.scratch = node.forward_scratch;
  call.without_activation = without_activation && &node == &output_node();
  call.seed = options.seed + node.layer.seed * 0x9E3779B97F4A7C15u + i;
  call.counter = static_cast<uint64_t>(iterations) *
                     static_cast<uint64_t>(collective()->size()) +
                 static_cast<uint64_t>(collective()->rank());
  call.pool = pool.get();
  call.dy = node.dy;
  call.dx = node.dx.data();
  call.d_weights = node.d_weights.data();
  if (node.num_variables > 0) {
    call.weight_offset = variables[node.first_variable].offset;
  }
  call.sink = this;
  return call;
}

Status Model::Impl::Run(void (Op::*pass)(const OpCall&) const, int i,
                        OpCall call) {
  Status failed;
  call.status = &failed;
  (*nodes[i].op.*pass)(call);
  if (failed.ok()) return failed;
  return failed.Annotate("layer '%s' (%s)", nodes[i].layer.name.c_str(),
                         ClassName(nodes[i].layer));
}

Status Model::Impl::Forward(const float* x, int64_t examples, bool training,
                            bool for_loss) {
  RINGLET_RETURN_IF_ERROR(Usable());
  if (examples < 0) {
    return InvalidArgument("a batch of %" PRId64 " examples", examples);
  }
  RINGLET_RETURN_IF_ERROR(Reserve(std::max<int64_t>(examples, 1), training));
  DropGradients();
  const FlushDenormals flush;
  count = examples;
  forward_trains = training;
  without_activation = for_loss && loss_takes_logits;
  have_output = false;
  // The input and views of it are the caller's bytes; nothing writes to them.
  for (Node& node : nodes) {
    if (node.root == 0) node.y = const_cast<float*>(x);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      node.x[k] = nodes[node.inputs[k]].y;
    }
  }
  for (size_t i = 1; i < nodes.size() && count > 0; ++i) {
    const int64_t begin = Now();
    OpCall call = CallOf(static_cast<int>(i));
    call.training = training;
    ShowOnly(static_cast<int>(i));
    RINGLET_RETURN_IF_ERROR(Run(&Op::Forward, static_cast<int>(i), call));
    Observe(nodes[i].layer.name.c_str(), "forward", begin);
  }
  ShowOnly(static_cast<int>(nodes.size()));
  have_output = true;
  return Status();
}

Status Model::Forward(const float* x, int64_t count, bool training) {
  return impl_->Forward(x, count, training, training);
}

const float* Model::output() const {
  return impl_->nodes.empty() ? nullptr : impl_->nodes.back().y;
}

double Model::Impl::Penalty() const {
  double penalty = 0;
  for (const Variable& v : variables) {
    if (v.regularizer.l1 == 0 && v.regularizer.l2 == 0) continue;
    penalty +=
        RegularizationPenalty(v.regularizer, v.size(), kept.weights + v.offset);
  }
  return penalty;
}

// The sum of the examples' losses; with a gradient, also that of
// sum / global_count.
Status Model::Impl::ComputeLoss(const Batch& batch, bool with_gradient,
                                double* loss_sum) {
  if (batch.count != count || batch.global_count < 1) {
    return InvalidArgument("loss of %" PRId64 " examples of %" PRId64
                           " after a forward pass of %" PRId64,
                           batch.count, batch.global_count, count);
  }
  const int64_t begin = Now();
  Node& last = output_node();
  float* gradient = with_gradient && last.needs_gradient ? last.dy : nullptr;
  *loss_sum = 0;
  if (count > 0) {
    RINGLET_RETURN_IF_ERROR(ringlet::ComputeLoss(
        without_activation ? step_loss : output_loss, last.output, count,
        last.y, batch.y, 1.0f / static_cast<float>(batch.global_count),
        step.per_example, gradient));
    for (int64_t i = 0; i < count; ++i) *loss_sum += step.per_example[i];
    if (without_activation) {
      const int64_t width = last.output.back();
      BiasActivation(last.op->fused_activation(), nullptr,
                     count * last.output.elements() / width, width, last.y);
    }
  }
  have_gradient_of_loss = with_gradient;
  have_output = !with_gradient && !without_activation;
  Observe("loss", "forward", begin);
  return Status();
}

Status Model::ComputeLoss(const Batch& batch, double* loss) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Usable());
  if (!m.have_output) {
    return InvalidArgument("ComputeLoss needs a Forward before it");
  }
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, m.forward_trains, loss));
  *loss = *loss / static_cast<double>(batch.global_count) +
          m.Penalty() / m.collective()->size();
  return Status();
}

Status Model::Impl::BackwardNode(int i) {
  Node& node = nodes[i];
  if (node.op == nullptr || node.op->is_view() || !node.needs_gradient) {
    return Status();
  }
  const int64_t begin = Now();
  OpCall call = CallOf(i);
  call.training = true;
  call.scratch = node.backward_scratch;
  call.sink_takes = apply_when_ready;
  if (node.replaced_by >= 0) call.without_activation = true;
  const Node& input = nodes[nodes[node.inputs[0]].root];
  if (input.replaced_by == i) call.x_activation = input.op->fused_activation();
  ShowOnly(2 * static_cast<int>(nodes.size()) - i);
  RINGLET_RETURN_IF_ERROR(Run(&Op::Backward, i, call));
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.extra_dx[k] == nullptr) continue;
    const Node& to = nodes[node.inputs[k]];
    AddTo(node.extra_dx[k], count * to.output.elements(), to.dy);
  }
  Observe(node.layer.name.c_str(), "backward", begin);
  return Status();
}

Status Model::Impl::Backward(bool update) {
  if (!have_gradient_of_loss) {
    return InvalidArgument(
        "Backward needs Forward(training) and ComputeLoss before it");
  }
  RINGLET_CHECK(tickets.empty());  // Forward has dropped them
  const FlushDenormals flush;
  have_gradient_of_loss = false;
  apply_when_ready = update;
  ready = started = num_weights;
  if (count == 0) {
    std::fill_n(kept.gradients, num_weights, 0.0f);
    Ready(0);
  } else {
    for (int i = static_cast<int>(nodes.size()) - 1; i > 0; --i) {
      RINGLET_RETURN_IF_ERROR(BackwardNode(i));
    }
    ShowOnly(2 * static_cast<int>(nodes.size()) + 1);
  }
  RINGLET_CHECK(ready == 0 || num_weights == 0);
  have_gradients = true;
  // Of what was started before the error too.
  return collective_status.ok() ? Status() : FinishReduction();
}

Status Model::Backward() { return impl_->Backward(/*update=*/false); }

void Model::Impl::Ready(int64_t begin) {
  const int64_t end = ready;
  ready = begin;
  if (apply_when_ready) return Update(begin, end, kept.gradients + begin);
  if (collective()->size() > 1) StartBuckets();
}

void Model::Impl::Take(int64_t begin, const float* gradients) {
  Update(begin, ready, gradients);
  ready = begin;
}

// Buckets are cut at fixed places, so that all ranks start the same ones
// whatever their layers report.
void Model::Impl::StartBuckets() {
  const int64_t bucket =
      static_cast<int64_t>(collective()->bucket_bytes() / sizeof(float));
  while (collective_status.ok() && started > 0) {
    const int64_t begin = std::max<int64_t>(0, started - bucket);
    if (begin < ready) return;
    Collective::Ticket ticket = 0;
    collective_status = collective()->StartAllReduce(
        kept.gradients + begin, static_cast<size_t>(started - begin), &ticket);
    if (!collective_status.ok()) return;
    tickets.push_back(ticket);
    started = begin;
  }
}

// All of them, before any weight changes: a step happens for all or for none.
// Afterwards nobody but this thread touches the gradients.
Status Model::Impl::FinishReduction() {
  if (tickets.empty()) return collective_status;
  const int64_t begin = Now();
  for (Collective::Ticket ticket : tickets) {
    const Status s = collective()->Wait(ticket);
    if (collective_status.ok()) collective_status = s;
  }
  tickets.clear();
  Observe("all-reduce", "step", begin);
  return collective_status;
}

// The step under way ends without an update. An error of its reductions is not
// lost: the collective's next call has it again.
void Model::Impl::DropGradients() {
  (void)FinishReduction();
  collective_status = Status();
  have_gradient_of_loss = have_gradients = false;
}

// What this step's update works with.
void Model::Impl::PrepareUpdate() {
  const int64_t updates = optimizer.Updates(iterations);
  step_updates = optimizer.Updates(iterations + 1) > updates;
  scalars = PrepareStep(optimizer, LearningRate(), updates);
}

// Weights [from, to) of one variable, and gradients from `from` on.
void Model::Impl::UpdatePart(const Variable& v, int64_t from, int64_t to,
                             const float* gradients) {
  float* const sums = SumsOfGradients(from);
  // Clip has added the regularizers' part already, and taken the mean.
  const bool clipped = optimizer.clips() && step_updates;
  Regularizer regularizer = clipped ? Regularizer() : v.regularizer;
  if (sums != nullptr) {
    if (!clipped) {
      const int steps = optimizer.gradient_accumulation_steps;
      AccumulateGradients(regularizer, to - from, kept.weights + from,
                          gradients,
                          step_updates ? static_cast<float>(steps) : 1, sums);
    }
    if (!step_updates) return;
    gradients = sums;
    regularizer = Regularizer();
  }
  float* slots[8] = {};
  for (int s = 0; s < optimizer.num_slots(); ++s) {
    slots[s] = kept.slots[s] + from;
  }
  UpdateRange({optimizer, scalars, regularizer, to - from, kept.weights + from,
               gradients, slots});
  if (sums != nullptr) std::fill_n(sums, to - from, 0.0f);
}

// The optimizer over weights [begin, end), whose gradients are given, variable
// by variable.
void Model::Impl::Update(int64_t begin, int64_t end, const float* gradients) {
  if (begin >= end) return;
  const int64_t started_at = Now();
  pool->Run([&](int t) {
    const Range part = Split(end - begin, pool->threads(), t, 1024);
    for (const Variable& v : variables) {
      const int64_t from = std::max(begin + part.begin, v.offset);
      const int64_t to = std::min(begin + part.end, v.offset + v.size());
      if (from >= to) continue;
      UpdatePart(v, from, to, gradients + (from - begin));
    }
  });
  Observe("optimizer", "step", started_at);
}

void Model::Impl::Clip() {
  // Keras clips the gradient of the whole loss, penalties included.
  clip_spans.clear();
  for (const Variable& v : variables) {
    const float* const weights = kept.weights + v.offset;
    float* gradient = kept.gradients + v.offset;
    if (float* const sums = SumsOfGradients(v.offset); sums != nullptr) {
      const int steps = optimizer.gradient_accumulation_steps;
      AccumulateGradients(v.regularizer, v.size(), weights, gradient,
                          static_cast<float>(steps), sums);
      gradient = sums;
    } else {
      AddRegularizationGradient(v.regularizer, v.size(), weights, gradient);
    }
    clip_spans.push_back({gradient, v.size()});
  }
  ClipGradients(optimizer, clip_spans.data(), clip_spans.size());
}

Status Model::ApplyGradients() {
  Impl& m = *impl_;
  if (!m.have_gradients) {
    return InvalidArgument("ApplyGradients needs Backward before it");
  }
  const FlushDenormals flush;
  m.have_gradients = false;
  RINGLET_RETURN_IF_ERROR(m.FinishReduction());
  if (!m.apply_when_ready) {
    m.PrepareUpdate();
    if (m.optimizer.clips() && m.step_updates) m.Clip();
    m.Update(0, m.num_weights, m.kept.gradients);
  }
  ++m.iterations;
  return Status();
}

Status Model::Impl::UpdateMetrics(const Batch& batch, double loss_sum) {
  const double examples = static_cast<double>(count);
  step_states[0] = {loss_sum + Penalty() * examples, examples};
  for (size_t i = 0; i < metrics.size(); ++i) {
    step_states[i + 1] = MetricState();
    RINGLET_RETURN_IF_ERROR(UpdateMetric(metrics[i], output_node().output,
                                         count, output_node().y, batch.y,
                                         &step_states[i + 1]));
  }
  for (size_t i = 0; i < step_states.size(); ++i) {
    metric_states[i] += step_states[i];
  }
  return Status();
}

// The other ranks' metrics of the step come while the gradients are computed.
Status Model::Impl::StartStepMetrics() {
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  const size_t n = 2 * step_states.size();
  SwapToLittle(step_states.data(), sizeof(double), n);
  const Status status =
      collective()->StartAllGather(step_states.data(), n * sizeof(double),
                                   rank_states.data(), &metrics_ticket);
  SwapToLittle(step_states.data(), sizeof(double), n);
  return status;
}

Status Model::Impl::FinishStepMetrics() {
  RINGLET_RETURN_IF_ERROR(collective()->Wait(metrics_ticket));
  SwapToLittle(rank_states.data(), sizeof(double), 2 * rank_states.size());
  const size_t n = step_metrics.size();
  for (size_t i = 0; i < n; ++i) {
    step_metrics[i] = MetricState();
    for (size_t at = i; at < rank_states.size(); at += n) {
      step_metrics[i] += rank_states[at];
    }
  }
  return Status();
}

Status Model::TrainStep(const Batch& batch) {
  Impl& m = *impl_;
  double loss_sum = 0;
  m.collective()->SetStep(static_cast<uint64_t>(m.iterations) + 1);
  RINGLET_RETURN_IF_ERROR(m.Forward(batch.x, batch.count, true, true));
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, true, &loss_sum));
  RINGLET_RETURN_IF_ERROR(m.UpdateMetrics(batch, loss_sum));
  RINGLET_RETURN_IF_ERROR(m.StartStepMetrics());
  // Alone and without a look at the whole gradient, each range of weights is
  // updated while it is in cache; unless a layer may fail, for a step happens
  // whole or not at all.
  const bool at_once =
      m.collective()->size() == 1 && !m.optimizer.clips() && !m.may_fail;
  if (at_once) m.PrepareUpdate();
  RINGLET_RETURN_IF_ERROR(m.Backward(at_once));
  RINGLET_RETURN_IF_ERROR(m.FinishStepMetrics());
  return ApplyGradients();
}

Status Model::TestStep(const Batch& batch) {
  Impl& m = *impl_;
  double loss_sum = 0;
  RINGLET_RETURN_IF_ERROR(m.Forward(batch.x, batch.count, false, true));
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, false, &loss_sum));
  return m.UpdateMetrics(batch, loss_sum);
}

Status Model::OpenLoader(const Dataset& dataset,
                         const LoaderOptions& loader_options,
                         std::unique_ptr<BatchLoader>* loader) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Usable());
  RINGLET_RETURN_IF_ERROR(dataset.status());
  BatchLoader::Options options;
  options.dataset = dataset;
  options.start = loader_options.start;
  options.rank = m.collective()->rank();
  options.world = m.collective()->size();
  RINGLET_RETURN_IF_ERROR(m.CheckNotLent("OpenLoader"));
  RINGLET_RETURN_IF_ERROR(
      m.Reserve(dataset.LargestPart(options.world), loader_options.training));
  // The memory stays with the loader, should the model go first.
  options.lease = std::make_shared<std::shared_ptr<void>>(m.step_block);
  m.lease = options.lease;
  for (int slot = 0; slot < 2; ++slot) {
    options.x[slot] = m.step.x[slot];
    options.y[slot] = m.step.y[slot];
  }
  const Shape& output = m.output_node().output;
  options.x_shape = m.nodes[0].output;
  options.targets = m.loss.targets(output);
  options.classes = m.loss.takes_classes();
  options.num_classes = options.classes ? output.back() : 0;
  options.read_targets = loader_options.targets;
  options.read_examples = loader_options.examples;
  options.background = loader_options.background;
  return BatchLoader::Open(options, loader);
}

}  // namespace ringlet
