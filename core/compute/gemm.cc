// Products are computed in blocks of C, which stay in the cache while the terms
// are processed in steps of kInnerBlock. In each step a block of A and a block
// of B are copied into panels, which the kernels (gemm_kernels.h) multiply tile
// by tile. No choice here (blocks, which operand is A, whether to copy at all)
// changes the chain of an element.

#include "gemm.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>

#include "../base/check.h"
#include "../base/poison.h"
#include "gemm_kernels.h"

namespace ringlet {
namespace {

// Checks the views for AddressSanitizer, which does not see all kernels.
template <typename T>
bool IsTouchable(const MatrixView<T>& m) {
  if (!kPoisons || m.rows == 0 || m.cols == 0 || m.data == nullptr) return true;
  const int64_t last =
      (m.rows - 1) * m.row_stride + (m.cols - 1) * m.col_stride;
  return !IsPoisoned(m.data, static_cast<size_t>(last + 1) * sizeof(T));
}

template <typename T>
Status CheckView(const char* name, const MatrixView<T>& m) {
  if (m.rows < 0 || m.cols < 0) {
    return InvalidArgument("Gemm: %s has a negative size", name);
  }
  if (m.row_stride <= 0 || m.col_stride <= 0) {
    return InvalidArgument("Gemm: strides of %s must be positive", name);
  }
  const bool rows_apart = m.rows <= 1 || m.cols <= 1 ||
                          m.row_stride >= m.cols * m.col_stride ||
                          m.col_stride >= m.rows * m.row_stride;
  if (!rows_apart) {
    return InvalidArgument("Gemm: elements of %s overlap", name);
  }
  return Status();
}

constexpr int64_t kFewCols = 8;
constexpr int64_t kMaxTile = 12 * 32;
constexpr int64_t kMaxRows = 240, kMaxCols = 512;
constexpr int64_t kPanelFloats = (kMaxRows + kMaxCols) * kInnerBlock;
constexpr double kSmallestParallelProduct = 1 << 17;  // multiply-adds

// A thread's panels, until the thread ends. Only the parts that products have
// used take memory. Null if the system has no memory; products then work
// without panels. (So there is no thread_local object: without memory for one,
// glibc ends the program.)
float* Panels() {
  constexpr size_t kBytes = kPanelFloats * sizeof(float);
  static pthread_key_t key;
  static const bool has_key =
      pthread_key_create(&key, [](void* p) { munmap(p, kBytes); }) == 0;
  if (!has_key) return nullptr;
  void* p = pthread_getspecific(key);
  if (p != nullptr) return static_cast<float*>(p);
  p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
           -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (pthread_setspecific(key, p) != 0) {
    munmap(p, kBytes);
    return nullptr;
  }
  return static_cast<float*>(p);
}

// Prefetches memory a few lines at a time: `segments` of `floats`, `stride`
// apart.
class Prefetcher {
 public:
  Prefetcher() = default;
  Prefetcher(const float* at, int64_t segments, int64_t stride, int64_t floats)
      : at_(at), segments_(segments), stride_(stride), floats_(floats) {}
  int64_t lines() const { return segments_ * (floats_ / kLine + 1); }
  void Prefetch(int64_t lines) {
    for (; lines > 0 && segments_ > 0; --lines) {
      __builtin_prefetch(at_ + next_, 0, 2);
      next_ += kLine;
      if (next_ < floats_) continue;
      next_ = 0;
      at_ += stride_;
      --segments_;
    }
  }

 private:
  static constexpr int64_t kLine = 16;
  const float* at_ = nullptr;
  int64_t segments_ = 0, stride_ = 0, floats_ = 0, next_ = 0;
};

// Rows of A, or columns of B, as panels.
struct Operand {
  ConstMatrix m;  // a row for each term

  void Pack(const GemmLoops& loops, Range inner, Range outer, int64_t width,
            float* to) const {
    for (int64_t i = outer.begin; i < outer.end;
         i += width, to += width * inner.size()) {
      const int64_t count = std::min(width, outer.end - i);
      if (count < width) std::fill_n(to, width * inner.size(), 0.0f);
      PackPanel(loops, inner, {i, i + count}, width, to);
    }
  }

  // Prefetches the memory that Pack will read.
  Prefetcher PrefetcherOf(Range inner, Range outer) const {
    if (inner.empty() || outer.empty()) return {};
    const float* const from =
        m.data + inner.begin * m.row_stride + outer.begin * m.col_stride;
    if (m.col_stride == 1) {
      return {from, inner.size(), m.row_stride, outer.size()};
    }
    if (m.row_stride == 1) {
      return {from, outer.size(), m.col_stride, inner.size()};
    }
    return {};
  }

 private:
  void PackPanel(const GemmLoops& loops, Range inner, Range outer,
                 int64_t width, float* to) const {
    const float* from =
        m.data + inner.begin * m.row_stride + outer.begin * m.col_stride;
    const int64_t ahead = 2 * width * m.col_stride;  // the panel after the next
    if (m.col_stride == 1) {
      return loops.copy(from, m.row_stride, inner.size(), outer.size(), width,
                        ahead, to);
    }
    if (m.row_stride == 1) {
      return loops.transpose(from, m.col_stride, inner.size(), outer.size(),
                             width, ahead, to);
    }
    for (int64_t k = 0; k < inner.size(); ++k) {
      for (int64_t i = 0; i < outer.size(); ++i) {
        to[k * width + i] = from[k * m.row_stride + i * m.col_stride];
      }
    }
  }
};

// Computes one thread's part of a product.
class Multiplier {
 public:
  Multiplier(const Product& p, const KernelSet& set)
      : p_(p),
        set_(set),
        loops_(p.c.cols <= kFewCols ? *set.narrow_loops : *set.loops),
        rows_(set.tile_rows),
        cols_(set.tile_cols),
        a_{p.a.Transposed()},
        b_{p.b} {}

  void Run() {
    if (IsNarrow()) return MultiplyByRows();
    float* const space = Panels();
    if (space == nullptr) return MultiplyByTiles();
    b_panels_ = space;
    a_panels_ = space + kMaxCols * kInnerBlock;
    InBlocks(set_.row_block, set_.col_block);
  }

 private:
  // Works without memory from the system, in tiles of 4x4 on the stack.
  __attribute__((noinline)) void MultiplyByTiles() {
    alignas(64) float space[2][4 * kInnerBlock];
    rows_ = cols_ = 4;
    b_panels_ = space[0];
    a_panels_ = space[1];
    InBlocks(rows_, cols_);
    a_panels_ = b_panels_ = nullptr;
  }

  void InBlocks(int64_t row_block, int64_t col_block) {
    for (int64_t j = 0; j < p_.c.cols; j += col_block) {
      for (int64_t i = 0; i < p_.c.rows; i += row_block) {
        MultiplyBlock({i, std::min(i + row_block, p_.c.rows)},
                      {j, std::min(j + col_block, p_.c.cols)});
      }
    }
  }

  // True if the product is too small for packed copies. With at most 8 rows of
  // C the copy of B would be used too rarely. With at most 32 columns, or 64 if
  // the columns of A are neighbours, the copy of A would be used too rarely. A
  // block of B then fits the first-level cache. With at most 8 terms, both.
  bool IsNarrow() const {
    if (p_.b.col_stride != 1 || p_.c.col_stride != 1) return false;
    const int64_t most_cols = p_.a.col_stride == 1 ? 64 : 32;
    return p_.c.rows <= 8 || p_.a.cols <= 8 || p_.c.cols <= most_cols;
  }

  // Computes these rows and columns of C.
  void MultiplyBlock(Range rows, Range cols) {
    int64_t k = 0;
    do {
      const Range inner = {k, std::min(k + kInnerBlock, p_.a.cols)};
      if (!inner.empty()) {
        b_.Pack(loops_, inner, cols, cols_, b_panels_);
        a_.Pack(loops_, inner, rows, rows_, a_panels_);
      }
      PrefetchNext(inner, rows, cols);
      Tiles(inner, rows, cols);
      k += kInnerBlock;
    } while (k < p_.a.cols);
  }

  // Prefetches the next call's input while this call's tiles are computed.
  void PrefetchNext(Range inner, Range rows, Range cols) {
    const Range next = {inner.end,
                        std::min(inner.end + kInnerBlock, p_.a.cols)};
    const Range first = {0, std::min(kInnerBlock, p_.a.cols)};
    if (!next.empty()) {
      a_prefetcher_ = a_.PrefetcherOf(next, rows);
      b_prefetcher_ = b_.PrefetcherOf(next, cols);
    } else {
      const Range below = {rows.end,
                           std::min(rows.end + rows.size(), p_.c.rows)};
      const Range right = {cols.end,
                           std::min(cols.end + cols.size(), p_.c.cols)};
      a_prefetcher_ = a_.PrefetcherOf(first, below);
      b_prefetcher_ =
          below.empty() ? b_.PrefetcherOf(first, right) : Prefetcher();
    }
    const int64_t tiles = ((rows.size() + rows_ - 1) / rows_) *
                          ((cols.size() + cols_ - 1) / cols_);
    a_step_ = (a_prefetcher_.lines() + tiles - 1) / tiles;
    b_step_ = (b_prefetcher_.lines() + tiles - 1) / tiles;
  }

  void Tiles(Range inner, Range rows, Range cols) {
    const float* b = b_panels_;
    for (int64_t j = cols.begin; j < cols.end;
         j += cols_, b += cols_ * inner.size()) {
      const int64_t n = std::min(cols_, cols.end - j);
      const float* a = a_panels_;
      for (int64_t i = rows.begin; i < rows.end;
           i += rows_, a += rows_ * inner.size()) {
        const int64_t m = std::min(rows_, rows.end - i);
        a_prefetcher_.Prefetch(a_step_);
        b_prefetcher_.Prefetch(b_step_);
        Tile(inner, a, b, {i, i + m}, {j, j + n});
      }
    }
  }

  void Tile(Range inner, const float* a, const float* b, Range rows,
            Range cols) {
    const bool add = p_.add || inner.begin > 0;
    const int64_t k = inner.size(), m = rows.size(), n = cols.size();
    float* const c =
        p_.c.data + rows.begin * p_.c.row_stride + cols.begin * p_.c.col_stride;
    if (p_.c.col_stride != 1) {
      alignas(64) float tile[kMaxTile];
      loops_.rows(m, n, k, a, 1, rows_, b, cols_, /*add=*/false, tile, n);
      Scatter(tile, m, n, add, c);
    } else if (m == set_.tile_rows && n == set_.tile_cols && k > 0 &&
               set_.tile != nullptr) {
      set_.tile(k, a, b, add, c, p_.c.row_stride, b + k * cols_);
    } else {
      loops_.rows(m, n, k, a, 1, rows_, b, cols_, add, c, p_.c.row_stride);
    }
    if (inner.end == p_.a.cols) Finish(rows, cols);
  }

  void Scatter(const float* tile, int64_t m, int64_t n, bool add,
               float* c) const {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        float* const to = c + i * p_.c.row_stride + j * p_.c.col_stride;
        *to = add ? *to + tile[i * n + j] : tile[i * n + j];
      }
    }
  }

  void Finish(Range rows, Range cols) const {
    if (p_.bias == nullptr && !p_.relu) return;
    RINGLET_CHECK(p_.c.col_stride == 1);
    loops_.finish(rows.size(), cols.size(),
                  p_.bias != nullptr ? p_.bias + cols.begin : nullptr, p_.relu,
                  p_.c.data + rows.begin * p_.c.row_stride + cols.begin,
                  p_.c.row_stride);
  }

  // Multiplies from A and B directly.
  void MultiplyByRows() {
    for (int64_t i = 0; i < p_.c.rows; i += set_.row_block) {
      const Range rows = {i, std::min(i + set_.row_block, p_.c.rows)};
      float* const c = p_.c.data + i * p_.c.row_stride;
      int64_t k = 0;
      do {
        loops_.rows(
            rows.size(), p_.c.cols, std::min(kInnerBlock, p_.a.cols - k),
            p_.a.data + i * p_.a.row_stride + k * p_.a.col_stride,
            p_.a.row_stride, p_.a.col_stride, p_.b.data + k * p_.b.row_stride,
            p_.b.row_stride, p_.add || k > 0, c, p_.c.row_stride);
        k += kInnerBlock;
      } while (k < p_.a.cols);
      Finish(rows, {0, p_.c.cols});
    }
  }

  const Product& p_;
  const KernelSet& set_;
  const GemmLoops& loops_;
  int64_t rows_, cols_;  // the rows and columns of a tile
  const Operand a_, b_;
  Prefetcher a_prefetcher_, b_prefetcher_;
  int64_t a_step_ = 0, b_step_ = 0;  // lines for each tile
  float* a_panels_ = nullptr;
  float* b_panels_ = nullptr;
};

void MultiplyPart(const Product& product, Range rows, Range cols) {
  Product part = product;
  part.a = product.a.Rows(rows.begin, rows.end);
  part.b = product.b.Cols(cols.begin, cols.end);
  part.c = product.c.Rows(rows.begin, rows.end).Cols(cols.begin, cols.end);
  if (product.bias != nullptr) part.bias = product.bias + cols.begin;
  Multiplier(part, ChosenKernels()).Run();
}

// The cost of one term: multiply-adds, and copies of both operands. The thread
// has 1 / parts of the n side, in whole tiles, and all of the m side.
int64_t PartCost(int64_t n, int64_t tile, int parts, int64_t m) {
  const int64_t own_size = Split(n, parts, parts - 1, tile).size();
  return own_size * m / 16 + own_size + m;
}

// An equal product with C stored by rows, if `p` has C stored by columns and
// neither bias nor ReLU. Otherwise `p`.
Product TransposedIfColumnMajor(const Product& p) {
  const bool across = p.c.col_stride != 1 && p.c.row_stride == 1 &&
                      p.bias == nullptr && !p.relu;
  if (!across) return p;
  Product q = p;
  q.a = p.b.Transposed();
  q.b = p.a.Transposed();
  q.c = p.c.Transposed();
  return q;
}

}  // namespace

Status CheckGemm(ConstMatrix a, ConstMatrix b, Matrix c) {
  RINGLET_RETURN_IF_ERROR(CheckView("A", a));
  RINGLET_RETURN_IF_ERROR(CheckView("B", b));
  RINGLET_RETURN_IF_ERROR(CheckView("C", c));
  if (a.rows != c.rows || b.cols != c.cols || a.cols != b.rows) {
    return InvalidArgument(
        "Gemm: A(%lld,%lld) * B(%lld,%lld) does not give C(%lld,%lld)",
        static_cast<long long>(a.rows), static_cast<long long>(a.cols),
        static_cast<long long>(b.rows), static_cast<long long>(b.cols),
        static_cast<long long>(c.rows), static_cast<long long>(c.cols));
  }
  return Status();
}

void Multiply(const Product& product, ThreadPool* pool) {
  const Product p = TransposedIfColumnMajor(product);
  RINGLET_CHECK(CheckGemm(p.a, p.b, p.c).ok());
  RINGLET_CHECK(IsTouchable(p.a) && IsTouchable(p.b) && IsTouchable(p.c));
  if (p.c.rows == 0 || p.c.cols == 0) return;
  const Range all_rows = {0, p.c.rows}, all_cols = {0, p.c.cols};
  const double products = 1.0 * p.c.rows * p.c.cols * p.a.cols;
  if (pool == nullptr || pool->threads() == 1 ||
      products < kSmallestParallelProduct) {
    return MultiplyPart(p, all_rows, all_cols);
  }
  const KernelSet& set = ChosenKernels();
  const int parts = pool->threads();
  const bool by_rows = PartCost(p.c.rows, set.tile_rows, parts, p.c.cols) <=
                       PartCost(p.c.cols, set.tile_cols, parts, p.c.rows);
  pool->Run([&](int t) {
    const Range rows =
        by_rows ? Split(p.c.rows, parts, t, set.tile_rows) : all_rows;
    const Range cols =
        by_rows ? all_cols : Split(p.c.cols, parts, t, set.tile_cols);
    if (!rows.empty() && !cols.empty()) MultiplyPart(p, rows, cols);
  });
}

}  // namespace ringlet
