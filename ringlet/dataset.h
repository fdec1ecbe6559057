// Source, Dataset and BatchLoader: from the examples of a file to the batches
// of a step.

#ifndef RINGLET_DATASET_H_
#define RINGLET_DATASET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "losses.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

// --- sources -----------------------------------------------------------------

// Element type and shape of one example's x or y (without batch dimension).
struct ExampleSpec {
  DType dtype = DType::kFloat32;
  Shape shape;
  size_t bytes() const {
    return SizeOf(dtype) * static_cast<size_t>(shape.elements());
  }
};

// A column of a table, in the order of the file.
struct TableColumn {
  enum class Role : uint8_t { kDropped, kValue, kLabel, kWeight };
  std::string name;  // may be empty
  Role role = Role::kDropped;
  int64_t value = -1;  // the index among the values, for a kValue
};

// The values' names, in their order; empty if they have none.
std::vector<std::string> ValueNames(const std::vector<TableColumn>& columns);

// Columns that are not in the map are numbers without missing values.
struct TableEncoding {
  struct Column {
    // A text column's categories, sorted by bytes; "" is that of missing
    // values. Empty for a column of numbers.
    std::vector<std::string> categories;
    // Each category is 0 or 1. Otherwise the value is its index.
    bool one_hot = true;
    bool has_unknown_category = false;  // the last one has all unknown texts
    std::optional<float> fill;          // replaces a missing number
    bool drop = false;  // rows with a missing value are left out

    int64_t num_categories() const {
      return static_cast<int64_t>(categories.size()) +
             (has_unknown_category ? 1 : 0);
    }
    int64_t width() const {
      return categories.empty() || !one_hot ? 1 : num_categories();
    }
  };
  std::map<int64_t, Column> columns;   // the key is TableColumn::value
  std::vector<std::string> na_values;  // missing, beside "", "NA", "nan" ...
  // The decimal point of numbers among na_values, or 0.
  char decimal = '\0';
  bool drop_unlabelled = false;  // rows with a missing label are left out

  bool empty() const {
    return columns.empty() && na_values.empty() && !drop_unlabelled;
  }
};

// Keras's TextVectorization with output_mode "int", for an Embedding.
struct TextVectorization {
  enum class Standardize : uint8_t {
    kNone,
    kLower,  // letters of ASCII
    kStripPunctuation,
    kLowerAndStripPunctuation,
  };
  enum class Split : uint8_t {
    kWhitespace,
    kCharacter,  // characters of UTF-8
  };
  // The most tokens, with padding and unknown token. Zero means no limit. A
  // longer vocabulary file is an error; a learned vocabulary is cut.
  int64_t max_tokens = 0;
  Standardize standardize = Standardize::kLowerAndStripPunctuation;
  Split split = Split::kWhitespace;
  // At least 1. Longer texts are cut, and shorter ones get zeros at their end.
  int64_t output_sequence_length = 0;
  // Token i has the number i + 2; 0 is padding, and 1 other tokens.
  std::vector<std::string> vocabulary;
};

// The fields up to end_index are as in Keras. The other fields choose the
// targets and separate the series.
struct TimeseriesOptions {
  int64_t sequence_length = 0;  // rows of a window, >= 1
  int64_t sequence_stride = 1;  // rows from a window's start to the next start
  int64_t sampling_rate = 1;    // rows from one row of a window to the next
  // The rows from start_index to the row before end_index; -1 means to the last
  // row.
  int64_t start_index = 0;
  int64_t end_index = -1;

  // The number of rows from the first row of a window to its target. With
  // sequence_length * sampling_rate the target is the first row after the
  // window.
  int64_t target_offset = 0;
  // If not zero, a target has this number of rows, as a new first axis.
  int64_t target_length = 0;
  // If not empty, targets are these values of x instead of y.
  std::vector<int64_t> target_columns;
  // The group of each row. A window with its target lies in one group. Rows of
  // a negative group are left out. If it is empty, each file is one group.
  std::vector<int64_t> groups;
};

struct ImageResizing {
  Interpolation interpolation = Interpolation::kBilinear;
  // First cuts out the largest middle part with the new aspect ratio.
  bool crop_to_aspect_ratio = false;
};

// x becomes x * factor + offset.
struct Scale {
  Scale() = default;
  explicit Scale(float f, float o = 0) : factor(f), offset(o) {}
  float factor = 1;
  float offset = 0;
};

// Describes a source, or a model's training data. Evaluation and prediction
// apply the description of the training data to their own data.
struct DataDescription {
  Scale scale;  // the training's Map
  // The columns of the table, and how they became the values of x.
  std::vector<TableColumn> columns;
  std::vector<std::string> classes;  // empty without names
  TableEncoding encoding;
  // A loaded model has only the digest of a vocabulary too large for its file.
  std::optional<TextVectorization> text = std::nullopt;
  std::string vocabulary_digest = "";
  // How rows became windows. The fields that depend on the file keep their
  // defaults, and windows->groups is empty. `group` is the name of the column
  // or file with the groups.
  std::optional<TimeseriesOptions> windows = std::nullopt;
  std::string group = "";
  // An older file's data may have had more columns at the end.
  bool may_have_more_columns = false;
  std::optional<ImageResizing> resizing = std::nullopt;
  int64_t sampling_rate = 0;  // of sound in Hz, otherwise 0
};

struct DataPosition;

// Random access to examples, in the types of the file. Dataset converts and
// scales them.
//
// An error of Read ends the operation that needs the batch, as does an
// exception on any thread (kInternal, with name() and what()). The other
// methods must not throw.
class Source {
 public:
  virtual ~Source() = default;

  // Constant for the life of the source.
  virtual int64_t size() const = 0;

  virtual ExampleSpec x() const = 0;
  // Shape () for class numbers or a scalar target; (0,) without labels.
  virtual ExampleSpec y() const = 0;

  // A Zip has several; its x() and y() are rows of all their values.
  virtual std::vector<ExampleSpec> Inputs() const { return {x()}; }
  virtual std::vector<ExampleSpec> Targets() const { return {y()}; }

  // Copies examples index[0..count), in the types of x() and y(); either may be
  // null. Several threads may call it.
  virtual Status Read(const int64_t* index, int count, void* x, void* y) = 0;

  // Changes x for training, such as by noise, after Read for the batch at `at`.
  // The change depends only on the source, `at` and the index. Augment is
  // called as Read is.
  virtual Status Augment(const DataPosition& /*at*/, const int64_t* /*index*/,
                         int /*count*/, void* /*x*/) {
    return Status();
  }
  // A digest of Augment's parameters; 0 if it changes nothing.
  virtual uint64_t AugmentDigest() const { return 0; }

  // Sets the bounds of all values of x. Returns false if they are not known
  // without reading, or if a value is not a number.
  virtual bool XRange(double* /*least*/, double* /*largest*/) const {
    return false;
  }

  // A digest of all examples, if it is known without reading the examples.
  virtual std::optional<uint64_t> Digest() const { return std::nullopt; }

  // The description, without scale, group and vocabulary_digest.
  virtual DataDescription Description() const { return {}; }
  // The path of an example's file, if each example has its own.
  virtual std::string ExamplePath(int64_t /*index*/) const { return ""; }

  // The index of each group's first example, ascending from 0; empty without
  // groups. The examples of a group are consecutive. A validation split cuts no
  // group.
  virtual std::vector<int64_t> GroupStarts() const { return {}; }

  // The index of each file's first example, ascending from 0; empty if the
  // source does not consist of files.
  virtual std::vector<int64_t> FileStarts() const { return {}; }

  // A name for messages: "train-images-idx3-ubyte.gz", "memory".
  virtual std::string name() const = 0;
  // The name of the labels, if they have their own file.
  virtual std::string y_name() const { return name(); }
};

// --- datasets ----------------------------------------------------------------

// How replicas divide a dataset, as tf.data.experimental.AutoShardPolicy.
enum class AutoShardPolicy : uint8_t {
  kAuto,  // kFile for a source of several files, otherwise kData
  kFile,  // file i goes to replica i % replicas; at least one file each
  kData,  // each global batch is cut into a piece for every replica
  kOff,   // every replica has all data, in its own order
};

// A position in the data. `pass` counts from 0. With kData, `used` is the
// number of examples of the pass that the job has used, for any number of
// replicas. With kFile and kOff, it is the number of steps, for one number of
// replicas only.
struct DataPosition {
  int64_t pass = 0;
  int64_t used = 0;
  bool operator==(const DataPosition& o) const {
    return pass == o.pass && used == o.used;
  }
};

// The weight of each class's examples in the loss. Classes that are not in the
// map have the weight 1.
using ClassWeights = std::map<int64_t, float>;

struct DatasetParts;  // core/data/dataset_parts.h

// A view of a Source that is cheap to copy, with the methods of tf.data:
//
//   IdxDataset(images, labels).Map(Scale(1 / 255.f))
//       .Shuffle(/*seed=*/1).Repeat().Batch(64)
//
// The order of a pass is a function of (seed, pass). All functions return the
// first error.
class Dataset {
 public:
  Dataset() = default;  // none
  explicit Dataset(std::shared_ptr<Source> source);
  explicit Dataset(const Status& error);

  // Call these before Shuffle, Repeat and Batch.
  Dataset Skip(int64_t count) const;
  Dataset Take(int64_t count) const;
  // Every n-th example from `index` on.
  Dataset Shard(int64_t n, int64_t index) const;
  // A different order in every pass.
  Dataset Shuffle(uint64_t seed) const;
  // `times` passes (up to 2^60 examples), or endless. Before Batch, batches may
  // have examples of two passes; after it, a pass ends with a short batch.
  Dataset Repeat(int64_t times = -1) const;
  // The job's replicas divide a batch: size / N examples each, rounded up, and
  // fewer or none for the last ones. So N workers train as one. Without
  // `drop_remainder` a pass may end with a shorter batch; its mean is over its
  // examples.
  Dataset Batch(int64_t size, bool drop_remainder = false) const;
  Dataset Map(const Scale& scale) const;
  // Reads ahead into at most `bytes`, for sources that are not in memory.
  // Shuffle then keeps blocks of examples together, so that reads are long; the
  // order depends on `bytes` (docs/streaming.md).
  Dataset Memory(int64_t bytes) const;
  // Keras's sample_weight, for the loss and weighted metrics. The weights are
  // finite. Each of several weights belongs to one row of the example, such as
  // a step of a sequence; each output with a loss must have as many rows. The
  // loss is still divided by the number of examples and rows.
  Dataset SampleWeight(std::vector<float> weights,
                       int64_t weights_per_example = 1) const;
  // By default kData. With kFile and kOff each replica makes batches of the
  // global size from its own examples, and divides each into `replicas` equal
  // pieces, one for each step. A replica without examples left has empty parts
  // until all replicas end their pass. Every worker opens all the files; Skip,
  // Take and Shard count over all of them.
  Dataset AutoShard(AutoShardPolicy policy) const;
  // The source has only this worker's examples, and replica r has counts[r].
  // Needs AutoShard(kOff) before it, and a worker for each replica.
  Dataset OwnExamples(std::vector<int64_t> counts) const;

  bool empty() const;
  // The first error; also without a source or Batch.
  Status status() const;

  const std::shared_ptr<Source>& source() const;
  int64_t size() const;  // examples of one pass
  int64_t batch_size() const;
  const Scale& scale() const;
  // Batches in all passes; -1 if endless.
  int64_t steps(int replicas) const;
  const DatasetParts& parts() const;  // internal

 private:
  explicit Dataset(const DatasetParts& parts);
  Dataset WithError(const Status& error) const;

  std::shared_ptr<const DatasetParts> parts_;
};

// x and y outlive the source; `y` may be null.
std::shared_ptr<Source> MemorySource(const ExampleSpec& x_spec, const void* x,
                                     const ExampleSpec& y_spec, const void* y,
                                     int64_t count);
// The sources follow each other, and have one type and shape.
Dataset Concatenate(const std::vector<std::shared_ptr<Source>>& sources);
// For several inputs or outputs. x[i] is input i; the x of y[i] has the targets
// of the i-th output with a loss. All datasets have the same number of
// examples, in the same order. They may have a Map; call the other methods on
// the result.
//
//   Zip({images.Map(Scale(1 / 255.f)), numbers}, {kinds, ages}).Shuffle(1)
Dataset Zip(const std::vector<Dataset>& x, const std::vector<Dataset>& y);

// Keras's timeseries_dataset_from_array: windows of `rows` in the order of
// time, as views. x gets a first axis of sequence_length. The sample weight is
// the weight of the (first) target's row. `rows` may have Map and SampleWeight;
// call other methods on the result. A group's windows follow each other.
//
//   TimeseriesDatasetFromArray(NpyDataset("x.npy", "y.npy"), options)
//       .Shuffle(/*seed=*/1).Batch(128)
Dataset TimeseriesDatasetFromArray(const Dataset& rows,
                                   const TimeseriesOptions& options);

// --- loaders -----------------------------------------------------------------

struct Batch {
  int64_t count = 0;         // examples of the part; may be 0
  int64_t global_count = 0;  // examples of all parts, >= 1
  const float* x = nullptr;  // (count, example shape), of each input in turn
  const void* y = nullptr;   // int32 classes or float targets; see losses.h
  ExampleWeights weights;
  DataPosition next;
  bool last = false;  // the data begin again after this batch
};

// The options of Model::OpenLoader.
struct LoaderOptions {
  DataPosition start;
  bool background = true;  // another thread prepares the next batch
  bool targets = true;     // reads labels
  bool examples = true;    // reads x
  bool training = true;    // the model trains on the batches
  // For local updates. All parts of a round for one replica come before the
  // parts for the next replica. The last round ends after `steps`, if not zero.
  int64_t round = 1;
  int64_t steps = 0;
  ClassWeights class_weight;  // see FitOptions
};

// This rank's parts of each global batch, as float32 x and targets. Only the
// first batch allocates. For one thread.
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;

  // Valid until the next call. The data begin again after the parts of a `last`
  // batch. After an error every call returns it.
  virtual Status Next(Batch* batch) = 0;
  // Skips `steps` parts. *batch becomes the last skipped part, without
  // examples. *examples grows by the global counts of the skipped parts.
  virtual Status Skip(int64_t steps, Batch* batch, int64_t* examples) = 0;
  // In a fit with rounds, returns to the start of the round that has the last
  // part.
  virtual void RewindRound() = 0;
  // Returns to the first part of the last global batch. Do not call it in a fit
  // with rounds.
  virtual void RewindStep() = 0;
};

}  // namespace ringlet

#endif  // RINGLET_DATASET_H_
