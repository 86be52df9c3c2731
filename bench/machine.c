/* Where a run took place, from /proc, /sys and the libraries themselves. What a system does not say is left out. */
#include "machine.h"

#include <attn/base.h>
#include <ctype.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "peaks.h"

#ifndef BENCH_COMPILER_FLAGS
#define BENCH_COMPILER_FLAGS ""
#endif

__attribute__((format(printf, 4, 5))) static void add(machine *m, const char *key, const char *label,
                                                      const char *format, ...) {
    if (m->count == MACHINE_MAX_FACTS)
        return;
    machine_fact *f = &m->fact[m->count];
    *f = (machine_fact){.key = key, .label = label};
    va_list list;
    va_start(list, format);
    vsnprintf(f->text, sizeof f->text, format, list);
    va_end(list);
    size_t n = strlen(f->text);
    while (n > 0 && isspace((unsigned char)f->text[n - 1]))
        f->text[--n] = 0;
    if (n > 0)
        m->count++;
}

static void add_number(machine *m, const char *key, const char *label, long long number) {
    int before = m->count;
    add(m, key, label, "%lld", number);
    if (m->count > before)
        m->fact[before].is_number = true;
}

/* First line of a file, without its end; false when there is none. */
static bool read_line(const char *path, char *line, size_t size) {
    FILE *file = fopen(path, "r");
    bool found = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    if (found)
        line[strcspn(line, "\n")] = 0;
    return found;
}

/* Text behind "name<blanks>:<blanks>" in a file of such lines. */
static bool read_field(const char *path, const char *name, char *text, size_t size) {
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char line[4096];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, name, strlen(name)) != 0)
            continue;
        char *end = line + strlen(name);
        end += strspn(end, " \t");
        if (end != colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(text, size, "%s", colon);
        found = true;
    }
    fclose(file);
    return found;
}

double machine_available_memory(void) {
    char text[64];
    return read_field("/proc/meminfo", "MemAvailable", text, sizeof text) ? 1024 * atof(text) : 0;
}

static void add_processor(machine *m) {
    char text[256], extra[256];
    if (read_field("/proc/cpuinfo", "model name", text, sizeof text) ||
        read_field("/proc/cpuinfo", "Model", text, sizeof text)) {
        if (read_field("/proc/cpuinfo", "cpu family", extra, sizeof extra)) {
            char model[64] = "";
            read_field("/proc/cpuinfo", "model", model, sizeof model);
            add(m, "cpu", "CPU", "%s (family %.32s, model %.32s)", text, extra, model);
        } else {
            add(m, "cpu", "CPU", "%s", text);
        }
    }
    m->cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    add_number(m, "cores", "cores", m->cpus);

    char caches[256] = "";
    for (int i = 0; i < 8; i++) {
        char path[128], level[16], type[32], size[32];
        const char *folder = "/sys/devices/system/cpu/cpu0/cache/index";
        snprintf(path, sizeof path, "%s%d/level", folder, i);
        if (!read_line(path, level, sizeof level))
            break;
        snprintf(path, sizeof path, "%s%d/type", folder, i);
        bool typed = read_line(path, type, sizeof type);
        snprintf(path, sizeof path, "%s%d/size", folder, i);
        if (!typed || !read_line(path, size, sizeof size) || strcmp(type, "Instruction") == 0)
            continue;
        size_t used = strlen(caches);
        snprintf(caches + used, sizeof caches - used, "%sL%s%s %s", used ? ", " : "", level,
                 strcmp(type, "Data") == 0 ? "d" : "", size);
    }
    add(m, "caches", "caches", "%s", caches);
    add(m, "instruction_set", "instruction set", "vectors %s, kernels %s", peaks_best_isa(),
        attn_isa_name(attn_isa_in_use()));
    if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text, sizeof text))
        add(m, "governor", "governor", "%s", text);
}

static void add_system(machine *m) {
    char text[256];
    struct utsname name;
    if (uname(&name) == 0)
        add(m, "kernel", "kernel", "%.64s %.64s %.64s", name.sysname, name.release, name.machine);
    double total = read_field("/proc/meminfo", "MemTotal", text, sizeof text) ? 1024 * atof(text) : 0;
    m->available = machine_available_memory();
    if (total > 0)
        add(m, "memory", "memory", "%.1f GiB, %.1f GiB available", total / (1 << 30), m->available / (1 << 30));
    if (read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text)) {
        char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
        if (close)
            add(m, "huge_pages", "huge pages", "%.*s", (int)(close - open - 1), open + 1);
    }
    m->load = -1;
    if (read_line("/proc/loadavg", text, sizeof text)) {
        m->load = atof(text);
        add(m, "load_average", "load at start", "%.2f", m->load);
    }
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc))
        add(m, "date", "date", "%s", text);
}

static void add_software(machine *m, int threads) {
    attn_blas_info blas = {.struct_size = sizeof blas};
    if (attn_blas_get_info(&blas) == ATTN_OK) {
        add(m, "blas", "BLAS", "%s %s, core %s, %s, %d-bit integers, one thread a call", blas.name, blas.version,
            blas.core[0] ? blas.core : "unknown", blas.flavour, blas.integer_bits);
        add(m, "blas_advice", "BLAS advice", "%s", blas.advice);
        add(m, "blas_name", NULL, "%s", blas.name);
        add(m, "blas_version", NULL, "%s", blas.version);
        add(m, "blas_core", NULL, "%s", blas.core);
        add(m, "blas_flavour", NULL, "%s", blas.flavour);
        add_number(m, "blas_integer_bits", NULL, blas.integer_bits);
    }
    add_number(m, "threads", "threads", threads);
    add(m, "library", "library", "%s", attn_version_string());
#if defined(__clang__)
    add(m, "compiler", "compiler", "%s", __VERSION__);
#elif defined(__GNUC__)
    add(m, "compiler", "compiler", "gcc %s", __VERSION__);
#endif
    add(m, "compiler_flags", "flags", "%s", BENCH_COMPILER_FLAGS);
    char versions[128] = "";
#ifdef __GLIBC__
    snprintf(versions, sizeof versions, ", glibc %s", gnu_get_libc_version());
#endif
    add(m, "versions", "versions", "attn-bench %d.%d.%d, jansson %s%s", ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR,
        ATTN_VERSION_PATCH, JANSSON_VERSION, versions);
}

void machine_read(machine *m, int threads) {
    *m = (machine){.start = cpu_usage_now(), .threads = threads};
    add_processor(m);
    add_system(m);
    add_software(m, threads);
}

void machine_print(const machine *m, FILE *out) {
    for (int i = 0; i < m->count; i++)
        if (m->fact[i].label)
            fprintf(out, "  %-16s %s\n", m->fact[i].label, m->fact[i].text);
    if (m->threads > m->cpus)
        fprintf(out, "  note: %d threads on %d processors: they take turns, and wait for each other\n", m->threads,
                m->cpus);
    if (m->load > 0.5 * m->cpus)
        fprintf(out, "  note: the load average is %.2f: other programs use this machine, figures may be too low\n",
                m->load);
}

/* From here on others may have changed the figures: a tenth of a processor. */
static const double much_for_others = 0.1;

void machine_finish(machine *m, FILE *out) {
    cpu_usage end = cpu_usage_now();
    double programs, host;
    if (!cpu_usage_of_others(&m->start, &end, &programs, &host))
        return;
    add(m, "others", "others", "other programs used %.2f of %d CPUs during the run, the host %.2f", programs, m->cpus,
        host);
    if (out && (programs > much_for_others || host > much_for_others))
        fprintf(out, "note: %s: figures may be too low\n", m->fact[m->count - 1].text);
}
