/* Runs a program and writes down what it took: launch FILE PROG ARGUMENT...
   The file gets one line: wall, user and system time in microseconds, peak memory in kilobytes, status,
   and the peak memory of the process that started this one. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long microseconds(struct timeval time) { return time.tv_sec * 1000000 + time.tv_usec; }

static long parents_memory(void) {
    char line[256];
    long memory = 0;
    snprintf(line, sizeof line, "/proc/%d/status", (int)getppid());
    FILE *in = fopen(line, "r");
    while (in && fgets(line, sizeof line, in)) sscanf(line, "VmHWM: %ld", &memory);
    if (in) fclose(in);
    return memory;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    struct timespec start, end;
    struct rusage usage;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t child = fork();
    if (child == 0) {
        execv(arguments[2], arguments + 2);
        perror(arguments[2]);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child) return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *out = fopen(arguments[1], "w");
    if (!out) return 1;
    long wall = (end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    fprintf(out, "%ld %ld %ld %ld %d %ld\n", wall, microseconds(usage.ru_utime), microseconds(usage.ru_stime), usage.ru_maxrss, code, parents_memory());
    return fclose(out) != 0;
}
