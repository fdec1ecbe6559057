// PictureConfig: the fields of a RUN.json's data for pictures and for sound.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_PICTURE_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_PICTURE_CONFIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/keras/field_reader.h"
#include "ringlet/dataset.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {

struct FileList;  // io/readers/files/picture_list.h

struct PictureConfig {
  bool is_sound = false;           // the files are WAV
  std::string directory;           // empty for another form
  std::vector<std::string> files;  // files given on the command line
  // Set by --watch: these files of `directory`, instead of all.
  std::shared_ptr<const FileList> listed;
  std::string column;    // the column of paths in a CSV; empty if there is none
  ImageOptions options;  // sound too uses its LabelledFilesOptions
  // Fields of the RUN.json. A field that is not given follows from the model
  // and its training. OpenPictures sets the same fields of `options`.
  std::optional<std::pair<int64_t, int64_t>> size;  // height and width
  std::optional<ImageOptions::ColorMode> color_mode;
  std::optional<ImageOptions::LabelMode> label_mode;
  std::optional<Interpolation> interpolation;
  std::optional<bool> crop_to_aspect_ratio;
  std::optional<ImageResizing> trained;  // the resizing of the model's training
  AudioOptions changes;  // sound: its background_… and time_shift_ms
  // Fields of sound, 0 if they are not given.
  int64_t output_sequence_length = 0, sampling_rate = 0;
  int64_t trained_rate = 0;  // the sampling rate of the model's training

  bool empty() const {
    return directory.empty() && files.empty() && column.empty();
  }
  // True if the files are divided into training and validation data.
  bool splits() const {
    return options.validation_split > 0 &&
           options.subset == ImageOptions::Subset::kAll;
  }
};

// Evaluation and prediction need no file of noise. (A folder of noise is still
// no class.)
inline void LeaveOutChanges(PictureConfig* config) {
  config->changes.background_frequency = config->changes.time_shift_ms = 0;
}

// Reads the fields of pictures and sound, except the fields that windows and
// texts also have. `is_table` is true for a CSV.
void ReadPictures(bool is_table, const std::string& folder, FieldReader* fields,
                  PictureConfig* config);

// The fields that the validation data do not give are taken from the training
// data.
void InheritPictures(const PictureConfig& train, PictureConfig* validation);

// Call it for a model that was trained on pictures, with these classes.
void MatchPictures(const DataDescription& trained_on, PictureConfig* config);

// Opens the examples as the model takes them. Without `targets` they have no
// labels. `csv` and `table` are used with config.column.
Dataset OpenPictures(const PictureConfig& config, const std::string& csv,
                     const CsvOptions& table, const Model& model, bool targets);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_PICTURE_CONFIG_H_
