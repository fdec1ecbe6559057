// The kernels and operations of BLIS that no product of ringlet's reaches.
//
// Internal to core/, for blis_trim.h alone. Each name below is a function that
// a table of BLIS's, or a function that does several things, refers to: given
// here, linked before libblis.a, the member that holds it stays out. Calling
// one aborts. 0.75 MB in all; tools/size.py shows what is left.
//
// A name too many costs nothing. One too few costs its member, and one that is
// reached after all shows in gemm_test, which a trimmed build runs with every
// layout, edge and scalar on each kernel set.

#ifndef RINGLET_CORE_COMPUTE_BLIS_LEFT_OUT_H_
#define RINGLET_CORE_COMPUTE_BLIS_LEFT_OUT_H_

#include "../base/check.h"

// Known to the assembler only, by the names below.
extern "C" __attribute__((used)) void RingletLeftOutOfBlis() {
  RINGLET_CHECK(!"a function of BLIS that this build leaves out");
}

#ifdef __thumb__
#define RINGLET_ALIAS ".thumb_set "
#else
#define RINGLET_ALIAS ".set "
#endif
#define LEAVE_OUT(name)                                 \
  asm(".globl bli_" name "\n" RINGLET_ALIAS "bli_" name \
      ", RingletLeftOutOfBlis");
#define LEAVE_OUT_DCZ(name) \
  LEAVE_OUT("d" name)       \
  LEAVE_OUT("c" name)       \
  LEAVE_OUT("z" name)
#define LEAVE_OUT_SDCZ(name) \
  LEAVE_OUT("s" name)        \
  LEAVE_OUT_DCZ(name)
#define LEAVE_OUT_CZ(name) \
  LEAVE_OUT("c" name)      \
  LEAVE_OUT("z" name)
#define LEAVE_OUT_PAIRS(name) \
  LEAVE_OUT_SDCZ("s" name)    \
  LEAVE_OUT_SDCZ("d" name)    \
  LEAVE_OUT_SDCZ("c" name)    \
  LEAVE_OUT_SDCZ("z" name)

// Kernels of the reference set.
#define LEAVE_OUT_VECTOR(op) LEAVE_OUT_SDCZ(op RINGLET_BLIS_REFERENCE)
LEAVE_OUT_VECTOR("axpbyv")
LEAVE_OUT_VECTOR("axpy2v")
LEAVE_OUT_VECTOR("axpyf")
LEAVE_OUT_VECTOR("dotaxpyv")
LEAVE_OUT_VECTOR("dotv")
LEAVE_OUT_VECTOR("dotxaxpyf")
LEAVE_OUT_VECTOR("dotxf")
LEAVE_OUT_VECTOR("dotxv")
LEAVE_OUT_VECTOR("trsm_l")
LEAVE_OUT_VECTOR("trsm_u")
LEAVE_OUT_VECTOR("gemmtrsm_l")
LEAVE_OUT_VECTOR("gemmtrsm_u")
LEAVE_OUT_VECTOR("gemmsup_r")
LEAVE_OUT_VECTOR("gemmsup_c")
LEAVE_OUT_VECTOR("gemmsup_g")
#undef LEAVE_OUT_VECTOR

#define LEAVE_OUT_COMPLEX(op) LEAVE_OUT_CZ(op RINGLET_BLIS_REFERENCE)
LEAVE_OUT_COMPLEX("gemm1m")
LEAVE_OUT_COMPLEX("gemmtrsm1m_l")
LEAVE_OUT_COMPLEX("gemmtrsm1m_u")
LEAVE_OUT_COMPLEX("trsm1m_l")
LEAVE_OUT_COMPLEX("trsm1m_u")
#undef LEAVE_OUT_COMPLEX

// Packing; blis_trim.h has that of floats in panels of 4, 8, 12 and 16.
#define LEAVE_OUT_PACKING(rows)                               \
  LEAVE_OUT_DCZ("packm_" rows "xk" RINGLET_BLIS_REFERENCE)    \
  LEAVE_OUT_SDCZ("unpackm_" rows "xk" RINGLET_BLIS_REFERENCE) \
  LEAVE_OUT_CZ("packm_" rows "xk_1er" RINGLET_BLIS_REFERENCE)
LEAVE_OUT_PACKING("2")
LEAVE_OUT_PACKING("3")
LEAVE_OUT_PACKING("4")
LEAVE_OUT_PACKING("6")
LEAVE_OUT_PACKING("8")
LEAVE_OUT_PACKING("10")
LEAVE_OUT_PACKING("12")
LEAVE_OUT_PACKING("14")
LEAVE_OUT_PACKING("16")
LEAVE_OUT_PACKING("24")
#undef LEAVE_OUT_PACKING
LEAVE_OUT("spackm_2xk" RINGLET_BLIS_REFERENCE)
LEAVE_OUT("spackm_3xk" RINGLET_BLIS_REFERENCE)
LEAVE_OUT("spackm_6xk" RINGLET_BLIS_REFERENCE)
LEAVE_OUT("spackm_10xk" RINGLET_BLIS_REFERENCE)
LEAVE_OUT("spackm_14xk" RINGLET_BLIS_REFERENCE)
LEAVE_OUT("spackm_24xk" RINGLET_BLIS_REFERENCE)
LEAVE_OUT_CZ("packm_struc_cxk_1er")
LEAVE_OUT_PAIRS("packm_struc_cxk_md")
LEAVE_OUT_PAIRS("castm")

#ifdef RINGLET_BLIS_HASWELL
LEAVE_OUT("cpackm_haswell_asm_3xk")
LEAVE_OUT("cpackm_haswell_asm_8xk")
LEAVE_OUT("dpackm_haswell_asm_6xk")
LEAVE_OUT("dpackm_haswell_asm_8xk")
LEAVE_OUT("zpackm_haswell_asm_3xk")
LEAVE_OUT("zpackm_haswell_asm_4xk")
LEAVE_OUT("dgemmsup_rd_haswell_asm_6x8m")
LEAVE_OUT("dgemmsup_rd_haswell_asm_6x8n")
LEAVE_OUT("dgemmsup_rv_haswell_asm_6x8m")
LEAVE_OUT("dgemmsup_rv_haswell_asm_6x8n")
LEAVE_OUT("dgemmtrsm_l_haswell_asm_6x8")
LEAVE_OUT("dgemmtrsm_u_haswell_asm_6x8")
LEAVE_OUT("sgemmtrsm_l_haswell_asm_6x16")
LEAVE_OUT("sgemmtrsm_u_haswell_asm_6x16")
#endif

// Other operations than the product, and products of mixed types.
LEAVE_OUT("gemm_md")
LEAVE_OUT("gemmt_front")
LEAVE_OUT("gemmt_x_ker_var2")
LEAVE_OUT("hemm_front")
LEAVE_OUT("symm_front")
LEAVE_OUT("trmm3_front")
LEAVE_OUT("trmm_front")
LEAVE_OUT("trmm_xx_ker_var2")
LEAVE_OUT("trsm_cntl_create")
LEAVE_OUT("trsm_cntl_free")
LEAVE_OUT("trsm_front")
LEAVE_OUT_SDCZ("ger_unb_var1")
LEAVE_OUT_SDCZ("ger_unb_var2")
LEAVE_OUT_SDCZ("hemv_unf_var1")
LEAVE_OUT_SDCZ("hemv_unf_var3")
LEAVE_OUT_SDCZ("her2_unf_var1")
LEAVE_OUT_SDCZ("her2_unf_var4")
LEAVE_OUT_SDCZ("her_unb_var1")
LEAVE_OUT_SDCZ("her_unb_var2")
LEAVE_OUT_SDCZ("trmv_unf_var1")
LEAVE_OUT_SDCZ("trmv_unf_var2")
LEAVE_OUT_SDCZ("trsv_unf_var1")
LEAVE_OUT_SDCZ("trsv_unf_var2")
LEAVE_OUT_SDCZ("addm_ex")
LEAVE_OUT_SDCZ("axpym_ex")
LEAVE_OUT_SDCZ("copym_ex")
LEAVE_OUT_SDCZ("setm_ex")
LEAVE_OUT_SDCZ("subm_ex")
LEAVE_OUT_SDCZ("xpbym_ex")
LEAVE_OUT_PAIRS("xpbym_md_ex")
LEAVE_OUT_DCZ("scalm")  // blis_trim.h has those of floats
LEAVE_OUT_DCZ("scalm_ex")
LEAVE_OUT_DCZ("scal2m_ex")

// On diagonals.
LEAVE_OUT_SDCZ("addd_ex")
LEAVE_OUT_SDCZ("axpyd_ex")
LEAVE_OUT_SDCZ("copyd_ex")
LEAVE_OUT_SDCZ("invertd_ex")
LEAVE_OUT_SDCZ("scal2d_ex")
LEAVE_OUT_SDCZ("scald_ex")
LEAVE_OUT_SDCZ("setd_ex")
LEAVE_OUT_SDCZ("setid_ex")
LEAVE_OUT_SDCZ("shiftd_ex")
LEAVE_OUT_SDCZ("subd_ex")
LEAVE_OUT_SDCZ("xpbyd_ex")

// Norms, random matrices, printing; comparing scalars stays.
#define LEAVE_OUT_UTILITY(op) \
  LEAVE_OUT_SDCZ(op "_ex")    \
  LEAVE_OUT_SDCZ(op "_unb_var1")
LEAVE_OUT_UTILITY("asumv")
LEAVE_OUT_UTILITY("mkherm")
LEAVE_OUT_UTILITY("mksymm")
LEAVE_OUT_UTILITY("mktrim")
LEAVE_OUT_UTILITY("norm1m")
LEAVE_OUT_UTILITY("norm1v")
LEAVE_OUT_UTILITY("normfm")
LEAVE_OUT_UTILITY("normfv")
LEAVE_OUT_UTILITY("normim")
LEAVE_OUT_UTILITY("normiv")
LEAVE_OUT_UTILITY("randm")
LEAVE_OUT_UTILITY("randnm")
LEAVE_OUT_UTILITY("randnv")
LEAVE_OUT_UTILITY("randv")
LEAVE_OUT_UTILITY("sumsqv")
#undef LEAVE_OUT_UTILITY
LEAVE_OUT_SDCZ("eqm_unb_var1")
LEAVE_OUT_SDCZ("eqv_unb_var1")
LEAVE_OUT_SDCZ("fprintm")
LEAVE_OUT_SDCZ("fprintv")
LEAVE_OUT("ifprintm")
LEAVE_OUT("ifprintv")

#undef LEAVE_OUT
#undef LEAVE_OUT_DCZ
#undef LEAVE_OUT_SDCZ
#undef LEAVE_OUT_CZ
#undef LEAVE_OUT_PAIRS
#undef RINGLET_ALIAS

#endif  // RINGLET_CORE_COMPUTE_BLIS_LEFT_OUT_H_
