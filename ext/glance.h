/*
 * All that a scan for pages looks at in some folders, in as many bytes as it takes: equal bytes, equal scans.
 *
 * For each folder its device and inode, then every entry in the order of the folder: its name with a NUL, then d for a
 * folder, l for a link, f for a file, o for anything else. Of pages, files with conversations, links and what is hidden
 * and no folder follow mode, inode, size and the times of the last change of content and state in nanoseconds; of links,
 * too, the file type of what they lead to, or 0. Numbers are int64 in the order of the machine.
 */

#ifndef VADEMECUM_GLANCE_H
#define VADEMECUM_GLANCE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *bytes;
    size_t length, room;
} glance_text;

#if defined(__linux__) || defined(__APPLE__)

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#define GLANCE_NS(state, which) ((int64_t)(state)->st_##which##timespec.tv_sec * 1000000000 + (state)->st_##which##timespec.tv_nsec)
#else
#define GLANCE_NS(state, which) ((int64_t)(state)->st_##which##tim.tv_sec * 1000000000 + (state)->st_##which##tim.tv_nsec)
#endif

static int glance_add(glance_text *text, const void *more, size_t size)
{
    if (text->room - text->length < size) {
        size_t room = 2 * text->room + size + 4096;
        char *bytes = realloc(text->bytes, room);
        if (bytes == NULL)
            return -1;
        text->bytes = bytes;
        text->room = room;
    }
    memcpy(text->bytes + text->length, more, size);
    text->length += size;
    return 0;
}

static int glance_ends(const char *name, size_t length, const char *end)
{
    size_t count = strlen(end);
    if (length < count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        char c = name[length - count + i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c | 32) : c) != end[i])
            return 0;
    }
    return 1;
}

/* A page, or a file with conversations. */
static int glance_is_read(const char *name)
{
    static const char *const ends[] = {".md", ".jsonl", "chat_history.json", "index.db", "index.db-wal"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (glance_ends(name, length, ends[i]))
            return 1;
    return 0;
}

static char glance_kind(mode_t mode)
{
    return S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISREG(mode) ? 'f' : 'o';
}

static int glance_entry(glance_text *text, int folder, const struct dirent *entry)
{
    const char *name = entry->d_name;
    struct stat state;
    int seen = 0, type = entry->d_type;
    char kind = type == DT_DIR ? 'd' : type == DT_LNK ? 'l' : type == DT_REG ? 'f' : 'o';
    if (type == DT_UNKNOWN) { /* file systems need not tell */
        if (fstatat(folder, name, &state, AT_SYMLINK_NOFOLLOW) != 0)
            return -1;
        seen = 1;
        kind = glance_kind(state.st_mode);
    }
    if (glance_add(text, name, strlen(name) + 1) != 0 || glance_add(text, &kind, 1) != 0)
        return -1;
    if (kind == 'd' || (kind != 'l' && name[0] != '.' && !glance_is_read(name)))
        return 0;
    if (!seen && fstatat(folder, name, &state, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    int64_t numbers[5] = {(int64_t)state.st_mode, (int64_t)state.st_ino, (int64_t)state.st_size,
                          GLANCE_NS(&state, m), GLANCE_NS(&state, c)};
    if (glance_add(text, numbers, sizeof numbers) != 0)
        return -1;
    if (kind != 'l')
        return 0;
    int64_t target = fstatat(folder, name, &state, 0) == 0 ? (int64_t)(state.st_mode & S_IFMT) : 0;
    return glance_add(text, &target, sizeof target);
}

static int glance_folder(glance_text *text, const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status = -1;
    if (folder < 0)
        return -1;
    struct stat state;
    DIR *entries = fstat(folder, &state) == 0 ? fdopendir(folder) : NULL;
    if (entries == NULL) {
        close(folder);
        return -1;
    }
    int64_t identity[2] = {(int64_t)state.st_dev, (int64_t)state.st_ino};
    status = glance_add(text, identity, sizeof identity);
    while (status == 0) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (entry == NULL) {
            status = errno == 0 ? 0 : -1;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = glance_entry(text, folder, entry);
    }
    closedir(entries);
    return status;
}

#else

static int glance_folder(glance_text *text, const char *path)
{
    (void)text, (void)path;
    return -1;
}

#endif

/* paths: each ends with a NUL, `length` bytes in all. text: all 0; its bytes are to be freed. 0, or -1 if any of it
   could not be looked at. */
static int glance(glance_text *text, const char *paths, size_t length)
{
    for (const char *path = paths; path < paths + length; path += strlen(path) + 1)
        if (glance_folder(text, path) != 0)
            return -1;
    return 0;
}

#endif
