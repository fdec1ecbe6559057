// Loading checks every span before it overwrites one, so a file of another
// model leaves the state in memory as it was. A read that fails later leaves
// it partly overwritten, and the error says so. StateLoaded of all Saveables
// comes last: each checks the values, which come from a file.

#include "ringlet/checkpoint.h"

#include <atomic>
#include <cstring>
#include <set>

#include "../../core/base/events.h"
#include "../../core/base/json.h"
#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../../core/base/time_units.h"
#include "../files/atomic_file.h"
#include "../weights/safetensors.h"

namespace ringlet {

namespace {

std::vector<StateSpan> CollectSpans(const Saveables& state) {
  std::vector<StateSpan> spans;
  for (Saveable* saveable : state) saveable->AppendState(&spans);
  return spans;
}

// Explains a tensor that only the file or only the state has.
const char* OtherSource(const std::string& tensor) {
  return tensor.rfind("callback/", 0) == 0
             ? "it was saved with other callbacks"
             : "it was saved from another model or configuration";
}

Status CheckSpan(const SafetensorsReader& file, const StateSpan& span) {
  const StoredTensor* tensor = file.Find(span.name);
  if (tensor == nullptr && span.optional) return Status();
  if (tensor == nullptr) {
    return InvalidArgument("%s: has no tensor '%s'; %s", file.path().c_str(),
                           span.name.c_str(), OtherSource(span.name));
  }
  if (DTypeOf(tensor->storage) != span.dtype) {
    return InvalidArgument("%s: tensor '%s' is %s in the file, %s here",
                           file.path().c_str(), span.name.c_str(),
                           StorageName(tensor->storage),
                           StorageName(StorageOf(span.dtype)));
  }
  if (tensor->shape != span.shape) {
    return InvalidArgument("%s: tensor '%s' has shape %s in the file, %s here",
                           file.path().c_str(), span.name.c_str(),
                           tensor->shape.ToString().c_str(),
                           span.shape.ToString().c_str());
  }
  return Status();
}

Status CheckOthers(const SafetensorsReader& file,
                   const std::vector<StateSpan>& spans,
                   std::set<std::string> names) {
  for (const StateSpan& span : spans) names.insert(span.name);
  for (const StoredTensor& tensor : file.tensors()) {
    if (names.count(tensor.name) == 0 && tensor.name != kScalesName) {
      return InvalidArgument(
          "%s: has a tensor '%s', which is not known here; %s",
          file.path().c_str(), Printable(tensor.name).c_str(),
          OtherSource(tensor.name));
    }
  }
  return Status();
}

Status ReadSpans(const SafetensorsReader& file,
                 const std::vector<StateSpan>& spans) {
  for (const StateSpan& span : spans) {
    const StoredTensor* const tensor = file.Find(span.name);
    if (tensor == nullptr) {
      std::memset(span.data, 0, span.bytes());
      continue;
    }
    const Status status = file.Read(*tensor, span.data);
    if (!status.ok()) {
      return status.Annotate(
          "the state in memory is now partly overwritten "
          "and must not be used");
    }
  }
  return Status();
}

Status Save(const std::string& path, const Saveables& state,
            const Metadata& metadata, const SaveOptions& options,
            bool* replaced, uint64_t* bytes) {
  SafetensorsWriter writer;
  SafetensorsWriter::Options layout;
  layout.weights = options.weights;
  RINGLET_RETURN_IF_ERROR(writer.Plan(CollectSpans(state), metadata, layout)
                              .Annotate("%s", path.c_str()));
  AtomicFile file;
  *bytes = writer.file_bytes();
  RINGLET_RETURN_IF_ERROR(
      file.Open(options.files, path, *bytes, /*is_private=*/true));
  RINGLET_RETURN_IF_ERROR(writer.Write(file.file()));
  return file.Commit(replaced, options.replace);
}

// Saves may come with every step: of the saves that succeed, one a second is
// recorded.
void RecordSave(const std::string& path, uint64_t bytes, int64_t begin,
                const Status& saved) {
  EventSink* const sink = g_events;
  if (sink == nullptr) return;
  static std::atomic<int64_t> recorded{0}, others{0};
  const int64_t now = Clock::System()->MonotonicNanos();
  if (saved.ok() && recorded != 0 && now - recorded < kSecond) {
    ++others;
    return;
  }
  recorded = now;
  Event event("save");
  event.Text("file", path).Int("epoch", sink->epoch).Int("step", sink->step);
  event.Seconds("save_seconds", now - begin)
      .Int("bytes", static_cast<int64_t>(bytes));
  if (!saved.ok()) event.Text("error", saved.message());
  if (others > 0) event.Int("saves", others.exchange(0) + 1);
  RecordEvent(event);
}

}  // namespace

Status SaveCheckpoint(const std::string& path, const Saveables& state,
                      const Metadata& metadata, const SaveOptions& options,
                      bool* replaced) {
  if (replaced != nullptr) *replaced = false;
  const int64_t begin = Clock::System()->MonotonicNanos();
  uint64_t bytes = 0;
  const Status saved = Save(path, state, metadata, options, replaced, &bytes);
  RecordSave(path, bytes, begin, saved);
  return saved;
}

Status LoadCheckpoint(const std::string& path, const Saveables& state,
                      const LoadOptions& options, LoadedCheckpoint* loaded) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(options.files, path));
  if (file.verifiable() || !options.accept_unverified) {
    RINGLET_RETURN_IF_ERROR(file.Verify());
  }
  const std::vector<StateSpan> spans = CollectSpans(state);
  for (const StateSpan& span : spans) {
    RINGLET_RETURN_IF_ERROR(CheckSpan(file, span));
  }
  if (!options.ignore_others) {
    RINGLET_RETURN_IF_ERROR(CheckOthers(file, spans, options.ignored));
  }
  RINGLET_RETURN_IF_ERROR(ReadSpans(file, spans));
  if (loaded != nullptr) {
    loaded->metadata = file.metadata();
    loaded->verified = file.verifiable();
  }
  for (Saveable* saveable : state) {
    RINGLET_RETURN_IF_ERROR(
        saveable->StateLoaded().Annotate("%s", path.c_str()));
  }
  return Status();
}

Status VerifyCheckpoint(const std::string& path, FileSystem* files) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path));
  return file.Verify();
}

}  // namespace ringlet
