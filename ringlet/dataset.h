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
  std::string name;  // empty: none
  Role role = Role::kDropped;
  int64_t value = -1;  // the index among the values, for a kValue
};

// The names of the values, in their order; empty if they have none.
std::vector<std::string> ValueNames(const std::vector<TableColumn>& columns);

// How a table's columns become the values of an example. Columns that are not
// in the map are numbers without missing values.
struct TableEncoding {
  struct Column {
    // The categories of a column of text, sorted by bytes; "" has the missing
    // values. Empty: a column of numbers.
    std::vector<std::string> categories;
    // True: each category is a value of 0 or 1. False: one value, the
    // category's index.
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
  // The decimal point of numbers among na_values; 0: unknown.
  char decimal = '\0';
  bool drop_unlabelled = false;  // rows with a missing label are left out

  bool empty() const {
    return columns.empty() && na_values.empty() && !drop_unlabelled;
  }
};

// How a column of text becomes whole numbers for an Embedding, as Keras's
// TextVectorization does with output_mode "int", with its names and defaults.
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
  // The most tokens, with the padding and the unknown token. 0: no limit. A
  // longer vocabulary file is an error; a learned vocabulary is cut.
  int64_t max_tokens = 0;
  Standardize standardize = Standardize::kLowerAndStripPunctuation;
  Split split = Split::kWhitespace;
  // The numbers of an example, >= 1. Longer texts are cut, and shorter ones get
  // zeros at their end.
  int64_t output_sequence_length = 0;
  // Token i has the number i + 2. 0 is the padding, and 1 all other tokens.
  std::vector<std::string> vocabulary;
};

// Names, rules and defaults up to end_index are as in Keras. Those from
// target_offset to target_columns choose the targets, and `groups` keeps series
// apart.
struct TimeseriesOptions {
  int64_t sequence_length = 0;  // rows of a window, >= 1
  int64_t sequence_stride = 1;  // rows from a window's start to the next start
  int64_t sampling_rate = 1;    // rows from one row of a window to the next
  // Only rows from start_index to before end_index are used; -1: the last too.
  int64_t start_index = 0;
  int64_t end_index = -1;

  // From a window's first row to the row of its target. 0, as in Keras: that
  // row itself. sequence_length * sampling_rate: the first row after the
  // window.
  int64_t target_offset = 0;
  // If not 0: a target is this many consecutive rows, as a new first axis.
  int64_t target_length = 0;
  // If not empty: targets are these values of x instead of y.
  std::vector<int64_t> target_columns;
  // The group of each row: a window and its target lie in consecutive rows of
  // one group. Rows of a negative group are left out. Empty: each file is a
  // group.
  std::vector<int64_t> groups;
};

// How pictures get the size of x. Names and defaults are as in Keras.
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

// The description of a source's data, or in a model's file of its training
// data. Evaluation and prediction scale, encode and match their data by it.
struct DataDescription {
  Scale scale;  // the training's Map
  // The columns of a table, and how they became the values.
  std::vector<TableColumn> columns;
  std::vector<std::string> classes;  // the class of each number; empty: numbers
  TableEncoding encoding;
  // How text became x. A vocabulary that is too large for a model's file is
  // empty when the model is loaded, and has a digest.
  std::optional<TextVectorization> text = std::nullopt;
  std::string vocabulary_digest = "";
  // The options that made the examples from rows, if they are windows. Fields
  // that depend on the file keep their defaults, and `groups` is empty. `group`
  // is the groups' column, or their file; empty if there is none.
  std::optional<TimeseriesOptions> windows = std::nullopt;
  std::string group = "";
  // True for older files: the training data may have had more columns at the
  // end.
  bool may_have_more_columns = false;
  // How pictures are resized.
  std::optional<ImageResizing> resizing = std::nullopt;
  int64_t sampling_rate = 0;  // the samples of a second of sound; else 0
};

struct DataPosition;

// Source: random access to the examples of a data set, in the element types of
// the file. Dataset converts and scales when it fills a batch.
//
// An error of Read ends the operation that needs the batch, and so does an
// exception (kInternal, with name() and what()), on any thread. The other
// methods must not throw.
class Source {
 public:
  virtual ~Source() = default;

  // The number of examples; constant for the life of the source.
  virtual int64_t size() const = 0;

  virtual ExampleSpec x() const = 0;
  // Labels: shape () for class numbers or a scalar target; (0,): no labels.
  virtual ExampleSpec y() const = 0;

  // The inputs and targets of a source with several (Zip). x() and y() are then
  // rows of all their values.
  virtual std::vector<ExampleSpec> Inputs() const { return {x()}; }
  virtual std::vector<ExampleSpec> Targets() const { return {y()}; }

  // Copies examples index[0..count), each in [0, size()), to x and y, in the
  // types of x() and y(); either may be null. Several threads may call it.
  virtual Status Read(const int64_t* index, int count, void* x, void* y) = 0;

  // Changes examples for training, such as by noise: x has index[0..count) as
  // Read wrote them, for the batch at `at`. The change depends on the source,
  // `at` and the index only. Called as Read.
  virtual Status Augment(const DataPosition& /*at*/, const int64_t* /*index*/,
                         int /*count*/, void* /*x*/) {
    return Status();
  }
  // A digest of what Augment depends on. 0: it changes nothing.
  virtual uint64_t AugmentDigest() const { return 0; }

  // Bounds of all values of x, if they are known without reading the examples
  // and all are numbers.
  virtual bool XRange(double* /*least*/, double* /*largest*/) const {
    return false;
  }

  // A digest of all examples, if it is known without reading them.
  virtual std::optional<uint64_t> Digest() const { return std::nullopt; }

  // All that is known beside scale, group and vocabulary_digest.
  virtual DataDescription Description() const { return {}; }
  // The path of an example's file, if each example has its own.
  virtual std::string ExamplePath(int64_t /*index*/) const { return ""; }

  // The first example of each group, such as a person, from 0 on. A group is in
  // one piece, and a validation split cuts no group. Empty: no groups.
  virtual std::vector<int64_t> GroupStarts() const { return {}; }

  // The first example of each file, from 0 on. Empty: not made of files.
  virtual std::vector<int64_t> FileStarts() const { return {}; }

  // A name for messages: "train-images-idx3-ubyte.gz", "memory".
  virtual std::string name() const = 0;
  // The name of the labels, if they have their own file.
  virtual std::string y_name() const { return name(); }
};

// --- datasets ----------------------------------------------------------------

// How the replicas of a job divide a dataset, with the names of
// tf.data.experimental.AutoShardPolicy.
enum class AutoShardPolicy : uint8_t {
  kAuto,  // kFile for a source of several files, else kData
  kFile,  // file i goes to replica i % replicas; at least one file each
  kData,  // each global batch is cut into a piece for every replica
  kOff,   // every replica has all data, in its own order
};

// The position of the whole job in its data: the pass, from 0, and how much of
// it is used. With kData these are examples, for any number of replicas; with
// kFile and kOff steps, for this number of replicas only.
struct DataPosition {
  int64_t pass = 0;
  int64_t used = 0;
  bool operator==(const DataPosition& o) const {
    return pass == o.pass && used == o.used;
  }
};

// The weight of each class's examples in the loss; 1 for others.
using ClassWeights = std::map<int64_t, float>;

struct DatasetParts;  // core/data/dataset_parts.h

// Dataset: the examples of a training, their order, and their batches.
//
// A cheap value over a Source, with the methods of tf.data:
//
//   IdxDataset(images, labels).Map(Scale(1 / 255.f))
//       .Shuffle(/*seed=*/1).Repeat().Batch(64)
//
// The order of a pass is a function of (seed, pass). status() and every
// function with a dataset argument return the first error.
class Dataset {
 public:
  Dataset() = default;  // none
  explicit Dataset(std::shared_ptr<Source> source);
  explicit Dataset(const Status& error);

  // Select among the source's examples, in their order. Call them before
  // Shuffle, Repeat and Batch.
  Dataset Skip(int64_t count) const;
  Dataset Take(int64_t count) const;
  // Every n-th example, from index `index` on.
  Dataset Shard(int64_t n, int64_t index) const;
  // A different order in every pass.
  Dataset Shuffle(uint64_t seed) const;
  // `times` passes (of up to 2^60 examples in total), or endless. Called before
  // Batch, batches cross the border of two passes; after it, a pass ends with a
  // short batch.
  Dataset Repeat(int64_t times = -1) const;
  // Batches of `size` examples, as batch_size of Keras's fit. Each is divided
  // among the job's replicas: size / N examples each, rounded up, and fewer or
  // none for the last ones. So N workers train as one worker would. Without
  // `drop_remainder` the last batch of a pass may be shorter; its mean is over
  // its examples.
  Dataset Batch(int64_t size, bool drop_remainder = false) const;
  Dataset Map(const Scale& scale) const;
  // Reads examples ahead into a buffer of at most `bytes`. Shuffle then keeps
  // blocks of consecutive examples together until they are in the buffer, so a
  // file is read in long pieces: docs/streaming.md has the order, which depends
  // on `bytes` too. For sources that do not have their examples in memory.
  Dataset Memory(int64_t bytes) const;
  // Keras's sample_weight, in the loss and in weighted metrics: finite numbers,
  // `weights_per_example` for every example of the source. Each of several
  // weights belongs to one row of the example, such as a step of a sequence;
  // each output with a loss must then have as many rows. The loss is still
  // divided by the number of examples and rows.
  Dataset SampleWeight(std::vector<float> weights,
                       int64_t weights_per_example = 1) const;
  // The default is kData. With kFile and kOff each replica makes batches of the
  // global size of its own examples, and trains on one of `replicas` equal
  // pieces a step. A replica without examples left has empty parts until the
  // last replica ends its pass. Every worker opens all the files; Skip, Take
  // and Shard count over all of them.
  Dataset AutoShard(AutoShardPolicy policy) const;
  // The source has only this worker's examples; counts[r] is the number of
  // the examples of replica r. Needs AutoShard(kOff) before it, and a worker
  // for each replica.
  Dataset OwnExamples(std::vector<int64_t> counts) const;

  bool empty() const;
  // The first error. A dataset without a source or Batch is an error too.
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

  std::shared_ptr<const DatasetParts> parts_;  // null if there is none
};

// Examples in memory. x and y hold them one after another, and outlive the
// source; `y` may be null.
std::shared_ptr<Source> MemorySource(const ExampleSpec& x_spec, const void* x,
                                     const ExampleSpec& y_spec, const void* y,
                                     int64_t count);
// The examples of the sources in sequence; all have one type and shape.
Dataset Concatenate(const std::vector<std::shared_ptr<Source>>& sources);
// A dataset for a model with several inputs or outputs. The x of x[i] is input
// i; the x of y[i] has the targets of the model's i-th output with a loss. All
// have the same number of examples in the same order, and may have a Map; call
// all other methods, such as Batch, on the result.
//
//   Zip({images.Map(Scale(1 / 255.f)), numbers}, {kinds, ages}).Shuffle(1)
Dataset Zip(const std::vector<Dataset>& x, const std::vector<Dataset>& y);

// Keras's timeseries_dataset_from_array: examples are windows of `rows`, which
// are in the order of time. x gets a first axis of sequence_length. A window is
// a view. Its sample weight is that of its (first) target's row. `rows` may
// have Map and SampleWeight; call all other methods on the result. The windows
// of a group follow each other, in the order in which the groups begin.
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
  DataPosition next;  // the position of the next global batch
  bool last = false;  // the data begin again after this batch
};

// Options of Model::OpenLoader.
struct LoaderOptions {
  DataPosition start;
  bool background = true;  // the next batch is prepared by another thread
  bool targets = true;     // false: labels are not read
  bool examples = true;    // false: only labels are read
  bool training = true;    // false: the model will not train on these batches
  // For local updates: the steps of a round. All parts of a round for one
  // replica come before those for the next. The last round ends after `steps`
  // (0: no end).
  int64_t round = 1;
  int64_t steps = 0;
  ClassWeights class_weight;  // see FitOptions
};

// BatchLoader: reads this rank's parts of each global batch, in order, as
// float32 x and as targets of the loss. After the first batch nothing is
// allocated. Used by one thread.
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;

  // Reads the next part, valid until the next call. After the parts of a `last`
  // batch the data begin again. After an error every call returns that error.
  virtual Status Next(Batch* batch) = 0;
  // Skips `steps` parts. *batch becomes the last of them, without examples;
  // their global counts are added to *examples.
  virtual Status Skip(int64_t steps, Batch* batch, int64_t* examples) = 0;
  // With rounds: returns to the start of the last part's round.
  virtual void RewindRound() = 0;
  // Returns to the first part of the last part's global batch. Not with rounds.
  virtual void RewindStep() = 0;
};

}  // namespace ringlet

#endif  // RINGLET_DATASET_H_
