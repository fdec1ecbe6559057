// Files of sound as examples.

#include <cinttypes>
#include <memory>
#include <utility>
#include <vector>

#include "../../core/base/guarded.h"
#include "../files/input_file.h"
#include "../sound/wav.h"
#include "labelled_files.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

class SoundSource final : public LabelledFilesSource {
 public:
  SoundSource(LabelledFiles files, const AudioOptions& options)
      : LabelledFilesSource(std::move(files), options, kSoundFiles.noun),
        options_(options) {}

  ExampleSpec x() const override {
    return {DType::kFloat32,
            {options_.output_sequence_length, options_.channels}};
  }
  int64_t SamplingRate() const override { return options_.sampling_rate; }

 private:
  Status Decode(const std::string& path, unsigned char* x) const override {
    return ReadSound(path, options_.sampling_rate, options_.channels,
                     options_.output_sequence_length,
                     reinterpret_cast<float*>(x));
  }

  const AudioOptions options_;
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

// An error for a file with damaged samples.
Status CheckSamples(const std::string& path, int64_t rate,
                    const AudioOptions& options) {
  const auto count =
      static_cast<size_t>(options.output_sequence_length * options.channels);
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor(path, count * sizeof(float)));
  std::vector<float> samples(count);
  return ReadSound(path, rate, options.channels, options.output_sequence_length,
                   samples.data());
}

// The rate of the first file; if damaged files are left out, of the first that
// is none.
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

Dataset MakeDataset(AudioOptions options, Status status, LabelledFiles files) {
  if (status.ok()) status = CheckLength(options);
  // (Of all files: the subsets have the same.)
  if (status.ok() && options.sampling_rate == 0) {
    status = FindRate(files, &options);
  }
  if (status.ok()) status = SelectSubset(kSoundFiles, options, &files);
  if (!status.ok()) return Dataset(status);
  return DatasetOf(std::make_shared<SoundSource>(std::move(files), options));
}

}  // namespace

Dataset AudioDatasetFromDirectory(const std::string& directory,
                                  const AudioOptions& options) {
  LabelledFiles files;
  Status status = FilesOfDirectory(kSoundFiles, directory, options, &files);
  return MakeDataset(options, status, std::move(files));
}

Dataset AudioDatasetOfList(const FileList& list, const std::string& name,
                           const AudioOptions& options) {
  LabelledFiles files;
  Status status = FilesOfList(list, name, options, &files);
  return MakeDataset(options, status, std::move(files));
}

Dataset AudioDataset(const std::vector<std::string>& paths,
                     const AudioOptions& options) {
  LabelledFiles files;
  Status status = FilesOfPaths(kSoundFiles, paths, &files);
  return MakeDataset(options, status, std::move(files));
}

Dataset AudioDatasetFromCsv(const std::string& path, const std::string& column,
                            const AudioOptions& options,
                            const CsvOptions& table) {
  LabelledFiles files;
  Status status = FilesOfCsv(path, column, options, table, &files);
  return MakeDataset(options, status, std::move(files));
}

}  // namespace ringlet
