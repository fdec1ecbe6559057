#include "prediction_text.h"

#include <algorithm>
#include <cmath>

#include "core/base/number_text.h"
#include "core/layers/layer_kind.h"
#include "io/readers/tables/csv_records.h"

namespace ringlet {
namespace {

void ApplySoftmax(std::vector<double>* p) {
  const double largest = *std::max_element(p->begin(), p->end());
  double sum = 0;
  for (double& probability : *p)
    sum += probability = std::exp(probability - largest);
  for (double& probability : *p) probability /= sum;
}

}  // namespace

std::vector<Output> SplitOutputs(const Model& model,
                                 const std::vector<float>& values) {
  std::vector<Output> outputs(static_cast<size_t>(model.num_outputs()));
  int64_t width = 0;
  const auto shape_of = [&](size_t k) {
    return model.output_shape(model.output_node(static_cast<int>(k)));
  };
  for (size_t k = 0; k < outputs.size(); ++k) width += shape_of(k).elements();
  const float* value = values.data();
  for (size_t k = 0; k < outputs.size(); ++k) {
    Output& output = outputs[k];
    const Shape one = shape_of(k);
    output.name = model.output_name(static_cast<int>(k));
    output.shape.Append(static_cast<int64_t>(values.size()) / width);
    for (int i = 0; i < one.rank(); ++i) output.shape.Append(one[i]);
    output.values = value;
    value += output.shape.elements();
  }
  return outputs;
}

PredictionText::PredictionText(const Model& model) {
  const DataDescription* const data = model.data_description();
  if (data == nullptr || model.num_outputs() != 1) return;
  const Activation activation = model.loss().logits_activation();
  if (activation != kSoftmax && activation != kSigmoid) return;
  const Layer& layer = model.layer(model.output_node(0));
  const Activation last =
      layer.kind == Layer::Kind::kSoftmax ? kSoftmax : layer.activation;
  if (last != activation && !model.loss().from_logits) return;
  to_probabilities_ = last == activation ? kLinear : activation;
  width_ = model.output_shape().elements();
  const auto classes = static_cast<int64_t>(data->classes.size());
  const bool fits = activation == kSigmoid ? width_ == 1 && classes == 2
                                           : width_ > 1 && classes <= width_;
  // An example of several positions has a class for each.
  if (!fits || classes == 0 || model.output_shape().rank() != 1) return;
  names_ = data->classes;
  // Units without a class in the training data.
  for (int64_t i = classes; i < width_; ++i) {
    names_.push_back("unit " + std::to_string(i));
  }
}
std::string PredictionText::HeaderLine() const {
  if (names_.empty()) return "";
  std::string head = "class,probability";
  for (size_t i = width_ == 1 ? 1 : 0; i < names_.size(); ++i) {
    head += "," + CsvField(names_[i], ',');
  }
  return head;
}

std::string PredictionText::Name(const float* values) const {
  std::vector<double> p(values, values + width_);
  if (to_probabilities_ == kSigmoid) p[0] = 1 / (1 + std::exp(-p[0]));
  if (to_probabilities_ == kSoftmax) ApplySoftmax(&p);
  if (width_ == 1) p = {1 - p[0], p[0]};
  const auto best = std::max_element(p.begin(), p.end());
  const auto number = static_cast<size_t>(best - p.begin());
  const auto probability = static_cast<float>(*best);
  return CsvField(names_[number], ',') + "," +
         (std::isnan(probability) ? "nan" : ShortestText(probability));
}

std::string PredictionText::RowLine(const std::vector<Output>& outputs,
                                    int64_t example) const {
  std::string row;
  for (const Output& output : outputs) {
    const int64_t width = output.shape.elements() / output.shape[0];
    const float* const values = output.values + example * width;
    if (!names_.empty()) row = Name(values);
    for (int64_t i = 0; i < width; ++i) {
      if (!row.empty()) row += ',';
      // Machines differ in the sign of a NaN.
      row += std::isnan(values[i]) ? "nan" : ShortestText(values[i]);
    }
  }
  return row;
}

}  // namespace ringlet
