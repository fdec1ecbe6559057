#include "data_bytes.h"

#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "io/pictures/picture.h"
#include "io/readers/arrays/array_path.h"
#include "io/readers/memory_sizes.h"
#include "io/sound/wav.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

bool IsNamed(const std::string& path, const std::string& end) {
  return EndsWith(path, end) || EndsWith(path, end + ".gz");
}

// The functions of a form of arrays.
struct Form {
  using BytesOf = Status (*)(const std::string&, const ArrayOptions&,
                             uint64_t*);
  BytesOf examples, labels;
  Dataset (*open)(const std::string&, const ArrayOptions&);
};
constexpr Form kNpy = {NpyExampleBytesInMemory, NpyBytesInMemory, NpyDataset};
constexpr Form kIdx = {IdxBytesInMemory, IdxBytesInMemory, IdxDataset};

// Adds the bytes of examples, or checks that they can stay in their file.
Status AddExamples(const Form& form, const std::string& path, bool in_memory,
                   uint64_t* bytes) {
  if (HasSoundName(path)) return WavDataset(path).Batch(1).status();
  ArrayOptions options;
  options.in_memory = in_memory;
  if (!in_memory) return form.open(path, options).Batch(1).status();
  uint64_t part_bytes = 0;
  RINGLET_RETURN_IF_ERROR(form.examples(path, options, &part_bytes));
  *bytes += part_bytes;
  return Status();
}

// Adds the bytes of a part. The file's name decides its form.
Status AddFile(const std::string& path, bool in_memory, uint64_t* bytes) {
  if (path.empty()) return Status();
  uint64_t part_bytes = 0;
  const std::string file = SplitArrayPath(path).file;
  if (IsNamed(path, ".csv")) {
    CsvOptions options;
    options.has_label = false;
    options.in_memory = in_memory;
    RINGLET_RETURN_IF_ERROR(CsvBytesInMemory(path, options, &part_bytes));
  } else {
    const bool npy =
        file != path || IsNamed(file, ".npy") || EndsWith(file, ".npz");
    RINGLET_RETURN_IF_ERROR(
        AddExamples(npy ? kNpy : kIdx, path, in_memory, &part_bytes));
  }
  *bytes += part_bytes;
  return Status();
}

Status AddParts(const DataConfig& data, uint64_t* bytes) {
  RINGLET_RETURN_IF_ERROR(AddFile(data.x, data.in_memory, bytes));
  RINGLET_RETURN_IF_ERROR(AddFile(data.y, data.in_memory, bytes));
  for (const auto* parts : {&data.inputs, &data.targets}) {
    for (const DataPart& part : *parts) {
      RINGLET_RETURN_IF_ERROR(AddFile(part.path, data.in_memory, bytes));
    }
  }
  return Status();
}

// Adds the bytes of files with their form in the RUN.json.
Status AddPair(const Form& form, const std::string& x, const std::string& y,
               bool in_memory, uint64_t* bytes) {
  if (!x.empty()) {
    RINGLET_RETURN_IF_ERROR(AddExamples(form, x, in_memory, bytes));
  }
  if (y.empty() || HasSoundName(y)) return Status();
  ArrayOptions options;
  options.in_memory = in_memory;
  uint64_t part_bytes = 0;
  RINGLET_RETURN_IF_ERROR(form.labels(y, options, &part_bytes));
  *bytes += part_bytes;
  return Status();
}

// The most bytes that the decoding of one picture takes: its file, a buffer,
// and its pixels, as they are in the file and as the model takes them. Of many
// pictures 1,000 are measured.
uint64_t DecodingBytes(const Source& pictures) {
  constexpr int64_t kMeasured = 1000;
  const int64_t step = std::max<int64_t>(1, pictures.size() / kMeasured);
  uint64_t max_bytes = 0;
  for (int64_t i = 0; i < pictures.size(); i += step) {
    const std::string path = pictures.ExamplePath(i);
    struct stat about;
    Picture size;
    if (stat(path.c_str(), &about) != 0 || !ReadPictureSize(path, &size).ok()) {
      continue;
    }
    const int64_t taken = pictures.x().shape[2];  // channels
    const int64_t pixel =
        size.channels == taken ? taken : size.channels + taken;
    max_bytes = std::max(
        max_bytes, static_cast<uint64_t>(about.st_size * size.file_copies +
                                         size.count() * pixel) +
                       size.buffer_bytes);
  }
  return max_bytes;
}

// Lists the pictures, and decodes none. Damaged sound is read, since it has no
// rate.
Status AddPictures(const DataConfig& data, const Model& model,
                   const FitConfig& fit, uint64_t* bytes) {
  PictureConfig pictures = data.pictures;
  pictures.options.in_memory = false;
  pictures.options.skip_damaged &= pictures.is_sound;
  LeaveOutChanges(&pictures);  // noise is read when it is needed
  const Dataset listed =
      OpenPictures(pictures, data.csv, data.table, model, /*targets=*/true);
  RINGLET_RETURN_IF_ERROR(listed.Batch(1).status());
  const Source& source = *listed.source();
  *bytes += static_cast<uint64_t>(listed.size()) *
            (source.y().bytes() + (data.in_memory ? source.x().bytes() : 0));
  *bytes += static_cast<uint64_t>(std::min(fit.batch_size, listed.size())) *
            (source.y().bytes() + source.x().bytes());
  // With a memory several threads read ahead. A sound is read in place.
  const int64_t decoders =
      data.memory > 0 ? std::max<int64_t>(1, fit.threads) : 1;
  if (!pictures.is_sound) {
    *bytes += static_cast<uint64_t>(decoders) * DecodingBytes(source);
  }
  return Status();
}

}  // namespace

Status DataBytes(const DataConfig& data, const Model& model,
                 const FitConfig& fit, uint64_t* bytes) {
  *bytes = 0;
  RINGLET_RETURN_IF_ERROR(
      data.has_parts() ? AddParts(data, bytes)
                       : AddPair(kNpy, data.x, data.y, data.in_memory, bytes));
  RINGLET_RETURN_IF_ERROR(
      AddPair(kIdx, data.images, data.labels, data.in_memory, bytes));
  RINGLET_RETURN_IF_ERROR(
      AddPair(kNpy, data.sample_weight, "", /*in_memory=*/true, bytes));
  if (!data.pictures.empty()) return AddPictures(data, model, fit, bytes);
  if (data.csv.empty()) return Status();
  if (!data.text.empty()) {
    const Dataset texts = OpenText(data.csv, data.table, data.text);
    RINGLET_RETURN_IF_ERROR(texts.Batch(1).status());
    const Source& source = *texts.source();
    *bytes += static_cast<uint64_t>(texts.size()) *
              (source.x().bytes() + source.y().bytes());
    return Status();
  }
  uint64_t table = 0;
  RINGLET_RETURN_IF_ERROR(CsvBytesInMemory(data.csv, data.table, &table));
  *bytes += table;
  return Status();
}

}  // namespace ringlet
