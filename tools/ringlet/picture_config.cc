#include "picture_config.h"

#include <cinttypes>

#include "core/base/interval.h"
#include "io/keras/image_names.h"
#include "run_config.h"
#include "timeseries_config.h"

namespace ringlet {
namespace {

using ColorMode = ImageOptions::ColorMode;
using LabelMode = ImageOptions::LabelMode;
using Subset = ImageOptions::Subset;

constexpr int64_t kMaxSide = 1 << 16;

constexpr Named<ColorMode> kColorModes[] = {
    {"grayscale", ColorMode::kGrayscale},
    {"rgb", ColorMode::kRgb},
    {"rgba", ColorMode::kRgba}};
constexpr Named<LabelMode> kLabelModes[] = {
    {"int", LabelMode::kInt},
    {"categorical", LabelMode::kCategorical},
    {"binary", LabelMode::kBinary}};
constexpr Named<Subset> kSubsets[] = {{"both", Subset::kAll},
                                      {"training", Subset::kTraining},
                                      {"validation", Subset::kValidation}};
constexpr Named<bool> kDamaged[] = {{"error", false}, {"skip", true}};

void ReadSize(FieldReader* fields, PictureConfig* config) {
  const std::string takes = "a list of two numbers from 1 to " +
                            AsJson(kMaxSide) +
                            ", height and width; by default the model's";
  const Json json = fields->Take("image_size", takes);
  config->has_size = fields->Has("image_size");
  if (!config->has_size || !json) return;
  int64_t sides[2] = {};
  int count = 0;
  for (Json m = json.first(); m && json.is_array(); m = m.next(), ++count) {
    if (count == 2 || !m.ToInt64(&sides[count]) || sides[count] < 1 ||
        sides[count] > kMaxSide) {
      return fields->MustBe("image_size", takes);
    }
  }
  if (count != 2) return fields->MustBe("image_size", takes);
  config->options.height = sides[0];
  config->options.width = sides[1];
}

void ReadClassNames(FieldReader* fields, std::vector<std::string>* names) {
  const char kKey[] = "class_names";
  const char kTakes[] = "a list of the classes' names, in their order";
  if (!fields->Has(kKey)) return;
  const Json json = fields->Take(kKey, kTakes);
  if (!json) return;
  for (Json m = json.first(); m; m = m.next()) {
    if (m.text().empty()) return fields->MustBe(kKey, kTakes);
    names->push_back(m.text());
  }
  if (names->empty()) fields->MustBe(kKey, kTakes);
}

void ReadSplit(FieldReader* fields, ImageOptions* options) {
  fields->Choice("subset", kSubsets, &options->subset);
  if (fields->Has("validation_split")) {
    fields->Double("validation_split", kFractionBelow1,
                   &options->validation_split);
  }
  int64_t seed = options->seed;
  fields->Int("seed", 0, UINT32_MAX, &seed);
  options->seed = static_cast<uint32_t>(seed);
  const bool has_split = options->validation_split > 0;
  if (options->subset != Subset::kAll && !has_split) {
    fields->Refuse("subset", "needs \"validation_split\"");
  }
}

// The size and the colours that the model takes.
Status TakeModelsForm(const Model& model, const PictureConfig& config,
                      ImageOptions* options) {
  const Shape& taken = model.input_shape();
  const bool is_image = taken.rank() == 3 || taken.rank() == 2;
  const int64_t channels = taken.rank() == 3 ? taken[2] : 1;
  if (!is_image) {
    return config.has_size && config.has_color_mode
               ? Status()
               : InvalidArgument(
                     "the model takes examples of shape %s, not pictures; "
                     "give \"image_size\" and \"color_mode\"",
                     taken.ToString().c_str());
  }
  if (!config.has_size) {
    options->height = taken[0];
    options->width = taken[1];
  }
  if (config.has_color_mode) return Status();
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

Status CheckAsTrained(const PictureConfig& config) {
  if (!config.trained) return Status();
  const ImageResizing& own = config.options.resizing;
  const ImageResizing& trained = *config.trained;
  if (config.has_interpolation && own.interpolation != trained.interpolation) {
    return InvalidArgument(
        "interpolation: is another than \"%s\", with which the model was "
        "trained; leave it out",
        FirstName(kImageInterpolations, trained.interpolation).c_str());
  }
  if (config.has_crop &&
      own.crop_to_aspect_ratio != trained.crop_to_aspect_ratio) {
    return InvalidArgument(
        "crop_to_aspect_ratio: is %s, but the model was trained with %s; leave "
        "it out",
        AsJson(own.crop_to_aspect_ratio).c_str(),
        AsJson(trained.crop_to_aspect_ratio).c_str());
  }
  return Status();
}

}  // namespace

void ReadPictures(bool is_table, const std::string& folder, FieldReader* fields,
                  PictureConfig* config) {
  ImageOptions* const options = &config->options;
  fields->Text("directory",
               "the path of a folder, with a folder for each class",
               &config->directory);
  if (!config->directory.empty()) {
    config->directory = PathIn(folder, config->directory);
  }
  const std::string takes =
      "a CSV's column with paths of pictures: a name, or "
      "a number from " +
      AsJson(-kMaxColumn) + " to " + AsJson(kMaxColumn);
  const Json column = fields->Take("image", takes);
  if (fields->Has("image") && !ReadColumn(column, &config->column)) {
    fields->MustBe("image", takes);
  }
  ReadSize(fields, config);
  fields->Take("color_mode",
               "\"grayscale\", \"rgb\", \"rgba\"; by default the model's");
  config->has_color_mode = fields->Has("color_mode");
  if (config->has_color_mode) {
    fields->Choice("color_mode", kColorModes, &options->color_mode);
  }
  // (null is a mode of its own.)
  config->has_label_mode = !!fields->Take("label_mode");
  if (fields->Has("label_mode")) {
    fields->Choice("label_mode", kLabelModes, &options->label_mode);
  } else if (config->has_label_mode) {
    options->label_mode = LabelMode::kNone;
  }
  ReadClassNames(fields, &options->class_names);
  config->has_interpolation = !!fields->Take("interpolation");
  fields->Choice("interpolation", kImageInterpolations,
                 &options->resizing.interpolation);
  config->has_crop = !!fields->Take("crop_to_aspect_ratio");
  fields->Bool("crop_to_aspect_ratio", &options->resizing.crop_to_aspect_ratio);
  ReadSplit(fields, options);
  fields->Choice("damaged", kDamaged, &options->skip_damaged);
  if (!is_table && !config->column.empty()) {
    fields->Refuse("image", "is a column of a \"csv\"; leave it out");
  }
  if (!is_table || !config->empty()) return;
  const ImageOptions standard;
  const std::pair<const char*, bool> given[] = {
      {"image_size", config->has_size},
      {"color_mode", config->has_color_mode},
      {"label_mode", options->label_mode != standard.label_mode},
      {"class_names", !options->class_names.empty()},
      {"interpolation",
       options->resizing.interpolation != standard.resizing.interpolation},
      {"crop_to_aspect_ratio", options->resizing.crop_to_aspect_ratio},
      {"validation_split", options->validation_split > 0},
      {"seed", options->seed != standard.seed},
      {"damaged", options->skip_damaged}};
  for (const auto& [key, is_given] : given) {
    if (is_given) fields->Refuse(key, "needs \"image\", the column of paths");
  }
}

void InheritPictures(const PictureConfig& train, PictureConfig* validation) {
  ImageOptions* const own = &validation->options;
  const ImageOptions& other = train.options;
  if (!validation->has_size) {
    validation->has_size = train.has_size;
    own->height = other.height;
    own->width = other.width;
  }
  if (!validation->has_color_mode) {
    validation->has_color_mode = train.has_color_mode;
    own->color_mode = other.color_mode;
  }
  if (!validation->has_label_mode) {
    validation->has_label_mode = train.has_label_mode;
    own->label_mode = other.label_mode;
  }
}

void MatchPictures(const DataDescription& trained_on, PictureConfig* config) {
  if (!trained_on.classes.empty()) {
    config->options.class_names = trained_on.classes;
  }
  config->trained = trained_on.resizing;
}

Dataset OpenPictures(const PictureConfig& config, const std::string& csv,
                     const CsvOptions& table, const Model& model,
                     bool targets) {
  ImageOptions options = config.options;
  Status status = CheckAsTrained(config);
  if (status.ok()) status = TakeModelsForm(model, config, &options);
  if (!status.ok()) return Dataset(status);
  if (config.trained) options.resizing = *config.trained;
  const bool one_hot =
      !model.loss().takes_classes() && model.output_shape().elements() > 1;
  if (!config.has_label_mode) {
    options.label_mode = one_hot ? LabelMode::kCategorical : LabelMode::kInt;
  }
  if (!targets) options.label_mode = LabelMode::kNone;
  if (!config.files.empty()) return ImageDataset(config.files, options);
  if (!config.directory.empty()) {
    return ImageDatasetFromDirectory(config.directory, options);
  }
  return ImageDatasetFromCsv(csv, config.column, options, table);
}

}  // namespace ringlet
