// The sets of kernels in this build, and the choice between them. Only this
// file uses BLIS. It takes a micro-kernel for each set, by name, and nothing
// else. gemm.cc has the packing, the blocks and the threads.

#include <cstdlib>
#include <cstring>

#include "direct_conv.h"
#include "exact_loops.h"
#include "gemm.h"
#include "gemm_kernels.h"
#include "paired_conv.h"
#include "planes_conv.h"
#include "pool_loops.h"
#include "ringlet/status.h"
#include "row_loops.h"

#ifdef RINGLET_BLIS
#include <blis.h>
#endif

namespace ringlet {
namespace {

#if defined(__x86_64__)
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool HasNoAvx2() { return !HasAvx2(); }
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}
#else
bool Always() { return true; }
#endif

#if defined(RINGLET_BLIS) && (defined(__x86_64__) || defined(__aarch64__))
// A micro-kernel of BLIS for tiles of kRows rows. If the kernel works by
// columns (kAcross), the tile is one of C^T = B^T * A^T.
template <auto kKernel, int kRows, int kCols, bool kAcross>
void Tile(int64_t k, const float* a, const float* b, bool add, float* c,
          int64_t row_stride, const float* next) {
  float one = 1, beta = add ? 1 : 0;
  float* const x = const_cast<float*>(kAcross ? b : a);
  float* const y = const_cast<float*>(kAcross ? a : b);
  auxinfo_t about = {};
  about.a_next = const_cast<float*>(kAcross ? next : a);
  about.b_next = const_cast<float*>(kAcross ? a : next);
  kKernel(kAcross ? kCols : kRows, kAcross ? kRows : kCols, k, &one, x, y,
          &beta, c, kAcross ? 1 : row_stride, kAcross ? row_stride : 1, &about,
          nullptr);
}
#endif

#if defined(__x86_64__)
using Kernel = decltype(KernelSet::tile);
#if defined(RINGLET_BLIS)
constexpr Kernel kSkxTile = Tile<bli_sgemm_skx_asm_32x12_l2, 12, 32, true>,
                 kHaswellTile = Tile<bli_sgemm_haswell_asm_6x16, 6, 16, false>;
#else
constexpr Kernel kSkxTile = nullptr, kHaswellTile = nullptr;
#endif
#endif

// The loops for any CPU are fused on architectures where the compiler may
// assume it (arm64, s390x). There they are also built without fusing.
#ifdef __FP_FAST_FMAF
constexpr bool kFuses = true;
constexpr const GemmLoops* kPlainLoops = &kGemmLoopsUnfused;
constexpr const DirectConv* kPlainConv = &kDirectConvUnfused;
#else
constexpr bool kFuses = false;
constexpr const GemmLoops* kPlainLoops = &kGemmLoops;
constexpr const DirectConv* kPlainConv = &kDirectConv;
#endif

// In RINGLET_KERNELS, on any machine: the best set without fusing.
constexpr char kUnfused[] = "unfused";

// The best first. Blocks of C: the panels of both operands, kInnerBlock deep,
// fill at most three quarters of a second-level cache.
// name, runs, fuses, tile_rows, tile_cols, row_block, col_block, tile, loops,
// narrow_loops, conv, narrow_conv, planes, pairs, rows, pools, narrow_pools,
// exact
const KernelSet kSets[] = {
#if defined(__x86_64__)
    {"skx", HasAvx512, true, 12, 32, 240, 512, kSkxTile, &kGemmLoopsAvx512,
     &kGemmLoopsAvx2, &kDirectConvAvx512, &kDirectConvAvx2, PlanesForwardAvx512,
     PairedGradientAvx512, &kRowLoopsAvx512, &kPoolLoopsAvx512, &kPoolLoopsAvx2,
     &kExactLoopsAvx2},
    {"haswell", HasAvx2, true, 6, 16, 120, 256, kHaswellTile, &kGemmLoopsAvx2,
     &kGemmLoopsAvx2, &kDirectConvAvx2, &kDirectConvAvx2, nullptr, nullptr,
     &kRowLoopsAvx2, &kPoolLoopsAvx2, &kPoolLoopsAvx2, &kExactLoopsAvx2},
    {"generic", HasAvx2, true, 4, 16, 120, 256, nullptr, &kGemmLoopsAvx2,
     &kGemmLoopsAvx2, &kDirectConvAvx2, &kDirectConvAvx2, nullptr, nullptr,
     &kRowLoopsAvx2, &kPoolLoopsAvx2, &kPoolLoopsAvx2, &kExactLoopsAvx2},
    {"generic", HasNoAvx2, kFuses, 4, 8, 60, 128, nullptr, &kGemmLoops,
     &kGemmLoops, &kDirectConv, &kDirectConv, nullptr, nullptr, &kRowLoops,
     &kPoolLoops, &kPoolLoops, &kExactLoops},
    // The numbers of a CPU that cannot fuse, computed on one that can.
    {"sse2", HasAvx2, false, 4, 8, 60, 128, nullptr, kPlainLoops, kPlainLoops,
     kPlainConv, kPlainConv, nullptr, nullptr, &kRowLoops, &kPoolLoops,
     &kPoolLoops, &kExactLoops},
#else
#if defined(RINGLET_BLIS) && defined(__aarch64__)
    {"cortexa57", Always, true, 12, 8, 120, 256,
     Tile<bli_sgemm_armv8a_asm_8x12, 12, 8, true>, &kGemmLoops, &kGemmLoops,
     &kDirectConv, &kDirectConv, nullptr, nullptr, &kRowLoops, &kPoolLoops,
     &kPoolLoops, &kExactLoops},
#endif
    {"generic", Always, kFuses, 4, 8, 60, 128, nullptr, &kGemmLoops,
     &kGemmLoops, &kDirectConv, &kDirectConv, nullptr, nullptr, &kRowLoops,
     &kPoolLoops, &kPoolLoops, &kExactLoops},
#ifdef __FP_FAST_FMAF
    {kUnfused, Always, false, 4, 8, 60, 128, nullptr, kPlainLoops, kPlainLoops,
     kPlainConv, kPlainConv, nullptr, nullptr, &kRowLoops, &kPoolLoops,
     &kPoolLoops, &kExactLoops},
#endif
#endif
};

const KernelSet* chosen = nullptr;

const KernelSet* Find(const char* name) {
  const bool unfused = std::strcmp(name, kUnfused) == 0;
  for (const KernelSet& set : kSets) {
    const bool is = unfused ? !set.fuses : std::strcmp(set.name, name) == 0;
    if (set.runs() && is) return &set;
  }
  return nullptr;
}

const char* Wanted() {
  const char* const name = std::getenv("RINGLET_KERNELS");
  return name != nullptr && *name != '\0' ? name : nullptr;
}

const KernelSet* FirstChoice() {
  const KernelSet* set = Wanted() != nullptr ? Find(Wanted()) : nullptr;
  for (int i = 0; set == nullptr; ++i) {
    if (kSets[i].runs()) set = &kSets[i];
  }
  return set;
}

}  // namespace

const KernelSet& ChosenKernels() {
  static const KernelSet* const first = FirstChoice();
  return chosen != nullptr ? *chosen : *first;
}

const DirectConv& BestDirectConv(int64_t filters) {
  const KernelSet& set = ChosenKernels();
  return filters > set.narrow_conv->lanes ? *set.conv : *set.narrow_conv;
}

const RowLoops& BestRowLoops() { return *ChosenKernels().rows; }

const PoolLoops& BestPoolLoops(int64_t channels) {
  const KernelSet& set = ChosenKernels();
  return channels > 8 ? *set.pools : *set.narrow_pools;
}

const ExactLoops& BestExactLoops() { return *ChosenKernels().exact; }

PlanesForward BestPlanesForward(int64_t filters) {
  return filters <= kMaxPlanesFilters ? ChosenKernels().planes : nullptr;
}

PairedGradient BestPairedGradient(int64_t filters) {
  return filters <= kMaxPairedFilters ? ChosenKernels().pairs : nullptr;
}

bool UsesFusedMultiplyAdd() { return ChosenKernels().fuses; }

const char* ArithmeticClassName() {
  return UsesFusedMultiplyAdd() ? "fused multiply-adds"
                                : "no fused multiply-adds";
}

const char* ChosenKernelSetName() { return ChosenKernels().name; }

std::string KernelSetNamesOfCpu() {
  std::string names;
  for (const KernelSet& set : kSets) {
    if (set.runs())
      names += (names.empty() ? "" : ", ") + std::string(set.name);
  }
  return names;
}

Status ChooseKernelSet(const char* name) {
  const KernelSet* const set = Find(name);
  if (set == nullptr) {
    return InvalidArgument("no kernels \"%s\" for this CPU; there are: %s",
                           name, KernelSetNamesOfCpu().c_str());
  }
  chosen = set;
  return Status();
}

Status CheckKernelsVariable() {
  if (Wanted() == nullptr || Find(Wanted()) != nullptr) return Status();
  return InvalidArgument(
      "RINGLET_KERNELS is \"%s\"; kernels that this CPU can run: %s", Wanted(),
      KernelSetNamesOfCpu().c_str());
}

}  // namespace ringlet
