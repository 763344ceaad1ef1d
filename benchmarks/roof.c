/* How fast bytes can be read at all: sums of 64-bit words, which compilers turn into vector additions. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

uint64_t read_rows(const char *base, const int64_t *offsets, size_t n_rows, size_t row_bytes)
{
    uint64_t sum = 0;
    for (size_t row = 0; row < n_rows; row++) {
        const char *from = base + offsets[row];
        for (size_t at = 0; at + sizeof(uint64_t) <= row_bytes; at += sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, from + at, sizeof word);
            sum += word;
        }
    }
    return sum;
}
