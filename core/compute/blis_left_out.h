// The kernels and operations of BLIS that no product of ringlet's reaches.
//
// Internal to core/, for blis_trim.h alone. Each name below is a function that
// a table of BLIS's, or a function that does several things, refers to: given
// here, linked before libblis.a, the member that holds it stays out. Calling
// one aborts.
//
// What it is for: a static program of at most 3,000,000 bytes (STATIC_LIMIT of
// the Makefile). `ringlet` of BLIS=haswell, stripped, has 3,590,168 bytes
// without this file and 2,783,256 with it. Each group says what it alone saves
// of these; what would save less than 6,000 bytes a line is not here (260,000
// in all). A running program takes the same memory and time without it.
// Measured with BLIS 0.9.0 and gcc 12 on Debian 12.
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

// Kernels of the reference set: 155,648 bytes.
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

// Packing: 425,984 bytes. blis_trim.h has that of floats in panels of 4, 8, 12
// and 16.
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

#ifdef RINGLET_BLIS_HASWELL  // 106,496 bytes
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

// Other operations than the product, and products of mixed types: 118,784
// bytes.
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
#undef LEAVE_OUT
#undef LEAVE_OUT_DCZ
#undef LEAVE_OUT_SDCZ
#undef LEAVE_OUT_CZ
#undef LEAVE_OUT_PAIRS
#undef RINGLET_ALIAS

#endif  // RINGLET_CORE_COMPUTE_BLIS_LEFT_OUT_H_
