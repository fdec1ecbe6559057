// One kernel set of BLIS in place of all of them, chosen when linking.
//
// Internal to core/, for gemm.cc alone. BLIS's table of kernel sets refers to
// three functions of each set the library was built with, and each drags in
// 0.65 to 0.9 MB: a static program has 11.7 MB, where 3.0 are the limit
// (STATIC_LIMIT of the Makefile). The functions below have the same names and
// forward to a set that is kept; the linker meets them before libblis.a, so the
// members that they replace stay out. It leans on the internals of BLIS 0.9:
// another version fails to compile or to link.
//
// What no product of ringlet's reaches is left out too (blis_left_out.h).
//
//   RINGLET_BLIS_HASWELL    the kernels of haswell where the CPU has AVX2 and
//                           FMA, the generic ones where not (x86-64)
//   RINGLET_BLIS_CORTEXA57  those of cortexa57 (arm64)
//   RINGLET_BLIS_GENERIC    the generic kernels alone

#ifndef RINGLET_CORE_COMPUTE_BLIS_TRIM_H_
#define RINGLET_CORE_COMPUTE_BLIS_TRIM_H_

#include <blis.h>

#if defined(RINGLET_BLIS_HASWELL) || defined(RINGLET_BLIS_CORTEXA57) || \
    defined(RINGLET_BLIS_GENERIC)

// How the names of the kernels end that a set takes where it has none.
#ifdef RINGLET_BLIS_CORTEXA57
#define RINGLET_BLIS_REFERENCE "_cortexa57_ref"
#else
#define RINGLET_BLIS_REFERENCE "_generic_ref"
#endif

#include "blis_left_out.h"

#ifndef RINGLET_BLIS_CORTEXA57  // the one set of its library

// The part of a set below its own kernels: the generic set's.
#define RINGLET_GENERIC_REFERENCE(set)                            \
  void bli_cntx_init_##set##_ref(cntx_t* context) {               \
    bli_cntx_init_generic_ref(context);                           \
  }                                                               \
  void bli_cntx_init_##set##_ind(ind_t method, cntx_t* context) { \
    bli_cntx_init_generic_ind(method, context);                   \
  }
#define RINGLET_FORWARD(set)                                       \
  void bli_cntx_init_##set(cntx_t* context) { InitKept(context); } \
  RINGLET_GENERIC_REFERENCE(set)

namespace {

inline void InitKept(cntx_t* context) {
#ifdef RINGLET_BLIS_HASWELL
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return bli_cntx_init_haswell(context);
  }
#endif
  bli_cntx_init_generic(context);
}

}  // namespace

extern "C" {

#ifdef BLIS_CONFIG_SKX
RINGLET_FORWARD(skx)
#endif
#ifdef BLIS_CONFIG_KNL
RINGLET_FORWARD(knl)
#endif
#ifdef BLIS_CONFIG_HASWELL
#ifdef RINGLET_BLIS_HASWELL
RINGLET_GENERIC_REFERENCE(haswell)
#else
RINGLET_FORWARD(haswell)
#endif
#endif
#ifdef BLIS_CONFIG_SANDYBRIDGE
RINGLET_FORWARD(sandybridge)
#endif
#ifdef BLIS_CONFIG_PENRYN
RINGLET_FORWARD(penryn)
#endif
#ifdef BLIS_CONFIG_ZEN
RINGLET_FORWARD(zen)
#endif
#ifdef BLIS_CONFIG_ZEN2
RINGLET_FORWARD(zen2)
#endif
#ifdef BLIS_CONFIG_ZEN3
RINGLET_FORWARD(zen3)
#endif
#ifdef BLIS_CONFIG_EXCAVATOR
RINGLET_FORWARD(excavator)
#endif
#ifdef BLIS_CONFIG_STEAMROLLER
RINGLET_FORWARD(steamroller)
#endif
#ifdef BLIS_CONFIG_PILEDRIVER
RINGLET_FORWARD(piledriver)
#endif
#ifdef BLIS_CONFIG_BULLDOZER
RINGLET_FORWARD(bulldozer)
#endif

}  // extern "C"

#undef RINGLET_FORWARD
#undef RINGLET_GENERIC_REFERENCE

#endif  // RINGLET_BLIS_CORTEXA57

namespace {

// BLIS's packing of floats, without its members that pack every type. kRows
// rows of A, or what is left of it, as a panel: its columns one after the
// other, filled up with zeros. To the bit as BLIS's.
template <int kRows>
void PackPanel(conj_t, pack_t, dim_t rows, dim_t cols, dim_t panel_cols,
               float* kappa, float* a, inc_t rs_a, inc_t cs_a, float* p,
               inc_t ld_p, cntx_t*) {
  for (dim_t j = 0; j < cols; ++j, a += cs_a, p += ld_p) {
    if (rows == kRows) {
      for (int i = 0; i < kRows; ++i) p[i] = *kappa * a[i * rs_a];
    } else {
      for (dim_t i = 0; i < rows; ++i) p[i] = *kappa * a[i * rs_a];
      for (dim_t i = rows; i < kRows; ++i) p[i] = 0;
    }
  }
  for (dim_t j = cols; j < panel_cols; ++j, p += ld_p) {
    for (int i = 0; i < kRows; ++i) p[i] = 0;
  }
}

}  // namespace

extern "C" {

#ifdef RINGLET_BLIS_CORTEXA57
#define RINGLET_PACK(rows) bli_spackm_##rows##xk_cortexa57_ref
#else
#define RINGLET_PACK(rows) bli_spackm_##rows##xk_generic_ref
#endif
#define RINGLET_DEFINE_PACK(rows)                                         \
  void RINGLET_PACK(rows)(conj_t conj, pack_t schema, dim_t panel_rows,   \
                          dim_t cols, dim_t panel_cols, float* kappa,     \
                          float* a, inc_t rs_a, inc_t cs_a, float* p,     \
                          inc_t ld_p, cntx_t* context) {                  \
    PackPanel<rows>(conj, schema, panel_rows, cols, panel_cols, kappa, a, \
                    rs_a, cs_a, p, ld_p, context);                        \
  }
RINGLET_DEFINE_PACK(4)
RINGLET_DEFINE_PACK(8)
RINGLET_DEFINE_PACK(12)
RINGLET_DEFINE_PACK(16)
#undef RINGLET_DEFINE_PACK
#undef RINGLET_PACK

}  // extern "C"

#undef RINGLET_BLIS_REFERENCE

#endif

#endif  // RINGLET_CORE_COMPUTE_BLIS_TRIM_H_
