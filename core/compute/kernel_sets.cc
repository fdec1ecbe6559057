// The sets of kernels in this build, and the choice between them. Only this
// file uses BLIS. It takes a micro-kernel for each set, by name, and nothing
// else. gemm.cc has the packing, the blocks and the threads.

#include <cstdlib>
#include <cstring>

#include "direct_conv.h"
#include "exact_loops.h"
#include "function_loops.h"
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
#else
bool Always() { return true; }
#endif

#if defined(RINGLET_BLIS) && (defined(__x86_64__) || defined(__aarch64__))
// A micro-kernel of BLIS for tiles of kRows rows. If the kernel works by
// columns (kAcross), it computes a tile of C^T = B^T * A^T.
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
constexpr Kernel kHaswellTile = Tile<bli_sgemm_haswell_asm_6x16, 6, 16, false>;
#else
constexpr Kernel kHaswellTile = nullptr;
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

// The name in RINGLET_KERNELS, on any machine, of the best set without fusing.
constexpr char kUnfused[] = "unfused";

// In each set a block of C has panels of both operands, kInnerBlock deep, that
// fill at most three quarters of a second-level cache.

// Returns the loops for any CPU.
constexpr KernelSet AnyCpu(bool (*runs)()) {
  KernelSet set = {};
  set.name = "generic";
  set.runs = runs;
  set.fuses = kFuses;
  set.tile_rows = 4;
  set.tile_cols = 8;
  set.row_block = 60;
  set.col_block = 128;
  set.loops = set.narrow_loops = &kGemmLoops;
  set.conv = set.narrow_conv = &kDirectConv;
  set.rows = &kRowLoops;
  set.pools = set.narrow_pools = &kPoolLoops;
  set.exact = &kExactLoops;
  set.functions = &kFunctionLoops;
  return set;
}

#if defined(__x86_64__) || defined(__FP_FAST_FMAF)
// Returns the same loops without fusing.
constexpr KernelSet Unfused(const char* name, bool (*runs)()) {
  KernelSet set = AnyCpu(runs);
  set.name = name;
  set.fuses = false;
  set.loops = set.narrow_loops = kPlainLoops;
  set.conv = set.narrow_conv = kPlainConv;
  return set;
}
#endif

#if defined(__x86_64__)
constexpr KernelSet GenericAvx2() {
  KernelSet set = {};
  set.name = "generic";
  set.runs = HasAvx2;
  set.fuses = true;
  set.tile_rows = 4;
  set.tile_cols = 16;
  set.row_block = 120;
  set.col_block = 256;
  set.loops = set.narrow_loops = &kGemmLoopsAvx2;
  set.conv = set.narrow_conv = &kDirectConvAvx2;
  set.rows = &kRowLoopsAvx2;
  set.pools = set.narrow_pools = &kPoolLoopsAvx2;
  set.exact = &kExactLoopsAvx2;
  set.functions = &kFunctionLoopsAvx2;
  return set;
}

constexpr KernelSet Haswell() {
  KernelSet set = GenericAvx2();
  set.name = "haswell";
  set.tile_rows = 6;
  set.tile = kHaswellTile;
  return set;
}

#ifdef RINGLET_AVX512_KERNELS
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

#if defined(RINGLET_BLIS)
constexpr Kernel kSkxTile = Tile<bli_sgemm_skx_asm_32x12_l2, 12, 32, true>;
#else
constexpr Kernel kSkxTile = nullptr;
#endif

constexpr KernelSet Skx() {
  KernelSet set = GenericAvx2();
  set.name = "skx";
  set.runs = HasAvx512;
  set.tile_rows = 12;
  set.tile_cols = 32;
  set.row_block = 240;
  set.col_block = 512;
  set.tile = kSkxTile;
  set.loops = &kGemmLoopsAvx512;
  set.conv = &kDirectConvAvx512;
  set.planes = PlanesForwardAvx512;
  set.pairs = PairedGradientAvx512;
  set.rows = &kRowLoopsAvx512;
  set.pools = &kPoolLoopsAvx512;
  set.functions = &kFunctionLoopsAvx512;
  return set;
}
#endif
#elif defined(RINGLET_BLIS) && defined(__aarch64__)
constexpr KernelSet CortexA57() {
  KernelSet set = AnyCpu(Always);
  set.name = "cortexa57";
  set.fuses = true;
  set.tile_rows = 12;
  set.row_block = 120;
  set.col_block = 256;
  set.tile = Tile<bli_sgemm_armv8a_asm_8x12, 12, 8, true>;
  return set;
}
#endif

// The best first.
constexpr KernelSet kSets[] = {
#if defined(__x86_64__)
#ifdef RINGLET_AVX512_KERNELS
    Skx(),
#endif
    Haswell(),
    GenericAvx2(),
    AnyCpu(HasNoAvx2),
    // On a CPU with fused multiply-adds, gives the numbers of a CPU without
    // them.
    Unfused("sse2", HasAvx2),
#else
#if defined(RINGLET_BLIS) && defined(__aarch64__)
    CortexA57(),
#endif
    AnyCpu(Always),
#ifdef __FP_FAST_FMAF
    Unfused(kUnfused, Always),
#endif
#endif
};

const KernelSet* chosen = nullptr;

const KernelSet* FindKernelSet(const char* name) {
  const bool unfused = std::strcmp(name, kUnfused) == 0;
  for (const KernelSet& set : kSets) {
    const bool matches =
        unfused ? !set.fuses : std::strcmp(set.name, name) == 0;
    if (set.runs() && matches) return &set;
  }
  return nullptr;
}

const char* RequestedSetName() {
  const char* const name = std::getenv("RINGLET_KERNELS");
  return name != nullptr && *name != '\0' ? name : nullptr;
}

const KernelSet* FirstChoice() {
  const KernelSet* set = RequestedSetName() != nullptr
                             ? FindKernelSet(RequestedSetName())
                             : nullptr;
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

const FunctionLoops& BestFunctionLoops() { return *ChosenKernels().functions; }

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
  const KernelSet* const set = FindKernelSet(name);
  if (set == nullptr) {
    return InvalidArgument("no kernels \"%s\" for this CPU; there are: %s",
                           name, KernelSetNamesOfCpu().c_str());
  }
  chosen = set;
  return Status();
}

Status CheckKernelsVariable() {
  if (RequestedSetName() == nullptr ||
      FindKernelSet(RequestedSetName()) != nullptr)
    return Status();
  return InvalidArgument(
      "RINGLET_KERNELS is \"%s\"; kernels that this CPU can run: %s",
      RequestedSetName(), KernelSetNamesOfCpu().c_str());
}

}  // namespace ringlet
