// Both headers are read and compared before the first element, so that a wrong
// pair costs no memory. Labels of text become numbers in the order of their
// names, or in the order of `classes`, the classes of the model. They are then
// always in memory.

#include "ringlet/readers.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>

#include "../../../core/base/byte_order.h"
#include "../../../core/base/number_text.h"
#include "../../../core/base/text.h"
#include "../../../core/data/value_at.h"
#include "../../files/atomic_file.h"
#include "../../files/file_kind.h"
#include "../files/class_names.h"
#include "../memory_sizes.h"
#include "array_source.h"
#include "npy_input.h"
#include "npy_layout.h"

namespace ringlet {
namespace {

// Opens an array of examples.
Status OpenExamples(const std::string& path, NpyInput* input) {
  RINGLET_RETURN_IF_ERROR(input->Open(path));
  const Shape& shape = input->layout().shape;
  if (shape.rank() < 1) {
    return InvalidArgument("%s: a single value, not an array of examples",
                           path.c_str());
  }
  if (ExampleShape(shape).elements() == 0) {
    return InvalidArgument("%s: an array of %s: its examples hold no values",
                           path.c_str(), shape.ToString().c_str());
  }
  return Status();
}

}  // namespace

Status ReadNpy(const std::string& path, NpyArray* array) {
  *array = NpyArray();
  NpyInput input;
  RINGLET_RETURN_IF_ERROR(input.Open(path));
  return input.ReadElements(array, nullptr);
}

Status NpyBytesInMemory(const std::string& path, const ArrayOptions& options,
                        uint64_t* bytes) {
  NpyInput input;
  RINGLET_RETURN_IF_ERROR(input.Open(path));
  const NpyLayout& layout = input.layout();
  *bytes = 0;
  if (!LabelsInMemory(options, layout, input.compressed())) {
    std::shared_ptr<ArrayOnDisk> array;
    return input.OpenOnDisk(&array);
  }
  *bytes = static_cast<uint64_t>(layout.shape.elements()) *
           SizeOf(layout.is_text() ? DType::kInt32 : layout.dtype());
  return Status();
}

Status NpyExampleBytesInMemory(const std::string& path,
                               const ArrayOptions& options, uint64_t* bytes) {
  NpyInput input;
  RINGLET_RETURN_IF_ERROR(input.Open(path));
  return input.layout().is_text() ? input.RefuseText()
                                  : NpyBytesInMemory(path, options, bytes);
}

Status WriteNpy(const std::string& path, DType dtype, const Shape& shape,
                const void* data) {
  const std::string header = NpyHeader(dtype, shape);
  const size_t count = static_cast<size_t>(shape.elements());
  const size_t bytes = count * SizeOf(dtype);
  std::vector<unsigned char> swapped;
  if (kBigEndian) {
    const auto* first = static_cast<const unsigned char*>(data);
    swapped.assign(first, first + bytes);
    SwapToLittle(swapped.data(), SizeOf(dtype), count);
    data = swapped.data();
  }
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(
      PosixFiles(), path, static_cast<int64_t>(header.size() + bytes)));
  RINGLET_RETURN_IF_ERROR(file.file()->Write(header.data(), header.size()));
  RINGLET_RETURN_IF_ERROR(file.file()->Write(data, bytes));
  return file.Commit();
}

Status ReadSampleWeights(const std::string& path, std::vector<float>* weights,
                         int64_t* per_example) {
  NpyArray array;
  RINGLET_RETURN_IF_ERROR(ReadNpy(path, &array));
  const Shape& shape = array.shape;
  if (shape.rank() < 1 || shape.elements() == 0) {
    return InvalidArgument(
        "%s: an array of %s; sample weights are one number an example, or one "
        "for each of its steps",
        path.c_str(), shape.ToString().c_str());
  }
  *per_example = shape.elements() / shape[0];
  weights->resize(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < weights->size(); ++i) {
    (*weights)[i] = static_cast<float>(
        ValueAt(array.dtype, array.data.data(), static_cast<int64_t>(i)));
  }
  return Status();
}

namespace {

// Replaces class numbers in the order of `names` by the class numbers of
// `classes`.
Status Renumber(const std::string& path, const std::vector<std::string>& names,
                const std::vector<std::string>& classes, NpyArray* labels) {
  std::map<std::string_view, int32_t> known;
  for (const std::string& name : classes) {
    known.emplace(name, static_cast<int32_t>(known.size()));
  }
  std::vector<int32_t> numbers;
  std::vector<bool> is_there(classes.size());
  for (const std::string& name : names) {
    const auto found = known.find(name);
    if (found == known.end()) return UnknownClass(path, name, classes);
    numbers.push_back(found->second);
    is_there[static_cast<size_t>(found->second)] = true;
  }
  PrintMissingClasses(path, classes, is_there);
  for (size_t at = 0; at < labels->data.size(); at += sizeof(int32_t)) {
    int32_t number;
    std::memcpy(&number, labels->data.data() + at, sizeof(number));
    number = numbers[static_cast<size_t>(number)];
    std::memcpy(labels->data.data() + at, &number, sizeof(number));
  }
  return Status();
}

// Replaces labels that are numbers by the indices of their names, if all names
// are numbers.
Status NumberByName(const std::string& path,
                    const std::vector<std::string>& classes, NpyArray* labels,
                    bool* replaced) {
  std::map<int64_t, int32_t> known;
  for (const std::string& name : classes) {
    const int64_t number = ParseWholeNumber(name, INT32_MAX);
    if (number < 0) return Status();
    known.emplace(number, static_cast<int32_t>(known.size()));
  }
  const size_t count = static_cast<size_t>(labels->shape.elements());
  std::vector<unsigned char> numbers(count * sizeof(int32_t));
  for (size_t i = 0; i < count; ++i) {
    const double value =
        ValueAt(labels->dtype, labels->data.data(), static_cast<int64_t>(i));
    const auto found = value >= 0 && value <= INT32_MAX
                           ? known.find(static_cast<int64_t>(value))
                           : known.end();
    if (found == known.end() || static_cast<double>(found->first) != value) {
      return UnknownClass(path, ShortestText(value), classes);
    }
    std::memcpy(numbers.data() + i * sizeof(int32_t), &found->second,
                sizeof(int32_t));
  }
  labels->dtype = DType::kInt32;
  labels->data = std::move(numbers);
  *replaced = true;
  return Status();
}

ExampleArray InMemory(const std::string& path, NpyArray array) {
  return {path,
          {array.dtype, ExampleShape(array.shape)},
          std::move(array.data),
          nullptr};
}

// Examples, or targets of several values.
Status ReadExamples(bool in_memory, const std::string& path, NpyInput* input,
                    ExampleArray* examples) {
  NpyArray array;
  if (in_memory) {
    RINGLET_RETURN_IF_ERROR(input->ReadElements(&array, nullptr));
    *examples = InMemory(path, std::move(array));
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(input->OpenOnDisk(&examples->on_disk));
  examples->name = path;
  examples->spec = {input->layout().dtype(),
                    ExampleShape(input->layout().shape)};
  return Status();
}

// Makes labels of the numbers of `classes`, or of the numbers of their names.
Status ReadLabels(const std::string& path,
                  const std::vector<std::string>& classes, NpyInput* input,
                  ExampleArray* labels, std::vector<std::string>* names) {
  NpyArray array;
  RINGLET_RETURN_IF_ERROR(input->ReadElements(&array, names));
  if (!classes.empty()) {
    bool named = !names->empty();
    RINGLET_RETURN_IF_ERROR(named
                                ? Renumber(path, *names, classes, &array)
                                : NumberByName(path, classes, &array, &named));
    if (named) *names = classes;
  } else if (!names->empty()) {
    PrintClassNames(path, *names);
  }
  *labels = InMemory(path, std::move(array));
  return Status();
}

// If files do not match, only the headers are read.
Status OpenPair(const std::string& x, const std::string& y,
                const std::vector<std::string>& classes,
                const ArrayOptions& options, std::shared_ptr<Source>* source) {
  NpyInput inputs[2];
  RINGLET_RETURN_IF_ERROR(OpenExamples(x, &inputs[0]));
  RINGLET_RETURN_IF_ERROR(OpenExamples(y, &inputs[1]));
  const int64_t count = inputs[0].layout().shape[0];
  RINGLET_RETURN_IF_ERROR(CheckPair(x, count, y, inputs[1].layout().shape[0]));
  ExampleArray examples, labels;
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(
      ReadExamples(options.in_memory, x, &inputs[0], &examples));
  RINGLET_RETURN_IF_ERROR(
      LabelsInMemory(options, inputs[1].layout(), inputs[1].compressed()) ||
              !classes.empty()
          ? ReadLabels(y, classes, &inputs[1], &labels, &names)
          : ReadExamples(/*in_memory=*/false, y, &inputs[1], &labels));
  *source = std::make_shared<ArraySource>(count, std::move(examples),
                                          std::move(labels), std::move(names));
  return Status();
}

}  // namespace

Dataset NpyDataset(const std::string& x, const std::string& y,
                   const std::vector<std::string>& classes,
                   const ArrayOptions& options) {
  std::shared_ptr<Source> source;
  const Status status = OpenPair(x, y, classes, options, &source);
  return status.ok() ? Dataset(std::move(source)) : Dataset(status);
}

Dataset NpyDataset(const std::string& x, const ArrayOptions& options) {
  NpyInput input;
  ExampleArray array;
  Status status = input.Open(x);
  const Shape& shape = input.layout().shape;
  if (status.ok()) status = CheckHasExamples(x, shape);
  if (status.ok()) status = ReadExamples(options.in_memory, x, &input, &array);
  return status.ok() ? WithoutLabels(shape[0], std::move(array))
                     : Dataset(status);
}

}  // namespace ringlet
