/* Tokens joined by single spaces, found eight bytes at a time. */

#ifndef VADEMECUM_TOKENS_H
#define VADEMECUM_TOKENS_H

#include <stdint.h>
#include <string.h>

/* Up to eight bytes from `text` on, the first in the lowest, with zeros after `size`. */
static inline uint64_t tokens_load(const uint8_t *text, size_t size)
{
    uint64_t word = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (size >= 8) {
        memcpy(&word, text, 8);
        return word;
    }
#endif
    for (size_t i = 0; i < size && i < 8; i++)
        word |= (uint64_t)text[i] << 8 * i;
    return word;
}

/* Where the token that begins at `begin` ends: at a space or at the end of the text. */
static inline size_t tokens_end(const uint8_t *text, size_t size, size_t begin)
{
    const uint64_t ones = 0x0101010101010101u;
    for (; begin + 8 <= size; begin += 8) {
        uint64_t word = tokens_load(text + begin, 8) ^ ones * ' ';
        uint64_t zero = (word - ones) & ~word & ones << 7; /* its lowest bit stands in the first byte that is 0 */
        if (zero != 0) {
#if defined(__GNUC__)
            return begin + (size_t)__builtin_ctzll(zero) / 8;
#else
            break;
#endif
        }
    }
    while (begin < size && text[begin] != ' ')
        begin++;
    return begin;
}

/* A 64-bit hash of a token of `length` bytes, `left` of which and more may be read. */
static inline uint64_t tokens_hash(const uint8_t *token, size_t length, size_t left)
{
    uint64_t value = (uint64_t)length * 0x9E3779B97F4A7C15u;
    for (size_t start = 0; start < length; start += 8) {
        size_t rest = length - start;
        uint64_t word = tokens_load(token + start, left - start);
        if (rest < 8)
            word &= ~(uint64_t)0 >> (64 - 8 * rest);
        value ^= word;
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
        value ^= value >> 31;
    }
    return value;
}

#endif
