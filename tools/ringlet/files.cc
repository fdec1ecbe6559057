// ringlet inspect, diff and export: files of weights.

#include <cstdio>

#include "command_line.h"
#include "commands.h"
#include "core/base/text.h"
#include "io/checkpoint/inspect.h"
#include "io/checkpoint/safetensors.h"
#include "io/data/npz.h"
#include "io/files/file_kind.h"
#include "io/files/file_system.h"
#include "run.h"

namespace ringlet {
namespace {

Status Inspect(const std::string& path, bool json) {
  FileInfo info;
  RINGLET_RETURN_IF_ERROR(InspectFile(path, &info));
  const std::string text = json ? ToJson(info) : ToText(info);
  std::printf("%s%s", text.c_str(),
              text.empty() || text.back() != '\n' ? "\n" : "");
  if (info.verification != Verification::kDamaged) return Status();
  return Corruption("%s: %s; take another copy of it", path.c_str(),
                    info.damage.c_str());
}

// Weights by the names that a layer has: "dense/kernel".
std::string ExportedName(const std::string& name, bool all) {
  return all ? name : WithoutPrefix(name, kWeightsPrefix);
}

bool IsExported(const SafetensorsReader& reader, const StoredTensor& tensor,
                bool all) {
  if (all) return true;
  for (const StoredTensor& other : reader.tensors()) {
    if (StartsWith(other.name, kWeightsPrefix)) {
      return StartsWith(tensor.name, kWeightsPrefix);
    }
  }
  return true;  // a plain file
}

struct Exported {
  std::vector<StateSpan> spans;
  std::vector<std::vector<unsigned char>> memory;
};

Status ReadExported(const std::string& path, bool all, Exported* exported) {
  SafetensorsReader reader;
  RINGLET_RETURN_IF_ERROR(OtherKind(FileSystem::Posix(), path,
                                    {FileKind::Format::kSafetensors},
                                    reader.Open(FileSystem::Posix(), path)));
  for (const StoredTensor& tensor : reader.tensors()) {
    if (!IsExported(reader, tensor, all)) continue;
    const DType dtype = DTypeOf(tensor.storage);
    std::vector<unsigned char> memory(
        SizeOf(dtype) * static_cast<size_t>(tensor.shape.elements()));
    RINGLET_RETURN_IF_ERROR(reader.Read(tensor, memory.data()));
    exported->memory.push_back(std::move(memory));
    exported->spans.push_back({ExportedName(tensor.name, all), dtype,
                               tensor.shape, exported->memory.back().data()});
  }
  return Status();
}

Status WriteNpz(const Exported& exported, const std::string& path) {
  NpzWriter writer;
  RINGLET_RETURN_IF_ERROR(writer.Open(FileSystem::Posix(), path));
  for (const StateSpan& span : exported.spans) {
    RINGLET_RETURN_IF_ERROR(
        writer.Add(span.name, span.dtype, span.shape, span.data));
  }
  return writer.Finish();
}

Status WriteSafetensors(const Exported& exported, const std::string& path) {
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  RINGLET_RETURN_IF_ERROR(writer.Plan(exported.spans, {}, plain));
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(
      file.Open(FileSystem::Posix(), path, writer.file_bytes()));
  RINGLET_RETURN_IF_ERROR(writer.Write(file.file()));
  return file.Commit();
}

Status Export(const std::string& from, const std::string& to,
              const std::string& format, bool all) {
  RINGLET_RETURN_IF_ERROR(CheckWritable("--out", to));
  if (IsSameFile(from, to)) {
    return InvalidArgument(
        "--out %s: is the file itself, which holds more than its weights; give "
        "another name",
        to.c_str());
  }
  Exported exported;
  RINGLET_RETURN_IF_ERROR(ReadExported(from, all, &exported));
  return format == "npz" ? WriteNpz(exported, to)
                         : WriteSafetensors(exported, to);
}

}  // namespace

int InspectCommand(const std::vector<std::string>& line) {
  bool json = false;
  CommandLine flags(
      "inspect", "FILE",
      "Shows layers, tensors and metadata of a safetensors file, ringlet's or\n"
      "plain, or of numpy's npz or npy, and verifies it: every byte, by its\n"
      "checksums. Of any other file it says what it is.\n",
      "\nExit code: 1 where the file is damaged.\n");
  flags.Switch("--json", &json, "all of it as JSON");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  return InputExitCode(Inspect(flags.arguments()[0], json));
}

int DiffCommand(const std::vector<std::string>& line) {
  bool json = false;
  CommandLine flags(
      "diff", "A B",
      "Compares two files of safetensors, npz or npy: metadata, and tensors "
      "by\n"
      "name, bit for bit.\n",
      "\nExit code: 0 where they are the same, 1 where they differ.\n");
  flags.Switch("--json", &json, "as JSON");
  int code = 0;
  if (!flags.Parse(line, 2, 2, &code)) return code;
  FileComparison comparison;
  const Status status =
      CompareFiles(flags.arguments()[0], flags.arguments()[1], &comparison);
  if (!status.ok()) return InputExitCode(status);
  const std::string text = json ? ToJson(comparison) : ToText(comparison);
  std::printf("%s%s", text.c_str(),
              text.empty() || text.back() != '\n' ? "\n" : "");
  return comparison.same() ? 0 : 1;
}

int ExportCommand(const std::vector<std::string>& line) {
  std::string format, out;
  bool all = false;
  CommandLine flags(
      "export", "FILE",
      "Writes the weights of a saved model, of weights or of a backup for\n"
      "other programs: arrays named as \"dense/kernel\", in Keras's layout.\n",
      "\nExample: ringlet export model.safetensors --format npz --out w.npz\n"
      "and in Python: numpy.load(\"w.npz\")[\"dense/kernel\"]\n");
  flags.Text("--format", "NAME", &format,
             "npz (numpy) or safetensors (plain); without it, as\n"
             "--out ends");
  flags.Text("-o, --out", "FILE", &out, "the file to write");
  flags.Switch("--all", &all,
               "everything, under the names it has: the optimizer's\n"
               "state and what else a backup holds");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  if (out.empty()) {
    return flags.UsageError(InvalidArgument("--out is missing"));
  }
  if (format.empty()) format = out.substr(out.rfind('.') + 1);
  if (format != "npz" && format != "safetensors") {
    return flags.UsageError(InvalidArgument(
        "the format is '%s'; give --format npz or --format safetensors",
        format.c_str()));
  }
  return InputExitCode(Export(flags.arguments()[0], out, format, all));
}

}  // namespace ringlet
