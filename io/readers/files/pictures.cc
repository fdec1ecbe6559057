// Pictures as examples.

#include <cinttypes>
#include <memory>
#include <optional>
#include <utility>

#include "../../pictures/picture.h"
#include "../../pictures/resize.h"
#include "labelled_files.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

int ChannelsOf(ImageOptions::ColorMode mode) {
  return mode == ImageOptions::ColorMode::kGrayscale ? 1
         : mode == ImageOptions::ColorMode::kRgb     ? 3
                                                     : 4;
}

class PictureSource final : public LabelledFilesSource {
 public:
  PictureSource(LabelledFiles files, const ImageOptions& options)
      : LabelledFilesSource(std::move(files), options, kPictureFiles.noun),
        options_(options) {}

  ExampleSpec x() const override {
    return {DType::kUint8,
            {options_.height, options_.width, ChannelsOf(options_.color_mode)}};
  }
  bool XRange(double* least, double* largest) const override {
    *least = 0;
    *largest = 255;
    return true;
  }
  DataDescription Description() const override {
    DataDescription pictures = LabelledFilesSource::Description();
    pictures.resizing = options_.resizing;
    return pictures;
  }

 private:
  Status Decode(const std::string& path, unsigned char* x) const override;

  const ImageOptions options_;
};

Status PictureSource::Decode(const std::string& path, unsigned char* x) const {
  Picture picture;
  RINGLET_RETURN_IF_ERROR(
      ReadPicture(path, ChannelsOf(options_.color_mode), &picture));
  Resize(picture, options_.resizing.interpolation,
         options_.resizing.crop_to_aspect_ratio, options_.height,
         options_.width, x);
  return Status();
}

Status CheckSize(const ImageOptions& options) {
  const int64_t height = options.height, width = options.width;
  if (height < 1 || width < 1 || height > kMaxPictureSide ||
      width > kMaxPictureSide || height * width > kMaxPixels) {
    return InvalidArgument(
        "image_size: is %" PRId64 " x %" PRId64
        "; both must be from 1 to %d, and their product at most %" PRId64,
        height, width, kMaxPictureSide, int64_t{kMaxPixels});
  }
  return Status();
}

Dataset MakeDataset(const ImageOptions& options, Result<LabelledFiles> found,
                    bool may_be_gone = false) {
  Status status = found.status();
  if (status.ok()) status = CheckSize(options);
  if (status.ok()) {
    status = SelectSubset(kPictureFiles, options, &found.value());
  }
  if (!status.ok()) return Dataset(status);
  found->may_be_gone = may_be_gone;
  return MakeDataset(
      std::make_shared<PictureSource>(std::move(found).value(), options));
}

}  // namespace

Dataset ImageDatasetFromDirectory(const std::string& directory,
                                  const ImageOptions& options) {
  return MakeDataset(options, FilesOfFolder(kPictureFiles, directory, options));
}

Dataset ImageDatasetOfList(const FileList& list, const std::string& name,
                           const ImageOptions& options) {
  return MakeDataset(options, FilesOfList(list, name, options),
                     /*may_be_gone=*/true);
}

Dataset ImageDataset(const std::vector<std::string>& paths,
                     const ImageOptions& options) {
  return MakeDataset(options, FilesOfPaths(kPictureFiles, paths));
}

Dataset ImageDatasetFromCsv(const std::string& path, const std::string& column,
                            const ImageOptions& options,
                            const CsvOptions& table) {
  return MakeDataset(options, FilesOfCsv(path, column, options, table));
}

}  // namespace ringlet
