// One kernel set of BLIS in place of all of them, chosen when linking.
//
// Internal to core/, for gemm.cc alone. BLIS's table of kernel sets refers to
// three functions of each set the library was built with, and each drags in
// 0.65 to 0.9 MB. The functions below have the same names and forward to a set
// that is kept; the linker meets them before libblis.a, so the members that
// they replace stay out. It leans on the internals of BLIS 0.9: another
// version fails to compile or to link.
//
// Kernels for complex, mixed and small double products and for unpacking, which
// no product of ringlet's reaches, are left out too: with a few others 0.35 MB;
// calling one aborts.
//
//   RINGLET_BLIS_HASWELL  the kernels of haswell where the CPU has AVX2 and
//                         FMA, the generic ones where not (x86-64)
//   RINGLET_BLIS_GENERIC  the generic kernels alone

#ifndef RINGLET_CORE_BLIS_TRIM_H_
#define RINGLET_CORE_BLIS_TRIM_H_

#include <blis.h>

#include "check.h"

#if defined(RINGLET_BLIS_HASWELL) || defined(RINGLET_BLIS_GENERIC)

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

// Known to the assembler only, by the names of the kernels left out.
__attribute__((used)) void RingletKernelLeftOut() {
  RINGLET_CHECK(!"a BLIS kernel that this build leaves out");
}

}  // extern "C"

#define RINGLET_LEAVE_OUT(kernel) \
  asm(".globl bli_" kernel        \
      "_generic_ref\n"            \
      ".set bli_" kernel "_generic_ref, RingletKernelLeftOut");
#define RINGLET_LEAVE_OUT_PACKING(rows)      \
  RINGLET_LEAVE_OUT("cpackm_" rows "xk_1er") \
  RINGLET_LEAVE_OUT("zpackm_" rows "xk_1er") \
  RINGLET_LEAVE_OUT("sunpackm_" rows "xk")   \
  RINGLET_LEAVE_OUT("dunpackm_" rows "xk")   \
  RINGLET_LEAVE_OUT("cunpackm_" rows "xk")   \
  RINGLET_LEAVE_OUT("zunpackm_" rows "xk")

RINGLET_LEAVE_OUT_PACKING("2")
RINGLET_LEAVE_OUT_PACKING("4")
RINGLET_LEAVE_OUT_PACKING("6")
RINGLET_LEAVE_OUT_PACKING("8")
RINGLET_LEAVE_OUT_PACKING("10")
RINGLET_LEAVE_OUT_PACKING("12")
RINGLET_LEAVE_OUT_PACKING("14")
RINGLET_LEAVE_OUT_PACKING("16")
RINGLET_LEAVE_OUT("ctrsm1m_l")
RINGLET_LEAVE_OUT("ctrsm1m_u")
RINGLET_LEAVE_OUT("ztrsm1m_l")
RINGLET_LEAVE_OUT("ztrsm1m_u")

// Products of mixed types.
#define RINGLET_LEAVE_OUT_MIXED(types) \
  asm(".globl bli_" types              \
      "packm_struc_cxk_md\n"           \
      ".set bli_" types "packm_struc_cxk_md, RingletKernelLeftOut");
#define RINGLET_LEAVE_OUT_MIXED_FROM(type) \
  RINGLET_LEAVE_OUT_MIXED(type "s")        \
  RINGLET_LEAVE_OUT_MIXED(type "d")        \
  RINGLET_LEAVE_OUT_MIXED(type "c")        \
  RINGLET_LEAVE_OUT_MIXED(type "z")
RINGLET_LEAVE_OUT_MIXED_FROM("s")
RINGLET_LEAVE_OUT_MIXED_FROM("d")
RINGLET_LEAVE_OUT_MIXED_FROM("c")
RINGLET_LEAVE_OUT_MIXED_FROM("z")
#undef RINGLET_LEAVE_OUT_MIXED_FROM
#undef RINGLET_LEAVE_OUT_MIXED

#ifdef RINGLET_BLIS_HASWELL  // small products of doubles
#define RINGLET_LEAVE_OUT_SMALL(kernel) \
  asm(".globl bli_dgemmsup_" kernel     \
      "\n"                              \
      ".set bli_dgemmsup_" kernel ", RingletKernelLeftOut");
RINGLET_LEAVE_OUT_SMALL("rd_haswell_asm_6x8m")
RINGLET_LEAVE_OUT_SMALL("rd_haswell_asm_6x8n")
RINGLET_LEAVE_OUT_SMALL("rv_haswell_asm_6x8m")
RINGLET_LEAVE_OUT_SMALL("rv_haswell_asm_6x8n")
#undef RINGLET_LEAVE_OUT_SMALL
#endif

#undef RINGLET_LEAVE_OUT_PACKING
#undef RINGLET_LEAVE_OUT

#undef RINGLET_FORWARD
#undef RINGLET_GENERIC_REFERENCE

#endif

#endif  // RINGLET_CORE_BLIS_TRIM_H_
