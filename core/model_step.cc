#include <algorithm>
#include <cinttypes>

#include "flush_denormals.h"
#include "kernels.h"
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

Status Model::Impl::Forward(const float* x, int64_t examples, bool training,
                            bool for_loss) {
  RINGLET_RETURN_IF_ERROR(Usable());
  if (examples < 0) {
    return InvalidArgument("a batch of %" PRId64 " examples", examples);
  }
  RINGLET_RETURN_IF_ERROR(Reserve(std::max<int64_t>(examples, 1), training));
  const FlushDenormals flush;
  count = examples;
  forward_trains = training;
  without_activation = for_loss && loss_takes_logits;
  have_gradient_of_loss = have_gradients = false;
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
    nodes[i].op->Forward(call);
    Observe(nodes[i].layer.name.c_str(), "forward", begin);
  }
  return Status();
}

Status Model::Forward(const float* x, int64_t count, bool training) {
  return impl_->Forward(x, count, training, training);
}

const float* Model::output() const { return impl_->nodes.back().y; }

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
    ringlet::ComputeLoss(without_activation ? step_loss : output_loss,
                         last.output, count, last.y, batch.y,
                         1.0f / static_cast<float>(batch.global_count),
                         step.per_example, gradient);
    for (int64_t i = 0; i < count; ++i) *loss_sum += step.per_example[i];
    if (without_activation) {
      const int64_t width = last.output.back();
      BiasActivation(last.op->fused_activation(), nullptr,
                     count * last.output.elements() / width, width, last.y);
    }
  }
  have_gradient_of_loss = with_gradient;
  Observe("loss", "forward", begin);
  return Status();
}

Status Model::ComputeLoss(const Batch& batch, double* loss) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Usable());
  if (m.have_gradient_of_loss) {
    return InvalidArgument("ComputeLoss needs a Forward before it");
  }
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, m.forward_trains, loss));
  *loss = *loss / static_cast<double>(batch.global_count) +
          m.Penalty() / m.collective()->size();
  return Status();
}

void Model::Impl::BackwardNode(int i) {
  Node& node = nodes[i];
  if (node.op == nullptr || node.op->is_view() || !node.needs_gradient) return;
  const int64_t begin = Now();
  OpCall call = CallOf(i);
  call.training = true;
  call.scratch = node.backward_scratch;
  call.sink_takes = apply_when_ready;
  if (node.replaced_by >= 0) call.without_activation = true;
  const Node& input = nodes[nodes[node.inputs[0]].root];
  if (input.replaced_by == i) call.x_activation = input.op->fused_activation();
  node.op->Backward(call);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.extra_dx[k] == nullptr) continue;
    const Node& to = nodes[node.inputs[k]];
    AddTo(node.extra_dx[k], count * to.output.elements(), to.dy);
  }
  Observe(node.layer.name.c_str(), "backward", begin);
}

Status Model::Impl::Backward(bool update) {
  if (!have_gradient_of_loss) {
    return InvalidArgument(
        "Backward needs Forward(training) and ComputeLoss before it");
  }
  const FlushDenormals flush;
  have_gradient_of_loss = false;
  apply_when_ready = update;
  ready = started = num_weights;
  tickets.clear();
  collective_status = Status();
  if (count == 0) {
    std::fill_n(kept.gradients, num_weights, 0.0f);
    Ready(0);
  } else {
    for (int i = static_cast<int>(nodes.size()) - 1; i > 0; --i) {
      BackwardNode(i);
    }
  }
  RINGLET_CHECK(ready == 0 || num_weights == 0);
  have_gradients = true;
  return collective_status;
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
Status Model::Impl::FinishReduction() {
  if (tickets.empty()) return collective_status;
  const int64_t begin = Now();
  Status first = collective_status;
  for (Collective::Ticket ticket : tickets) {
    const Status s = collective()->Wait(ticket);
    if (first.ok()) first = s;
  }
  tickets.clear();
  Observe("all-reduce", "step", begin);
  return first;
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
      float* slots[8] = {};
      for (int s = 0; s < optimizer.num_slots(); ++s) {
        slots[s] = kept.slots[s] + from;
      }
      // Clip has added the regularizers' part already.
      UpdateRange(optimizer, scalars,
                  optimizer.clips() ? Regularizer() : v.regularizer, to - from,
                  kept.weights + from, gradients + (from - begin), slots);
    }
  });
  Observe("optimizer", "step", started_at);
}

void Model::Impl::Clip() {
  // Keras clips the gradient of the whole loss, penalties included.
  clip_spans.clear();
  for (const Variable& v : variables) {
    float* gradient = kept.gradients + v.offset;
    AddRegularizationGradient(v.regularizer, v.size(), kept.weights + v.offset,
                              gradient);
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
    m.scalars = PrepareStep(m.optimizer, LearningRate(), m.iterations);
    if (m.optimizer.clips()) m.Clip();
    m.Update(0, m.num_weights, m.kept.gradients);
  }
  ++m.iterations;
  return Status();
}

void Model::Impl::UpdateMetrics(const Batch& batch, double loss_sum) {
  const double examples = static_cast<double>(count);
  metric_states[0].total += loss_sum + Penalty() * examples;
  metric_states[0].count += examples;
  for (size_t i = 0; i < metrics.size(); ++i) {
    UpdateMetric(metrics[i], output_node().output, count, output_node().y,
                 batch.y, &metric_states[i + 1]);
  }
}

Status Model::TrainStep(const Batch& batch) {
  Impl& m = *impl_;
  double loss_sum = 0;
  m.collective()->SetStep(static_cast<uint64_t>(m.iterations) + 1);
  RINGLET_RETURN_IF_ERROR(m.Forward(batch.x, batch.count, true, true));
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, true, &loss_sum));
  m.UpdateMetrics(batch, loss_sum);
  // Alone and without a look at the whole gradient, each range of weights is
  // updated while it is in cache.
  const bool at_once = m.collective()->size() == 1 && !m.optimizer.clips();
  if (at_once) {
    m.scalars = PrepareStep(m.optimizer, LearningRate(), m.iterations);
  }
  RINGLET_RETURN_IF_ERROR(m.Backward(at_once));
  return ApplyGradients();
}

Status Model::TestStep(const Batch& batch) {
  Impl& m = *impl_;
  double loss_sum = 0;
  RINGLET_RETURN_IF_ERROR(m.Forward(batch.x, batch.count, false, true));
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, false, &loss_sum));
  m.UpdateMetrics(batch, loss_sum);
  return Status();
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
  RINGLET_RETURN_IF_ERROR(
      m.Reserve(dataset.LargestPart(options.world), loader_options.training));
  if (!m.lease.expired()) {
    return InvalidArgument("model '%s': close the other loader first",
                           m.name.c_str());
  }
  options.lease = std::make_shared<int>(0);
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
