// ReadingOf decides by the loss what the outputs mean, Predict adds each
// prediction to the figures, and EvaluationPage writes them. CheckReports
// refuses the models that ReadingOf cannot describe.

#include "evaluate_report.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/data/dataset_parts.h"
#include "core/model/model_parts.h"
#include "evaluation_page.h"
#include "io/files/atomic_file.h"
#include "io/keras/compile_arguments.h"
#include "picture_uri.h"

namespace ringlet {
namespace {

// How the outputs become the probabilities of classes.
struct Reading {
  bool is_classifier = false;
  bool is_binary = false;        // one output, of class 1 of two
  Activation missing = kLinear;  // the outputs still lack it
  int64_t rows = 1, width = 1;   // the rows and width of an example's outputs
  bool takes_classes = false;    // targets are class numbers
  int64_t classes() const { return is_binary ? 2 : width; }
};

Reading ReadingOf(const Model& model) {
  const Loss& loss = model.loss();
  const Shape output = model.output_shape(model.output_node(0));
  Reading reading;
  reading.is_classifier = loss.takes_probabilities() || loss.from_logits;
  reading.width = output.rank() == 0 ? 1 : output.back();
  reading.rows = output.elements() / reading.width;
  reading.takes_classes = loss.takes_classes();
  const bool sigmoid = loss.logits_activation() == kSigmoid;
  reading.is_binary = sigmoid && reading.width == 1;
  if (loss.from_logits) reading.missing = sigmoid ? kSigmoid : kSoftmax;
  return reading;
}

// A distribution over the classes; crossentropies divide by the sum too.
void ToProbabilities(const Reading& reading, const float* output,
                     std::vector<double>* p) {
  p->assign(output, output + reading.width);
  if (reading.is_binary) {
    double one = (*p)[0];
    if (reading.missing == kSigmoid) one = 1 / (1 + std::exp(-one));
    *p = {1 - one, one};
    return;
  }
  double sum = 0;
  const double largest = *std::max_element(p->begin(), p->end());
  for (double& each : *p) {
    if (reading.missing == kSoftmax) each = std::exp(each - largest);
    sum += each;
  }
  for (double& each : *p) each /= sum;
}

// The class of a row's targets; -1 if there is none, such as an ignored class.
int64_t LabelOf(const Reading& reading, const void* y, int64_t row) {
  if (reading.takes_classes) {
    const int64_t label = static_cast<const int32_t*>(y)[row];
    return label < reading.width ? label : -1;
  }
  const float* const targets =
      static_cast<const float*>(y) + row * reading.width;
  if (reading.is_binary) return targets[0] >= 0.5F ? 1 : 0;
  return std::max_element(targets, targets + reading.width) - targets;
}

// Adds the predictions of a batch, without masked steps. `first` is the place
// of its first example.
void Take(const Model& model, const Reading& reading, const Dataset& data,
          const Batch& batch, const StepMask& mask, int64_t first,
          EvaluationReport* report) {
  std::vector<double> p;
  const std::optional<int> ignored = model.loss().ignore_class;
  const int64_t rows_of_step = reading.rows / mask.steps;
  for (int64_t i = 0; i < batch.count * reading.rows; ++i) {
    if (mask.values != nullptr && mask.values[i / rows_of_step] == 0) continue;
    const int64_t row = i % reading.rows;
    const int64_t index =
        data.parts().first + (first + i / reading.rows) * data.parts().stride;
    const float* const output = model.output() + i * reading.width;
    if (reading.is_classifier) {
      const int64_t label = LabelOf(reading, batch.y, i);
      if (label < 0 || (ignored && label == *ignored)) continue;
      ToProbabilities(reading, output, &p);
      report->classifier->Add(index, row, label, p.data());
      continue;
    }
    const float* const targets =
        static_cast<const float*>(batch.y) + i * reading.width;
    for (int64_t k = 0; k < reading.width; ++k) {
      report->regression->Add(index, row * reading.width + k, targets[k],
                              output[k]);
    }
  }
}

Status Predict(Model* model, const Dataset& data, const Reading& reading,
               EvaluationReport* report) {
  RINGLET_RETURN_IF_ERROR(ModelParts(model).graph().CheckAdapted());
  LoaderOptions options;
  options.training = false;
  std::unique_ptr<BatchLoader> loader;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(data, options, &loader));
  Batch batch;
  while (!batch.last) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    RINGLET_RETURN_IF_ERROR(
        model->Forward(batch.x, batch.count, /*training=*/false));
    Take(*model, reading, data, batch,
         ModelParts(model).stepper().OutputMask(0), report->examples, report);
    report->examples += batch.count;
  }
  return Status();
}

// Bytes of gray or colours, in rows and columns.
bool IsPicture(const ExampleSpec& x) {
  const int rank = x.shape.rank();
  if (x.dtype != DType::kUint8 || (rank != 2 && rank != 3)) return false;
  const int64_t channels = rank == 3 ? x.shape[2] : 1;
  return channels >= 1 && channels <= 4 && x.shape[0] > 1 && x.shape[1] > 1;
}

Status Show(const Dataset& data, EvaluationReport* report) {
  Source* const source = data.source().get();
  const ExampleSpec x = source->x();
  for (const ClassifierFigures::Example& example :
       report->classifier->worst()) {
    EvaluationReport::Shown shown;
    shown.path = source->ExamplePath(example.index);
    if (IsPicture(x) && source->Inputs().size() == 1) {
      Picture picture;
      picture.height = x.shape[0];
      picture.width = x.shape[1];
      picture.channels = x.shape.rank() == 3 ? static_cast<int>(x.shape[2]) : 1;
      picture.pixels.resize(x.bytes());
      RINGLET_RETURN_IF_ERROR(
          source->Read(&example.index, 1, picture.pixels.data(), nullptr));
      shown.picture = PictureUri(picture);
    }
    report->shown.push_back(shown);
  }
  return Status();
}

}  // namespace

Status CheckReports(const Model& model) {
  if (model.num_outputs() != 1) {
    return InvalidArgument("--report: is for a model of one output, not of %d",
                           model.num_outputs());
  }
  const Reading reading = ReadingOf(model);
  const Shape output = model.output_shape(model.output_node(0));
  if (!reading.is_classifier &&
      (reading.takes_classes ||
       model.loss().targets(output) != output.elements())) {
    return InvalidArgument(
        "--report: is for a loss with a target for each output, or one that "
        "takes probabilities of classes, and not for %s",
        model.loss().class_name());
  }
  if (reading.is_classifier && model.loss().logits_activation() == kSigmoid &&
      !reading.is_binary) {
    return InvalidArgument(
        "--report: is for classes that exclude each other, and %s has %lld "
        "outputs that do not",
        model.loss().class_name(), static_cast<long long>(reading.width));
  }
  return Status();
}

Status WriteEvaluationReport(Model* model, const std::string& model_path,
                             const Dataset& data, const Logs& logs,
                             const std::string& out) {
  const Reading reading = ReadingOf(*model);
  EvaluationReport report;
  report.model = model_path;
  report.data = data.source()->name();
  report.logs = logs.entries();
  report.has_rows =
      reading.rows > 1 || (!reading.is_classifier && reading.width > 1);
  report.is_weighted = data.parts().weights != nullptr;
  report.summary = model->Summary();
  if (reading.is_classifier) {
    report.classifier.emplace(reading.classes());
  } else {
    report.regression.emplace();
  }
  const DataDescription* const known = model->data_description();
  report.names = known != nullptr && !known->classes.empty()
                     ? known->classes
                     : data.source()->Description().classes;
  RINGLET_RETURN_IF_ERROR(Predict(model, data, reading, &report));
  if (report.classifier) RINGLET_RETURN_IF_ERROR(Show(data, &report));
  return WriteWholeFile(PosixFiles(), out, EvaluationPage(report));
}

}  // namespace ringlet
