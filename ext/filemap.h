/* mmap(2) where it was tried: Linux and macOS on little-endian processors. Elsewhere each call fails with ENOSYS. */

#ifndef VADEMECUM_FILEMAP_H
#define VADEMECUM_FILEMAP_H

#include <errno.h>
#include <stddef.h>

#if (defined(__linux__) || defined(__APPLE__)) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

#include <sys/mman.h>

/* A read-only view of the file's first `length` bytes, which may be more than it has: what is beyond its end must not
   be touched (SIGBUS) before the file has grown. NULL and errno if there is none. */
static const unsigned char *filemap_open(int fd, size_t length)
{
    void *start = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
    return start == MAP_FAILED ? NULL : start;
}

static void filemap_close(const unsigned char *start, size_t length)
{
    munmap((void *)start, length);
}

#ifdef __linux__
#include <sys/vfs.h>

/* 1 where other machines may write to the file behind this one's page cache, -1 and errno if that is not known. */
static int filemap_is_remote(const char *path)
{
    static const unsigned int remote[] = {
        0x6969,     /* NFS */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB 2 */
        0x517b,     /* SMB */
        0x01021997, /* 9p */
        0x65735546, /* FUSE */
        0x00c36400, /* Ceph */
        0x5346414f, /* AFS */
    };
    struct statfs system;
    if (statfs(path, &system) != 0)
        return -1;
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if ((unsigned int)system.f_type == remote[i])
            return 1;
    return 0;
}
#else
#include <sys/mount.h>

static int filemap_is_remote(const char *path)
{
    struct statfs system;
    return statfs(path, &system) != 0 ? -1 : !(system.f_flags & MNT_LOCAL);
}
#endif

#else

static const unsigned char *filemap_open(int fd, size_t length)
{
    (void)fd, (void)length;
    errno = ENOSYS;
    return NULL;
}

static void filemap_close(const unsigned char *start, size_t length)
{
    (void)start, (void)length;
}

static int filemap_is_remote(const char *path)
{
    (void)path;
    errno = ENOSYS;
    return -1;
}

#endif

#endif
