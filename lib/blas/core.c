/* What the BLAS core in use makes of this CPU, by its name.
 *
 * OpenBLAS knows the processors that were there before it. What it does not know it takes for an old one: 0.3.21
 * computes with core Prescott, sixteen bytes at a time, on a Xeon of 2023 (Emerald Rapids), at a sixth of what the CPU
 * can do. BLIS 0.9 takes core haswell there, with which fused ran at 60 of 178 GFLOP/s; by our own kernel it runs at
 * 134.
 *
 * Cores of AVX2 use the vectors of an AVX2 processor, but pack both factors of whatever they multiply, a tile too: own
 * products take 0.77 to 0.9 of the time of fused (2-core Zen 3, OpenBLAS 0.3.21 core Zen, 2026-12-01, LADDER.md). Large
 * products are theirs.
 */
#include <pthread.h>
#include <stdio.h>

#include "blas/blas.h"

/* The x86 cores of OpenBLAS (driver/others/dynamic.c), some of which BLIS has by the same names in small letters, and
 * the instruction set of ours that their products are on a level with. AVX without FMA is half of AVX2, so that it
 * counts as generic. Those of AVX512 have small products that pack nothing. */
static const struct {
    const char *name;
    attn_isa isa;
} cores[] = {
    {"SkylakeX", ATTN_ISA_AVX512},
    {"Cooperlake", ATTN_ISA_AVX512},
    {"SapphireRapids", ATTN_ISA_AVX512},
    {"Haswell", ATTN_ISA_AVX2},
    {"Zen", ATTN_ISA_AVX2},
    {"Excavator", ATTN_ISA_AVX2},
    {"Steamroller", ATTN_ISA_AVX2},
    {"Piledriver", ATTN_ISA_AVX2},
    {"Bulldozer", ATTN_ISA_AVX2},
    {"Sandybridge", ATTN_ISA_GENERIC},
    {"Nehalem", ATTN_ISA_GENERIC},
    {"Prescott", ATTN_ISA_GENERIC},
    {"Core2", ATTN_ISA_GENERIC},
    {"Penryn", ATTN_ISA_GENERIC},
    {"Dunnington", ATTN_ISA_GENERIC},
    {"Atom", ATTN_ISA_GENERIC},
    {"Nano", ATTN_ISA_GENERIC},
    {"Athlon", ATTN_ISA_GENERIC},
    {"Opteron", ATTN_ISA_GENERIC},
    {"Opteron_SSE3", ATTN_ISA_GENERIC},
    {"Barcelona", ATTN_ISA_GENERIC},
    {"Bobcat", ATTN_ISA_GENERIC},
};

static struct {
    bool falls_short, own_products;
    char advice[192];
} judgement;

/* Vectors of ours that this core is on a level with; the best there are where nothing is known against it. */
static attn_isa level_of_core(void) {
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (attn_blas_core_is(cores[i].name))
            return cores[i].isa;
    /* Neither OpenBLAS nor BLIS nor MKL: most likely the loops of Netlib, at a fiftieth of what the CPU can do. */
    return attn_blas_is_known() ? ATTN_ISA_AVX512 : ATTN_ISA_GENERIC;
}

static void judge(void) {
    /* the matrix unit is beside the vectors: products of parts know no BLAS */
    attn_isa ours = attn_isa_in_use() == ATTN_ISA_AMX ? ATTN_ISA_AVX512 : attn_isa_in_use(), level = level_of_core();
    judgement.falls_short = ours >= ATTN_ISA_AVX2 && level < ours;
    judgement.own_products = ours >= ATTN_ISA_AVX2 && level <= ATTN_ISA_AVX2;
    if (!judgement.falls_short)
        return;
    if (!attn_blas_is_known())
        snprintf(judgement.advice, sizeof judgement.advice,
                 "this CBLAS is not known to use the %s of this CPU: OpenBLAS, BLIS and MKL do", attn_isa_name(ours));
    else if (attn_blas_chooses_core())
        snprintf(judgement.advice, sizeof judgement.advice,
                 "OpenBLAS computes with core %s, which does not use the %s of this CPU: set OPENBLAS_CORETYPE=%s",
                 attn_blas_core(), attn_isa_name(ours), ours == ATTN_ISA_AVX512 ? "SkylakeX" : "Haswell");
    else
        snprintf(judgement.advice, sizeof judgement.advice,
                 "%s computes with core %s, which does not use the %s of this CPU: use one that was built for it",
                 attn_blas_name(), attn_blas_core(), attn_isa_name(ours));
}

static void judge_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, judge);
}

bool attn_blas_falls_short(void) {
    judge_once();
    return judgement.falls_short;
}

bool attn_own_products(void) {
    judge_once();
    return judgement.own_products;
}

const char *attn_blas_advice(void) {
    judge_once();
    return judgement.advice;
}

const char *attn_multiply_way(void) {
    return attn_own_products() ? "products by the library's own kernel" : "CBLAS products";
}
