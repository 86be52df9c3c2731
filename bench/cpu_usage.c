/* Who else used the processors: the system's count of busy time less this program's own. */
#include "cpu_usage.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "timing.h"

static double children_seconds(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) != 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

cpu_usage cpu_usage_now(void) {
    cpu_usage u = {.wall = timing_now(), .own = timing_cpu_now() + children_seconds()};
    long ticks = sysconf(_SC_CLK_TCK);
    FILE *file = fopen("/proc/stat", "r");
    double user, nice, system, idle, wait, irq, soft_irq, stolen;
    if (file && ticks > 0 &&
        fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &wait, &irq, &soft_irq,
               &stolen) == 8) {
        u.known = true;
        u.busy = (user + nice + system + irq + soft_irq) / (double)ticks;
        u.stolen = stolen / (double)ticks;
    }
    if (file)
        fclose(file);
    return u;
}

bool cpu_usage_of_others(const cpu_usage *from, const cpu_usage *to, double *programs, double *host) {
    double wall = to->wall - from->wall;
    if (!from->known || !to->known || !(wall > 0))
        return false;
    *programs = fmax((to->busy - from->busy - (to->own - from->own)) / wall, 0);
    *host = fmax((to->stolen - from->stolen) / wall, 0);
    return true;
}
