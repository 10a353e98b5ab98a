// SPDX-License-Identifier: Apache-2.0
// Functions that the static libstdc++ of GCC 12 and our code would take from a glibc newer than 2.28. packaging/wheel.sh links
// this file into each binary of the wheel.
#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

// libstdc++ counts references without atomic instructions while this is true. False is always right.
HIDDEN char __libc_single_threaded = 0;

// std::random_device calls this function first. glibc has had it since 2.36.
HIDDEN unsigned arc4random(void) {
  unsigned value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

// std::condition_variable calls this function to wait on the monotonic clock. glibc has had it since 2.30. As older versions of
// libstdc++ did, wait until the same moment of the system's clock. Callers ask the monotonic clock again afterwards.
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
  struct timespec now;
  struct timespec moment;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &moment);
  moment.tv_sec += until->tv_sec - now.tv_sec;
  moment.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (moment.tv_nsec < 0) {
    moment.tv_sec -= 1;
    moment.tv_nsec += 1000000000;
  } else if (moment.tv_nsec >= 1000000000) {
    moment.tv_sec += 1;
    moment.tv_nsec -= 1000000000;
  }
  return pthread_cond_timedwait(condition, mutex, &moment);
}

// glibc 2.29 has second versions of these functions. They set errno without a hook.
#define ONE(name)                                         \
  double old_##name(double);                              \
  __asm__(".symver old_" #name "," #name "@GLIBC_2.2.5"); \
  HIDDEN double name(double x) { return old_##name(x); }
ONE(exp)
ONE(exp2)
ONE(log)
ONE(log2)
double old_pow(double, double);
__asm__(".symver old_pow,pow@GLIBC_2.2.5");
HIDDEN double pow(double x, double y) { return old_pow(x, y); }
