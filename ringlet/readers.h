// Readers: data sets from IDX, NPY and CSV files, and from text, pictures and
// sound.
//
// Each reader makes a Dataset, which keeps the error of a bad file. Files may
// be .gz. A user-defined reader is a Source (dataset.h). Data that are larger
// than the memory can stay in their files (`in_memory`); the results have the
// same bits.

#ifndef RINGLET_READERS_H_
#define RINGLET_READERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

// Options for IDX and NPY files.
struct ArrayOptions {
  // If false, examples are read when needed, and one batch is in memory, or
  // more with Dataset::Memory. Compressed files and Fortran order are refused.
  // Labels with one value for each example are in memory if they take at most 1
  // MiB, or if their file is compressed.
  bool in_memory = true;
};

// IDX: the format of MNIST and similar data sets (Yann LeCun's MNIST page),
// with uint8, int8, int16, int32, float32 or float64 elements. In memory int8
// and int16 become int32; the other types stay.
//
// Images (or any x) from one file, and as many labels from another.
Dataset IdxDataset(const std::string& images, const std::string& labels,
                   const ArrayOptions& options = {});
// A dataset without labels, for an input or an output's targets of Zip.
Dataset IdxDataset(const std::string& x, const ArrayOptions& options = {});
// Several pairs of files, in order: see Source::FileStarts.
Dataset IdxDataset(const std::vector<std::string>& images,
                   const std::vector<std::string>& labels,
                   const ArrayOptions& options = {});

// NPY and NPZ: NumPy's array files (numpy/lib/format.py), versions 1 to 3. The
// path "mnist.npz:x_train" is an array of an npz; an npz with one array needs
// no name. "points.npy:height" is a field of a structured array. In memory
// float16 becomes float32, bool uint8; int8, int16 and uint16 int32; uint32 and
// uint64 int64, or an error if a number does not fit. Other numbers keep their
// type. Text (<U5, |S5) is read as labels: a class's number is the index of its
// name among the sorted ones.

struct NpyArray {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<unsigned char> data;  // native byte order, C order
};

// Reads numbers; kInvalidArgument if the elements are text.
Status ReadNpy(const std::string& path, NpyArray* array);

// `data` has shape.elements() elements.
Status WriteNpy(const std::string& path, DType dtype, const Shape& shape,
                const void* data);

// Reads an array for Dataset::SampleWeight, of shape (n) or (n, steps). The
// first dimension counts examples. *per_example is the product of the other
// dimensions.
Status ReadSampleWeights(const std::string& path, std::vector<float>* weights,
                         int64_t* per_example);

// The first dimension of x and of y counts examples. The classes of a text `y`
// are listed on stderr, unless `classes` gives their numbers.
Dataset NpyDataset(const std::string& x, const std::string& y,
                   const std::vector<std::string>& classes = {},
                   const ArrayOptions& options = {});
// Without labels: for an input or an output's targets of Zip.
Dataset NpyDataset(const std::string& x, const ArrayOptions& options = {});

// CSV (RFC 4180): rows with the same number of fields. A field is a decimal
// number, true or false. A field in quotes may contain separators, line ends
// and doubled quotes. Lines end with LF, CR LF or CR. A byte order mark and a
// first line "sep=;" are permitted. At most one column is the label, which may
// be a name.

struct CsvOptions {
  char separator = ',';  // ' ' means any number of blanks and tabs
  char decimal = '.';
  char comment = '\0';  // begins a comment to the line's end, if not 0
  // True if the first line has names. By default it has them unless its fields
  // (except a text label) are all numbers; "0,1,2" counts as names. A line on
  // stderr reports an unclear case.
  std::optional<bool> header;
  bool has_label = true;  // if false, all columns are values
  // If not zero, the number of columns of x. One more column is the label.
  int64_t values = 0;
  // The label's column, by name (needs a header) or number from 0, negative
  // from the end. Without both, the label is in the column that the training
  // used, or in the last column.
  std::string label_name;
  std::optional<int> label_column;
  // The column of weights (Dataset::SampleWeight), if any. It is not in x.
  std::string weight_name;
  std::optional<int> weight_column;
  // If neither is set, the weights are in the weight column of
  // training_columns, if the file has this column.
  bool weights_as_in_training = false;
  // The columns of the training data. If both these columns and the file have
  // names, x has the columns of the same names, and the file's other columns
  // are ignored. `take` and `drop` must then be as in training. Without names,
  // number and order of the columns must be equal. A label that is not needed
  // and weights that are not given may be absent.
  std::vector<TableColumn> training_columns;
  // If not empty, the permitted names of labels, in order.
  std::vector<std::string> classes;
  // If false, rows are read when they are needed. Only weights are in memory,
  // and 16 bytes for each 4 KiB of the file. A compressed file is refused.
  bool in_memory = true;

  // Below, a column has its name or, if the file lacks it, its number from 0,
  // negative from the end.
  std::vector<std::string> take;  // x, in order; or empty for all
  std::vector<std::string> drop;  // columns that are not in x
  // A column of text becomes categories (TableEncoding::Column).
  struct Categorical {
    std::string column;
    bool one_hot = true;
    bool has_unknown_category = false;
  };
  std::vector<Categorical> categorical;
  // A value is missing if its field is empty, is one of na_values, or is a text
  // that pandas reads as missing ("NA", "nan", "NULL" and others).
  enum class Missing : uint8_t {
    kError,
    kDrop,      // the row is left out
    kMean,      // the mean of the column's other values
    kConstant,  // `value`
  };
  // In text, kMean and kConstant make missing values a category "".
  struct MissingRule {
    Missing kind = Missing::kError;
    float value = 0;
  };
  MissingRule missing;
  // Rules for single columns, instead of `missing`.
  std::map<std::string, MissingRule> missing_by_column;
  std::vector<std::string> na_values;
  // The encoding of the training data. It replaces the fields from
  // `categorical` to na_values.
  std::optional<TableEncoding> encoding;
  // Labels are not read, and a row that would be left out is an error.
  bool for_prediction = false;
};

// x has the shape (values), in float32: one for each column, or for each
// category of a column with one_hot. y is the label as a float32, or the int32
// index of its name among the sorted names, which a line on stderr lists.
Dataset CsvDataset(const std::string& path, const CsvOptions& options = {});

// Text as token numbers; TextVectorization has the tokens and the lengths.
//
// Reads a file with one token in each line. The first lines may be Keras's ""
// and "[UNK]", or only "[UNK]". Blanks around a token are left out, unless
// text->split is kCharacter.
Status ReadVocabulary(const std::string& path, TextVectorization* text);
// As Keras's adapt: the most frequent tokens first, tokens of one frequency in
// reverse order of their bytes.
Status LearnVocabulary(const std::string& path, const std::string& column,
                       const CsvOptions& options, TextVectorization* text);
// The output_sequence_length numbers of one text.
std::vector<int32_t> Vectorize(const TextVectorization& vectorization,
                               const std::string& text);

// x has the numbers of the text in `column` (a name, or a number from 0), in
// int32; y is as in CsvDataset. If text.vocabulary is empty, the vocabulary is
// learned; Source::Description has it. Ignored are in_memory, take, drop and
// the fields from `categorical` to `encoding`. training_columns replace
// `column`.
Dataset TextDataset(const std::string& path, const std::string& column,
                    const TextVectorization& text,
                    const CsvOptions& options = {});

// Pictures: PNG, BMP and PNM (PBM, PGM, PPM) files, and JPEG if it is built in.

// Files with an example each. Names, rules and defaults are from Keras's
// image_dataset_from_directory and audio_dataset_from_directory.
struct LabelledFilesOptions {
  enum class LabelMode : uint8_t {
    kInt,          // class numbers
    kCategorical,  // a 1 among zeros
    kBinary,       // 0 or 1, of two classes
    kNone,         // no labels
  };
  // `seed` orders the files as Keras does, and the last validation_split of
  // them are kValidation.
  enum class Subset : uint8_t { kAll, kTraining, kValidation };
  LabelMode label_mode = LabelMode::kInt;
  // The permitted classes, in order; by default the sorted folders.
  std::vector<std::string> class_names;
  Subset subset = Subset::kAll;
  double validation_split = 0;  // the part for validation; below 1
  uint32_t seed = 0;
  // Beyond Keras: leaves damaged files out, with their number on stderr; all
  // files are read at the start. Another format, or a wrong size, is an error.
  bool skip_damaged = false;
  // Beyond Keras: if false, files are read when they are needed.
  bool in_memory = true;
};

struct ImageOptions : LabelledFilesOptions {
  enum class ColorMode : uint8_t { kGrayscale, kRgb, kRgba };
  ColorMode color_mode = ColorMode::kRgb;
  int64_t height = 256, width = 256;
  ImageResizing resizing;
};

// Keras's image_dataset_from_directory: x is (height, width, channels) in
// uint8, rounded (Keras keeps fractions). Each folder in `directory` is a
// class, with the pictures below it. Examples are ordered by class and path.
// With a subset they have Keras's order.
Dataset ImageDatasetFromDirectory(const std::string& directory,
                                  const ImageOptions& options = {});
// The pictures at `paths`, in this order, without labels.
Dataset ImageDataset(const std::vector<std::string>& paths,
                     const ImageOptions& options = {});
// A CSV with a column of paths, relative to its folder, and labels as in
// CsvDataset, or of class_names. `table` is used as in TextDataset.
Dataset ImageDatasetFromCsv(const std::string& path, const std::string& column,
                            const ImageOptions& options = {},
                            const CsvOptions& table = {});

// Sound: WAV files of 8, 16, 24 or 32 bit integers, or of floats.

struct AudioOptions : LabelledFilesOptions {
  // In Hz; other files are an error. Zero means the first file's rate.
  int64_t sampling_rate = 0;
  // Longer files are cut at the end, and shorter ones get zeros there.
  int64_t output_sequence_length = 16000;
  // With one channel, a sample is the mean of the file's channels. Otherwise
  // all files must have this number of channels.
  int64_t channels = 1;
  // Changes in training, with the arithmetic of TensorFlow's speech_commands.
  // The changes depend on `seed`, the batch's place in the data and the
  // example, not on workers and threads. Evaluation, prediction and a
  // validation subset have none.
  //
  // A folder of WAV files, each at least as long as an example, or empty. If it
  // is in the directory of the data, it is not a class.
  std::string background_noise;
  float background_frequency = 0.8f;  // the fraction of examples with noise
  // The noise is multiplied by a random factor from 0 to this number.
  float background_volume = 0.1f;
  // Examples begin earlier or later by up to this number of milliseconds.
  float time_shift_ms = 0;
};

// Keras's audio_dataset_from_directory: x is (output_sequence_length, channels)
// in float32; integers are scaled to [-1, 1).
Dataset AudioDatasetFromDirectory(const std::string& directory,
                                  const AudioOptions& options = {});
// The frames of one recording, for TimeseriesDatasetFromArray. x is (channels)
// in float32, scaled as by AudioDataset. The frames stay in the file.
Dataset WavDataset(const std::string& path);
// The sounds at `paths`, in this order, without labels.
Dataset AudioDataset(const std::vector<std::string>& paths,
                     const AudioOptions& options = {});
// A CSV with a column of paths, as ImageDatasetFromCsv.
Dataset AudioDatasetFromCsv(const std::string& path, const std::string& column,
                            const AudioOptions& options = {},
                            const CsvOptions& table = {});

}  // namespace ringlet

#endif  // RINGLET_READERS_H_
