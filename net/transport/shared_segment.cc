// The first page has the lanes' controls. Behind it are the bytes of one lane,
// then of the other.

#include "shared_segment.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ringlet {

#if defined(__linux__) && defined(SYS_memfd_create) && defined(F_ADD_SEALS)
namespace {

// The largest page of all supported processors.
constexpr size_t kControlBytes = 64 << 10;
constexpr size_t kMappedBytes = kControlBytes + 2 * SharedLane::kBytes;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr unsigned kFlags = 3;  // MFD_CLOEXEC | MFD_ALLOW_SEALING

}  // namespace

bool SharedSegment::MapMemory() {
  void* const memory = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED, descriptor_, 0);
  if (memory != MAP_FAILED) memory_ = static_cast<uint8_t*>(memory);
  return memory_ != nullptr;
}

std::unique_ptr<SharedSegment> SharedSegment::Create() {
  std::unique_ptr<SharedSegment> segment(new SharedSegment);
  segment->descriptor_ =
      static_cast<int>(syscall(SYS_memfd_create, "ringlet", kFlags));
  const int fd = segment->descriptor_;
  if (fd < 0 || ftruncate(fd, kMappedBytes) != 0 ||
      fcntl(fd, F_ADD_SEALS, kSeals) != 0 || !segment->MapMemory()) {
    return nullptr;
  }
  return segment;
}

std::unique_ptr<SharedSegment> SharedSegment::Map(int descriptor) {
  std::unique_ptr<SharedSegment> segment(new SharedSegment);
  segment->descriptor_ = descriptor;
  struct stat about;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals ||
      fstat(descriptor, &about) != 0 ||
      about.st_size != static_cast<off_t>(kMappedBytes) ||
      !segment->MapMemory()) {
    return nullptr;
  }
  segment->CloseDescriptor();
  return segment;
}

SharedSegment::~SharedSegment() {
  CloseDescriptor();
  if (memory_ != nullptr) munmap(memory_, kMappedBytes);
}

void SharedSegment::CloseDescriptor() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

SharedLane SharedSegment::Lane(int index) const {
  auto* const controls = reinterpret_cast<SharedLane::Control*>(memory_);
  return SharedLane(controls + index,
                    memory_ + kControlBytes + index * SharedLane::kBytes);
}

#else

std::unique_ptr<SharedSegment> SharedSegment::Create() { return nullptr; }
std::unique_ptr<SharedSegment> SharedSegment::Map(int) { return nullptr; }
SharedSegment::~SharedSegment() = default;
void SharedSegment::CloseDescriptor() {}
SharedLane SharedSegment::Lane(int) const {
  return SharedLane(nullptr, nullptr);
}

#endif

}  // namespace ringlet
