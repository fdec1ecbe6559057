// Files of sound as examples.

#include <cinttypes>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../../../core/base/guarded.h"
#include "../../files/file_version.h"
#include "../../files/input_file.h"
#include "../../files/path.h"
#include "../../sound/wav.h"
#include "labelled_files.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "sound_changes.h"

namespace ringlet {
namespace {

class SoundSource final : public LabelledFilesSource {
 public:
  SoundSource(LabelledFiles files, const AudioOptions& options,
              std::unique_ptr<SoundChanges> changes)
      : LabelledFilesSource(std::move(files), options, kSoundFiles.noun),
        options_(options),
        changes_(std::move(changes)) {}

  ExampleSpec x() const override {
    return {DType::kFloat32,
            {options_.output_sequence_length, options_.channels}};
  }
  DataDescription Description() const override {
    DataDescription sounds = LabelledFilesSource::Description();
    sounds.sampling_rate = options_.sampling_rate;
    return sounds;
  }
  Status Augment(const DataPosition& position, const int64_t* index, int count,
                 void* x) override {
    auto* to = static_cast<float*>(x);
    for (int i = 0; changes_ != nullptr && i < count; ++i) {
      RINGLET_RETURN_IF_ERROR(changes_->Change(position, index[i], to));
      to += this->x().shape.elements();
    }
    return Status();
  }
  uint64_t AugmentDigest() const override {
    return changes_ == nullptr ? 0 : changes_->digest();
  }

 private:
  Status Decode(const std::string& path, unsigned char* x) const override {
    return ReadSound(path, options_.sampling_rate, options_.channels,
                     options_.output_sequence_length,
                     reinterpret_cast<float*>(x));
  }

  const AudioOptions options_;
  const std::unique_ptr<SoundChanges> changes_;  // null if there is none
};

// The frames of a file, which are read when they are needed.
class RecordingSource final : public Source {
 public:
  Status Open(const std::string& path) {
    RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &file_));
    RINGLET_RETURN_IF_ERROR(
        ReadWavFormat(file_.get(), &format_).Annotate("%s", path.c_str()));
    RINGLET_RETURN_IF_ERROR(file_->Version(&version_));
    return ChecksumParts(file_.get(), version_.bytes, &sample_);
  }
  int64_t size() const override { return format_.frames; }
  ExampleSpec x() const override {
    return {DType::kFloat32, {int64_t{format_.channels}}};
  }
  ExampleSpec y() const override { return {DType::kUint8, {0}}; }
  DataDescription Description() const override {
    DataDescription sound;
    sound.sampling_rate = format_.rate;
    return sound;
  }
  std::string name() const override { return FileNameOf(file_->path()); }
  bool XRange(double* least, double* largest) const override {
    *least = -1;
    *largest = 1;
    return !format_.is_float;
  }
  Status Read(const int64_t* index, int count, void* x, void*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Status read;
    for (int i = 0, run; x != nullptr && i < count && read.ok(); i += run) {
      for (run = 1; i + run < count && index[i + run] == index[i] + run;) ++run;
      WavFormat part = format_;
      part.begin += index[i] * format_.frame_bytes();
      part.frames = run;
      read = ReadWavSamples(
          file_.get(), part, format_.channels, run,
          static_cast<float*>(x) + int64_t{i} * format_.channels);
    }
    RINGLET_RETURN_IF_ERROR(CheckUnchanged(file_.get(), sample_, &version_));
    return read.Annotate("%s", file_->path().c_str());
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<File> file_;
  WavFormat format_;
  FileVersion version_;
  uint32_t sample_ = 0;  // see ChecksumParts
};

Status CheckLength(const AudioOptions& options) {
  constexpr int64_t kMax = int64_t{1} << 30;
  const int64_t length = options.output_sequence_length;
  if (options.channels < 1 || options.channels > kMaxSoundChannels) {
    return InvalidArgument("channels: is %" PRId64 "; must be from 1 to %d",
                           options.channels, kMaxSoundChannels);
  }
  if (length >= 1 && length <= kMax / options.channels) return Status();
  return InvalidArgument("output_sequence_length: is %" PRId64
                         "; must be from 1 to %" PRId64,
                         length, kMax / options.channels);
}

// Returns an error for a file with damaged samples.
Status CheckSamples(const std::string& path, int64_t rate,
                    const AudioOptions& options) {
  const auto count =
      static_cast<size_t>(options.output_sequence_length * options.channels);
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor(path, count * sizeof(float)));
  std::vector<float> samples(count);
  return ReadSound(path, rate, options.channels, options.output_sequence_length,
                   samples.data());
}

// Finds the rate of the first file or, if damaged files are left out, of the
// first file that is not damaged.
Status FindRate(const LabelledFiles& files, AudioOptions* options) {
  Status first;
  for (const std::string& path : files.paths) {
    WavFormat format;
    Status read = ReadSoundFormat(path, &format);
    if (read.ok() && options->skip_damaged) {
      read = CheckSamples(path, format.rate, *options);
    }
    options->sampling_rate = format.rate;
    if (read.ok()) return read;
    if (first.ok()) first = read;
    if (read.code() != Code::kCorruption || !options->skip_damaged) break;
  }
  return first;
}

Dataset MakeDataset(AudioOptions options, Result<LabelledFiles> found,
                    bool may_be_gone = false) {
  Status status = found.status();
  if (status.ok()) status = CheckLength(options);
  // All files have one rate, so the subsets have the same rate.
  if (status.ok() && options.sampling_rate == 0) {
    status = FindRate(found.value(), &options);
  }
  if (status.ok()) status = SelectSubset(kSoundFiles, options, &found.value());
  std::unique_ptr<SoundChanges> changes;
  if (status.ok() && options.subset != AudioOptions::Subset::kValidation) {
    status = SoundChanges::Open(options, &changes);
  }
  if (!status.ok()) return Dataset(status);
  found->may_be_gone = may_be_gone;
  return MakeDataset(std::make_shared<SoundSource>(
      std::move(found).value(), options, std::move(changes)));
}

}  // namespace

Dataset AudioDatasetFromDirectory(const std::string& directory,
                                  const AudioOptions& options) {
  return MakeDataset(options, FilesOfFolder(kSoundFiles, directory, options,
                                            options.background_noise));
}

Dataset AudioDatasetOfList(const FileList& list, const std::string& name,
                           const AudioOptions& options) {
  return MakeDataset(options, FilesOfList(list, name, options),
                     /*may_be_gone=*/true);
}

Dataset WavDataset(const std::string& path) {
  const auto source = std::make_shared<RecordingSource>();
  const Status opened = source->Open(path);
  return opened.ok() ? Dataset(source) : Dataset(opened);
}

Dataset AudioDataset(const std::vector<std::string>& paths,
                     const AudioOptions& options) {
  return MakeDataset(options, FilesOfPaths(kSoundFiles, paths));
}

Dataset AudioDatasetFromCsv(const std::string& path, const std::string& column,
                            const AudioOptions& options,
                            const CsvOptions& table) {
  return MakeDataset(options, FilesOfCsv(path, column, options, table));
}

}  // namespace ringlet
