// Times small parts by Google Benchmark: kernels beside their reference
// implementations.
//
//   micro_bench --benchmark_filter=Gemm

#include <benchmark/benchmark.h>

#include <vector>

#include "../../support/naive_gemm.h"
#include "core/base/crc32c.h"
#include "core/compute/gemm.h"
#include "core/data/permutation.h"
#include "ringlet/compute.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

// M, K, N: a square; the tutorials' dense forward and weight gradient; its
// convolution.
void Shapes(benchmark::internal::Benchmark* b) {
  b->Args({512, 512, 512})->Args({64, 21632, 128})->Args({21632, 64, 128});
  b->Args({43264, 9, 32});
}

void BM_Gemm(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f);
  std::vector<float> c(m * n);
  for (auto _ : state) {
    Gemm(RowMajor(a.data(), m, k), RowMajor(b.data(), k, n), /*add=*/false,
         RowMajor(c.data(), m, n));
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(m * k * n),
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Gemm)->Apply(Shapes);

void BM_NaiveGemm(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f);
  std::vector<float> c(m * n);
  for (auto _ : state) {
    NaiveGemm(RowMajor(a.data(), m, k), RowMajor(b.data(), k, n), /*add=*/false,
              RowMajor(c.data(), m, n));
  }
}
BENCHMARK(BM_NaiveGemm)->Args({128, 128, 128});

void BM_Crc32c(benchmark::State& state) {
  const std::vector<char> bytes(1 << 20, 7);
  for (auto _ : state) {
    benchmark::DoNotOptimize(state.range(0) != 0
                                 ? Crc32c(bytes.data(), bytes.size())
                                 : PortableCrc32c(bytes.data(), bytes.size()));
  }
  state.SetBytesProcessed(state.iterations() << 20);
}
BENCHMARK(BM_Crc32c)->Arg(1)->Arg(0);

void BM_Permute(benchmark::State& state) {
  int64_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(Permute(1, 0, 60000, i++ % 60000));
  }
}
BENCHMARK(BM_Permute);

void BM_Philox(benchmark::State& state) {
  const Philox random(1, 2);
  uint64_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(random.At(i++));
}
BENCHMARK(BM_Philox);

}  // namespace
}  // namespace ringlet

BENCHMARK_MAIN();
