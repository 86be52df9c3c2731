/* Detection of the instruction set. It asks for every feature that lib/CMakeLists.txt compiles a level with, and
 * whether the operating system saves the registers that belong to it. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

const char *attn_isa_name(attn_isa isa) {
    switch (isa) {
    case ATTN_ISA_GENERIC:
        return "generic";
    case ATTN_ISA_NEON:
        return "neon";
    case ATTN_ISA_AVX2:
        return "avx2";
    case ATTN_ISA_AVX512:
        return "avx512";
    case ATTN_ISA_AMX:
        return "amx";
    }
    return "unknown";
}

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Bits of XCR0: the register state that the operating system saves. */
enum {
    STATE_SSE_AVX = 0x06, /* xmm, ymm; */
    STATE_AVX512 = 0xe6,  /* and mask registers, upper zmm, zmm16 to zmm31; */
    STATE_AMX = 0x600e6,  /* and the tiles with their shapes */
};

/* Where the compiler's header is older than the unit. */
#ifndef bit_AMX_TILE
#define bit_AMX_TILE (1 << 24)
#endif
#ifndef bit_AMX_BF16
#define bit_AMX_BF16 (1 << 22)
#endif

static bool all_set(unsigned bits, unsigned wanted) {
    return (bits & wanted) == wanted;
}

static unsigned saved_state(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static attn_isa detect(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all_set(c, bit_OSXSAVE | bit_AVX))
        return ATTN_ISA_GENERIC;
    bool fma = all_set(c, bit_FMA);
    unsigned state = saved_state();
    if (!all_set(state, STATE_SSE_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return ATTN_ISA_GENERIC;
    if (!fma || !all_set(b, bit_AVX2))
        return ATTN_ISA_GENERIC;
    if (!all_set(b, bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL) || !all_set(state, STATE_AVX512))
        return ATTN_ISA_AVX2;
    if (!all_set(d, bit_AMX_TILE | bit_AMX_BF16) || !all_set(state, STATE_AMX))
        return ATTN_ISA_AVX512;
    return ATTN_ISA_AMX;
}

/* Linux gives the registers of the matrix unit, 8 KiB a thread, to programs that ask for them: once for the process,
 * and a second time is no harm. It says no where a thread has a signal stack too small for them, and later to signal
 * stacks that are. */
static bool gives_matrix_unit(void) {
#if defined(__linux__)
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
#else
    return false;
#endif
}

static bool vendor_is(unsigned ebx, unsigned ecx, unsigned edx) {
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == ebx && c == ecx && d == edx;
}
#elif defined(__aarch64__)
static attn_isa detect(void) {
    return ATTN_ISA_NEON;
}
#else
static attn_isa detect(void) {
    return ATTN_ISA_GENERIC;
}
#endif

static attn_isa cpu_isa;
static bool is_to_be_asked, reads_apart;

/* Early priority: in a static link other constructors may already call the library. */
__attribute__((constructor(101))) static void decide(void) {
    cpu_isa = detect();
#if defined(__x86_64__)
    bool intel = vendor_is(signature_INTEL_ebx, signature_INTEL_ecx, signature_INTEL_edx);
    bool amd = vendor_is(signature_AMD_ebx, signature_AMD_ecx, signature_AMD_edx);
    is_to_be_asked = intel;
    reads_apart = intel || (amd && cpu_isa < ATTN_ISA_AVX512);
#endif
    const char *most = getenv("ATTN_MAX_ISA");
    for (int isa = ATTN_ISA_GENERIC; most != NULL && isa < (int)cpu_isa; isa++)
        if (strcmp(most, attn_isa_name((attn_isa)isa)) == 0)
            cpu_isa = (attn_isa)isa;
#if defined(__x86_64__)
    bool named = most != NULL && strcmp(most, attn_isa_name(ATTN_ISA_AMX)) == 0;
    if (cpu_isa == ATTN_ISA_AMX && !(named && gives_matrix_unit()))
        cpu_isa = ATTN_ISA_AVX512;
#endif
}

attn_isa attn_cpu_isa(void) {
    return cpu_isa;
}

bool attn_cpu_is_to_be_asked(void) {
    return is_to_be_asked;
}

bool attn_cpu_reads_apart(void) {
    return reads_apart;
}

void attn_cpu_read_apart(bool apart) {
    reads_apart = apart;
}
