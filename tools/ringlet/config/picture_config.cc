// A field that RUN.json does not give stays empty until OpenPictures, where
// the model's own pictures or the layers decide. A field that contradicts the
// training is an error, since the model would see other pictures. For
// label_mode null is a mode, and not an absent field.

#include "picture_config.h"

#include <cinttypes>
#include <tuple>
#include <utility>

#include "column_fields.h"
#include "core/base/interval.h"
#include "core/layers/layer_table.h"
#include "io/files/path.h"
#include "io/keras/image_names.h"
#include "io/pictures/picture.h"
#include "io/readers/files/labelled_files.h"
#include "run_config.h"

namespace ringlet {
namespace {

using ColorMode = ImageOptions::ColorMode;
using LabelMode = ImageOptions::LabelMode;
using Subset = ImageOptions::Subset;

constexpr Named<bool> kDamaged[] = {{"error", false}, {"skip", true}};

void ReadSize(FieldReader* fields, PictureConfig* config) {
  const std::string takes = "a list of two numbers from 1 to " +
                            AsJson(int64_t{kMaxPictureSide}) +
                            ", height and width; by default the model's";
  const Json json = fields->Take("image_size", takes);
  if (!fields->MarkOptional("image_size") || !json) return;
  int64_t sides[2] = {};
  int count = 0;
  for (Json m = json.first(); m && json.is_array(); m = m.next(), ++count) {
    if (count == 2 || !m.ToInt64(&sides[count]) || sides[count] < 1 ||
        sides[count] > kMaxPictureSide) {
      return fields->MustBe("image_size", takes);
    }
  }
  if (count != 2) return fields->MustBe("image_size", takes);
  config->size = {sides[0], sides[1]};
}

void ReadClassNames(FieldReader* fields, std::vector<std::string>* names) {
  fields->List("class_names", 1, "a list of the classes' names, in their order",
               [&](const Json& item) {
                 names->push_back(item.text());
                 return !item.text().empty();
               });
}

void ReadSplit(FieldReader* fields, ImageOptions* options) {
  fields->Choice("subset", kImageSubsets, &options->subset);
  fields->DoubleOrNull("validation_split", kFractionBelow1,
                       &options->validation_split);
  int64_t seed = options->seed;
  fields->Int("seed", 0, UINT32_MAX, &seed);
  options->seed = static_cast<uint32_t>(seed);
  const bool has_split = options->validation_split > 0;
  if (options->subset != Subset::kAll && !has_split) {
    fields->Refuse("subset", "needs \"validation_split\"");
  }
}

// Reads the fields of the changes that training makes in sound.
void ReadChanges(const std::string& folder, FieldReader* fields,
                 PictureConfig* config) {
  AudioOptions* const changes = &config->changes;
  if (fields->MarkOptional("background_noise")) {
    ReadPath("background_noise", folder, fields, &changes->background_noise,
             "the path of a folder of noise, as WAV, for training");
  }
  fields->Float("background_frequency", kFraction,
                &changes->background_frequency);
  fields->Float("background_volume", kFraction, &changes->background_volume);
  fields->Float("time_shift_ms", kNotNegative, &changes->time_shift_ms);
  if (!config->is_sound) {
    return fields->RefuseGiven({"background_noise", "background_frequency",
                                "background_volume", "time_shift_ms"},
                               "is of sound; leave it out");
  }
  if (!changes->background_noise.empty()) return;
  fields->RefuseGiven({"background_frequency", "background_volume"},
                      "needs \"background_noise\"");
}

void ReadPathColumn(const char* key, const char* noun, bool is_table,
                    FieldReader* fields, std::string* name) {
  ReadColumnField(key,
                  std::string("a CSV's column with paths of ") + noun +
                      ": a name, or a number from " + AsJson(-kMaxColumn) +
                      " to " + AsJson(kMaxColumn),
                  fields, name);
  if (!is_table && !name->empty()) {
    fields->Refuse(key, "is a column of a \"csv\"; leave it out");
  }
}

// Sets the size and the colours that are given. Without them, sets what the
// model takes.
Status SetForm(const Model& model, const PictureConfig& config,
               ImageOptions* options) {
  const Shape& taken = model.input_shape();
  const bool is_picture = taken.rank() == 3 || taken.rank() == 2;
  if (!is_picture && !(config.size && config.color_mode)) {
    return InvalidArgument(
        "the model takes examples of shape %s, not pictures; give "
        "\"image_size\" and \"color_mode\"",
        taken.ToString().c_str());
  }
  std::tie(options->height, options->width) =
      config.size ? *config.size : std::pair(taken[0], taken[1]);
  if (config.color_mode) {
    options->color_mode = *config.color_mode;
    return Status();
  }
  const int64_t channels = taken.rank() == 3 ? taken[2] : 1;
  if (channels != 1 && channels != 3 && channels != 4) {
    return InvalidArgument(
        "the model takes pictures of %" PRId64
        " channels; only 1 (grayscale), 3 (rgb) and 4 (rgba) can be read",
        channels);
  }
  options->color_mode = channels == 1   ? ColorMode::kGrayscale
                        : channels == 3 ? ColorMode::kRgb
                                        : ColorMode::kRgba;
  return Status();
}

// How the pictures get their size: as in the model's training, if it had any.
Status SetResizing(const PictureConfig& config, ImageResizing* resizing) {
  const ImageResizing standard = config.trained.value_or(ImageResizing());
  resizing->interpolation =
      config.interpolation.value_or(standard.interpolation);
  resizing->crop_to_aspect_ratio =
      config.crop_to_aspect_ratio.value_or(standard.crop_to_aspect_ratio);
  if (!config.trained) return Status();
  if (resizing->interpolation != standard.interpolation) {
    return InvalidArgument(
        "interpolation: is \"%s\", but the model was trained with \"%s\"; "
        "leave it out",
        FirstName(kImageInterpolations, resizing->interpolation).c_str(),
        FirstName(kImageInterpolations, standard.interpolation).c_str());
  }
  if (resizing->crop_to_aspect_ratio != standard.crop_to_aspect_ratio) {
    return InvalidArgument(
        "crop_to_aspect_ratio: is %s, but the model was trained with %s; leave "
        "it out",
        AsJson(resizing->crop_to_aspect_ratio).c_str(),
        AsJson(standard.crop_to_aspect_ratio).c_str());
  }
  return Status();
}

// Sets the rate that is given, or the rate of the model's training, or of a
// layer that depends on it. All such layers have the same.
Status SetRate(const Model& model, const PictureConfig& config,
               AudioOptions* options) {
  int64_t rate = config.trained_rate;
  std::string rate_owner = "the model was trained with";
  for (int i = 0; i < model.num_nodes(); ++i) {
    const Layer& layer = model.layer(i);
    const int64_t taken = SamplingRateOf(layer);
    if (taken == 0) continue;
    const std::string taker = "layer '" + layer.name + "' takes";
    if (rate != 0 && taken != rate) {
      return InvalidArgument("%s %" PRId64 " samples a second, but %s %" PRId64
                             "; give the layers of a model one sampling_rate",
                             taker.c_str(), taken, rate_owner.c_str(), rate);
    }
    if (rate == 0) rate_owner = taker;
    rate = taken;
  }
  options->sampling_rate =
      config.sampling_rate > 0 ? config.sampling_rate : rate;
  if (rate == 0 || options->sampling_rate == rate) return Status();
  return InvalidArgument("sampling_rate: is %" PRId64 ", but %s %" PRId64
                         "; give that, and files of that rate",
                         config.sampling_rate, rate_owner.c_str(), rate);
}

Dataset OpenSound(const PictureConfig& config, LabelMode label_mode,
                  const std::string& csv, const CsvOptions& table,
                  const Model& model) {
  AudioOptions options = config.changes;
  static_cast<LabelledFilesOptions&>(options) = config.options;
  options.label_mode = label_mode;
  const Shape& taken = model.input_shape();
  if (taken.rank() != 1 && taken.rank() != 2) {
    return Dataset(InvalidArgument(
        "the model takes examples of shape %s, not sound of (samples) or "
        "(samples, channels)",
        taken.ToString().c_str()));
  }
  options.channels = taken.rank() == 2 ? taken[1] : 1;
  options.output_sequence_length = config.output_sequence_length > 0
                                       ? config.output_sequence_length
                                       : taken[0];
  const Status status = SetRate(model, config, &options);
  if (!status.ok()) return Dataset(status);
  if (!config.files.empty()) return AudioDataset(config.files, options);
  if (config.listed) {
    return AudioDatasetOfList(*config.listed, config.directory, options);
  }
  if (!config.directory.empty()) {
    return AudioDatasetFromDirectory(config.directory, options);
  }
  return AudioDatasetFromCsv(csv, config.column, options, table);
}

// True if a reader without labels would find other files than a reader with
// labels: all files of the folder, in the order of their names.
bool IsDivided(const PictureConfig& config) {
  return !config.directory.empty() && config.files.empty() && !config.listed &&
         (config.options.subset != ImageOptions::Subset::kAll ||
          !config.changes.background_noise.empty());
}

// Reads the folder of the files, or the column of a CSV that has their paths.
void ReadPlaces(bool is_table, const std::string& folder, FieldReader* fields,
                PictureConfig* config) {
  const char kTakes[] = "the path of a folder, with a folder for each class";
  ReadPath("directory", folder, fields, &config->directory, kTakes);
  std::string sounds;
  ReadPath("audio_directory", folder, fields, &sounds, kTakes);
  if (!sounds.empty()) config->directory = sounds;
  config->is_sound = !sounds.empty();
  ReadPathColumn("image", "pictures", is_table, fields, &config->column);
  std::string audio;
  ReadPathColumn("audio", "sound", is_table, fields, &audio);
  if (!audio.empty()) {
    if (!config->column.empty()) {
      fields->Refuse("audio", "\"image\" has the paths; leave one of them out");
    }
    config->column = audio;
    config->is_sound = true;
  }
}

}  // namespace

void ReadPictures(bool is_table, const std::string& folder, FieldReader* fields,
                  PictureConfig* config) {
  ImageOptions* const options = &config->options;
  ReadPlaces(is_table, folder, fields, config);
  ReadSize(fields, config);
  fields->Take("color_mode",
               "\"grayscale\", \"rgb\", \"rgba\"; by default the model's");
  if (fields->MarkOptional("color_mode")) {
    config->color_mode = options->color_mode;
    fields->Choice("color_mode", kImageColorModes, &*config->color_mode);
  }
  // The value null is a mode of its own.
  if (fields->MarkOptional("label_mode")) {
    config->label_mode = options->label_mode;
    fields->Choice("label_mode", kImageLabelModes, &*config->label_mode);
  } else if (fields->Take("label_mode")) {
    config->label_mode = LabelMode::kNone;
  }
  ReadClassNames(fields, &options->class_names);
  ImageResizing resizing;
  fields->Choice("interpolation", kImageInterpolations,
                 &resizing.interpolation);
  if (fields->Take("interpolation")) {
    config->interpolation = resizing.interpolation;
  }
  fields->Bool("crop_to_aspect_ratio", &resizing.crop_to_aspect_ratio);
  if (fields->Take("crop_to_aspect_ratio")) {
    config->crop_to_aspect_ratio = resizing.crop_to_aspect_ratio;
  }
  ReadSplit(fields, options);
  fields->Choice("damaged", kDamaged, &options->skip_damaged);
  ReadChanges(folder, fields, config);
  if (config->is_sound) {
    fields->RefuseGiven(
        {"image_size", "color_mode", "interpolation", "crop_to_aspect_ratio"},
        "is of pictures, not of sound; leave it out");
  }
  if (!is_table || !config->empty()) return;
  const char kNeeds[] = "needs \"image\" or \"audio\", the column of paths";
  fields->RefuseGiven(
      {"image_size", "color_mode", "class_names", "interpolation",
       "crop_to_aspect_ratio", "subset", "validation_split", "seed", "damaged"},
      kNeeds);
  if (config->label_mode) fields->Refuse("label_mode", kNeeds);
}

void InheritPictures(const PictureConfig& train, PictureConfig* validation) {
  if (validation->output_sequence_length == 0) {
    validation->output_sequence_length = train.output_sequence_length;
  }
  if (validation->sampling_rate == 0) {
    validation->sampling_rate = train.sampling_rate;
  }
  if (!validation->size) validation->size = train.size;
  if (!validation->color_mode) validation->color_mode = train.color_mode;
  if (!validation->label_mode) validation->label_mode = train.label_mode;
}

void MatchPictures(const DataDescription& trained_on, PictureConfig* config) {
  if (!trained_on.classes.empty()) {
    config->options.class_names = trained_on.classes;
  }
  config->trained = trained_on.resizing;
  config->trained_rate = trained_on.sampling_rate;
}

Dataset OpenPictures(const PictureConfig& config, const std::string& csv,
                     const CsvOptions& table, const Model& model,
                     bool targets) {
  // Predictions are of the examples that training has divided.
  if (!targets && IsDivided(config)) {
    const Dataset same =
        OpenPictures(config, csv, table, model, /*targets=*/true);
    const bool has_no_classes = same.source() == nullptr &&
                                same.status().code() == Code::kInvalidArgument;
    if (!has_no_classes) return same;
  }
  const bool one_hot =
      !model.loss().takes_classes() && model.output_shape().elements() > 1;
  const LabelMode label_mode =
      !targets ? LabelMode::kNone
               : config.label_mode.value_or(one_hot ? LabelMode::kCategorical
                                                    : LabelMode::kInt);
  if (config.is_sound) return OpenSound(config, label_mode, csv, table, model);
  ImageOptions options = config.options;
  options.label_mode = label_mode;
  Status status = SetResizing(config, &options.resizing);
  if (status.ok()) status = SetForm(model, config, &options);
  if (!status.ok()) return Dataset(status);
  if (!config.files.empty()) return ImageDataset(config.files, options);
  if (config.listed) {
    return ImageDatasetOfList(*config.listed, config.directory, options);
  }
  if (!config.directory.empty()) {
    return ImageDatasetFromDirectory(config.directory, options);
  }
  return ImageDatasetFromCsv(csv, config.column, options, table);
}

}  // namespace ringlet
