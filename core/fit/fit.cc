// Model::Fit, and Model::Adapt: mean and variance of the data for layers that
// need them. Sums are float64, in the order of the examples, so every rank that
// reads the same data has the same bits. The variance is computed in a second
// pass, as the mean of squared distances, which loses no digits.

#include "ringlet/fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "../base/guarded.h"
#include "../base/ieee_arithmetic.h"
#include "../data/dataset_parts.h"
#include "../data/input_shapes.h"
#include "../data/value_at.h"
#include "../layers/layer_kind.h"
#include "../model/model_parts.h"
#include "fitter.h"
#include "ringlet/status.h"

namespace ringlet {

std::vector<double> History::Values(const std::string& name) const {
  std::vector<double> values;
  for (const Logs& log : logs) {
    const double* value = log.Find(name);
    values.push_back(
        value != nullptr ? *value : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

Result<History> Model::Fit(const Dataset& dataset, const FitOptions& options) {
  History history;
  RINGLET_RETURN_IF_ERROR(Fitter(this, dataset, options).Run(&history));
  return history;
}

Result<History> Model::Fit(const Dataset& dataset) {
  return Fit(dataset, FitOptions());
}

namespace {

// The values of one of the model's inputs, in all examples of a dataset.
class InputValues {
 public:
  // An example has `count` values of the input, from its value `first` on.
  InputValues(const Dataset& dataset, int64_t first, int64_t count)
      : dataset_(dataset), first_(first), count_(count) {}

  // Calls visit(value, index in the input).
  template <typename Visit>
  Status ForEach(const Visit& visit) {
    constexpr int64_t kChunk = 64;  // examples
    const ExampleSpec spec = dataset_.source()->x();
    const int64_t row = spec.shape.elements();
    raw_.resize(spec.bytes() * static_cast<size_t>(kChunk));
    int64_t indices[kChunk];
    for (int64_t k = 0; k < dataset_.size(); k += kChunk) {
      const int64_t n = std::min(kChunk, dataset_.size() - k);
      for (int64_t i = 0; i < n; ++i) {
        indices[i] = dataset_.parts().first + (k + i) * dataset_.parts().stride;
      }
      RINGLET_RETURN_IF_ERROR(CallRead(dataset_.source().get(), indices,
                                       static_cast<int>(n), raw_.data(),
                                       /*y=*/nullptr));
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < count_; ++j) {
          const double value =
              ValueAt(spec.dtype, raw_.data(), i * row + first_ + j);
          visit(Scaled(value), j);
        }
      }
    }
    return Status();
  }

 private:
  // Scales in float32, as the loader does.
  double Scaled(double value) const {
    const Scale scale = dataset_.scale();
    return double{static_cast<float>(value) * scale.factor + scale.offset};
  }

  const Dataset& dataset_;
  const int64_t first_, count_;
  std::vector<unsigned char> raw_;
};

// Returns the number of values in an example before the values of input `node`.
int64_t ValuesBefore(const Graph& graph, int node) {
  int64_t count = 0;
  for (int i = 0; i < node; ++i) count += graph.node(i).output.elements();
  return count;
}

struct Statistics {
  std::vector<float> mean, variance;
};

Status CheckMayAdapt(const Graph& graph, int node, const Dataset& dataset) {
  const GraphNode& layer = graph.node(node);
  const GraphLayer& called =
      graph.layers()[static_cast<size_t>(layer.layer_index)];
  const char* const name = layer.layer.name.c_str();
  if (layer.inputs[0] >= graph.num_inputs() || called.parent >= 0) {
    return InvalidArgument(
        "layer '%s' (Normalization): adapts to the data, so its input must be "
        "an input of the model",
        name);
  }
  if (called.calls > 1) {
    return InvalidArgument(
        "layer '%s' (Normalization): adapts to the data, so it can be called "
        "only once; give each input a layer of its own",
        name);
  }
  if (dataset.parts().own_example_counts.empty()) return Status();
  return InvalidArgument(
      "layer '%s' (Normalization): adapts to the data, but each worker has its "
      "own examples; give mean and variance",
      name);
}

Status ComputeStatistics(const Graph& graph, int node, const Dataset& dataset,
                         Statistics* statistics) {
  RINGLET_RETURN_IF_ERROR(CheckMayAdapt(graph, node, dataset));
  const GraphNode& layer = graph.node(node);
  const int input = layer.inputs[0];
  const Shape& shape = graph.node(input).output;
  const int64_t values = shape.elements();
  const int64_t channels = shape.rank() < 1 ? 1 : shape.back();
  const int64_t rows = values / channels;  // rows of an example
  const double count =
      static_cast<double>(dataset.size()) * static_cast<double>(rows);
  InputValues data(dataset, ValuesBefore(graph, input), values);
  std::vector<double> mean(static_cast<size_t>(channels)), sum = mean;
  RINGLET_RETURN_IF_ERROR(data.ForEach([&](double value, int64_t j) {
    mean[static_cast<size_t>(j % channels)] += value;
  }));
  for (double& value : mean) value /= count;
  RINGLET_RETURN_IF_ERROR(data.ForEach([&](double value, int64_t j) {
    const size_t c = static_cast<size_t>(j % channels);
    sum[c] += (value - mean[c]) * (value - mean[c]);
  }));
  for (size_t c = 0; c < mean.size(); ++c) {
    statistics->mean.push_back(static_cast<float>(mean[c]));
    statistics->variance.push_back(static_cast<float>(sum[c] / count));
    if (std::isfinite(statistics->mean.back()) &&
        std::isfinite(statistics->variance.back())) {
      continue;
    }
    return Corruption(
        "%s: layer '%s' (Normalization): channel %zu has no finite mean and "
        "variance; a value is NaN or too large",
        dataset.source()->name().c_str(), layer.layer.name.c_str(), c);
  }
  return Status();
}

std::vector<Shape> InputShapes(const Graph& graph) {
  std::vector<Shape> shapes;
  shapes.reserve(static_cast<size_t>(graph.num_inputs()));
  for (int i = 0; i < graph.num_inputs(); ++i) {
    shapes.push_back(graph.node(i).output);
  }
  return shapes;
}

}  // namespace

Status Model::Adapt(const Dataset& dataset) {
  RINGLET_RETURN_IF_ERROR(status());
  RINGLET_RETURN_IF_ERROR(dataset.batch_size() > 0 ? dataset.status()
                                                   : dataset.Batch(1).status());
  Graph* const graph = ModelParts(this).mutable_graph();
  if (graph->FindUnadapted() < 0) return Status();
  RINGLET_RETURN_IF_ERROR(
      CheckInputShapes(*dataset.source(), InputShapes(*graph)));
  const IeeeArithmetic ieee;
  // After an error no layer has changed.
  std::map<int, Statistics> computed;
  for (int node = graph->FindUnadapted(); node >= 0;
       node = graph->FindUnadapted(node + 1)) {
    RINGLET_RETURN_IF_ERROR(
        ComputeStatistics(*graph, node, dataset, &computed[node]));
  }
  for (const auto& [node, statistics] : computed) {
    RINGLET_RETURN_IF_ERROR(
        graph->SetNormalization(node, statistics.mean, statistics.variance));
  }
  return Status();
}

}  // namespace ringlet
