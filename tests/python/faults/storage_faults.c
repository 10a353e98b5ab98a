/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a process (LD_PRELOAD), counts the calls by which it changes files under one folder, and lets one of them
 * go wrong: it fails, all from there on fail (a disk that is full, or gone), or the process is killed before or after it;
 * a write is then half done. Which one: fault_arm(), or FLOODTIDE_FAULT="<number> <mode> <list> <folder>".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kFail = 1, kFailOn = 2, kKill = 3, kTear = 4 };
enum { kGoOn, kReturnError, kDieAfter };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[4096];
static long at, count;
static int mode, list = -1;

static void say(const char *what, const char *path) {
  char line[8192];
  const int length = snprintf(line, sizeof line, "%ld %s %s\n", count, what, path);
  if (list >= 0) syscall(SYS_write, list, line, (size_t)length);
}

/* The number-th call under the folder goes wrong in that mode (0: none); every call is noted in the file `listed`. */
void fault_arm(long number, int how, const char *listed, const char *under) {
  pthread_mutex_lock(&lock);
  list = (int)syscall(SYS_openat, AT_FDCWD, listed, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  snprintf(folder, sizeof folder, "%s", under);
  at = number;
  mode = how;
  count = 0;
  pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void arm_from_environment(void) {
  char listed[4096], under[4096];
  long number;
  int how;
  const char *text = getenv("FLOODTIDE_FAULT");
  if (text && sscanf(text, "%ld %d %4095s %4095s", &number, &how, listed, under) == 4) fault_arm(number, how, listed, under);
}

/* A call of that name on that path comes. fails: whether it is one that a broken disk refuses. */
static int coming(const char *what, const char *path, int fails, int error) {
  int verdict = kGoOn;
  const size_t length = strlen(folder);
  if (length == 0 || strncmp(path, folder, length) != 0 || (path[length] != 0 && path[length] != '/')) return kGoOn;
  pthread_mutex_lock(&lock);
  ++count;
  say(what, path);
  if (at > 0 && count == at && mode == kKill) syscall(SYS_kill, getpid(), SIGKILL);
  if (at > 0 && count == at && mode == kTear) verdict = kDieAfter;
  if (at > 0 && ((count == at && mode == kFail) || (count >= at && mode == kFailOn && fails))) verdict = kReturnError;
  pthread_mutex_unlock(&lock);
  if (verdict == kReturnError) errno = error;
  return verdict;
}

static int coming_on(const char *what, int descriptor, int fails, int error) {
  char link[64], path[4096];
  if (folder[0] == 0 || descriptor == list) return kGoOn;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = syscall(SYS_readlink, link, path, sizeof path - 1);
  if (length < 0) return kGoOn;
  path[length] = 0;
  return coming(what, path, fails, error);
}

static void die(void) { syscall(SYS_kill, getpid(), SIGKILL); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
/* The body of a call: refuse it, or do it and perhaps die. */
#define CALL(verdict, type, expression)     \
  do {                                      \
    const int verdict_ = (verdict);         \
    if (verdict_ == kReturnError) return -1; \
    const type result_ = (expression);      \
    if (verdict_ == kDieAfter) die();       \
    return result_;                         \
  } while (0)

#define WRITE_LIKE(name, parameters, whole, half)                        \
  ssize_t name parameters {                                              \
    const int verdict = coming_on("write", descriptor, 1, ENOSPC);       \
    if (verdict == kReturnError) return -1;                              \
    if (verdict == kDieAfter) {                                          \
      if (REAL(name) half < 0) perror("storage_faults");                 \
      die();                                                             \
    }                                                                    \
    return REAL(name) whole;                                             \
  }

WRITE_LIKE(write, (int descriptor, const void *bytes, size_t size), (descriptor, bytes, size), (descriptor, bytes, size / 2))
WRITE_LIKE(pwrite, (int descriptor, const void *bytes, size_t size, off_t offset), (descriptor, bytes, size, offset),
           (descriptor, bytes, size / 2, offset))
WRITE_LIKE(pwrite64, (int descriptor, const void *bytes, size_t size, off64_t offset), (descriptor, bytes, size, offset),
           (descriptor, bytes, size / 2, offset))
WRITE_LIKE(writev, (int descriptor, const struct iovec *parts, int number), (descriptor, parts, number),
           (descriptor, parts, number / 2))

int fsync(int descriptor) { CALL(coming_on("fsync", descriptor, 1, EIO), int, REAL(fsync)(descriptor)); }
int fdatasync(int descriptor) { CALL(coming_on("fsync", descriptor, 1, EIO), int, REAL(fdatasync)(descriptor)); }
int ftruncate(int descriptor, off_t size) {
  CALL(coming_on("truncate", descriptor, 1, ENOSPC), int, REAL(ftruncate)(descriptor, size));
}
int ftruncate64(int descriptor, off64_t size) {
  CALL(coming_on("truncate", descriptor, 1, ENOSPC), int, REAL(ftruncate64)(descriptor, size));
}
int truncate(const char *path, off_t size) { CALL(coming("truncate", path, 0, EIO), int, REAL(truncate)(path, size)); }
int rename(const char *from, const char *to) { CALL(coming("rename", from, 1, ENOSPC), int, REAL(rename)(from, to)); }
int link(const char *from, const char *to) { CALL(coming("link", to, 1, ENOSPC), int, REAL(link)(from, to)); }
int unlink(const char *path) { CALL(coming("unlink", path, 0, EIO), int, REAL(unlink)(path)); }
int mkdir(const char *path, mode_t rights) { CALL(coming("mkdir", path, 1, ENOSPC), int, REAL(mkdir)(path, rights)); }

/* Reading is not what these tests are about: only descriptors that can write, and folders (opened to be synchronised). */
static int opening(const char *path, int flags) {
  struct stat status;
  if ((flags & O_ACCMODE) != O_RDONLY) return coming(flags & O_CREAT ? "create" : "open", path, 1, ENOSPC);
  if (folder[0] != 0 && syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) == 0 && S_ISDIR(status.st_mode) &&
      (flags & O_DIRECTORY) == 0)
    return coming("open-folder", path, 1, EIO);
  return kGoOn;
}

#define OPEN_LIKE(name)                                                   \
  int name(const char *path, int flags, ...) {                            \
    va_list rest;                                                         \
    va_start(rest, flags);                                                \
    const mode_t rights = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;   \
    va_end(rest);                                                         \
    CALL(opening(path, flags), int, REAL(name)(path, flags, rights));     \
  }
OPEN_LIKE(open)
OPEN_LIKE(open64)

/* The descriptor is free in any case, as with Linux. */
int close(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  const int verdict =
      flags >= 0 && (flags & O_ACCMODE) != O_RDONLY ? coming_on("close", descriptor, 0, EIO) : kGoOn;
  const int result = REAL(close)(descriptor);
  if (verdict == kDieAfter) die();
  if (verdict == kReturnError) errno = EIO;
  return verdict == kReturnError ? -1 : result;
}
