/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_file.h - reads the ELF file of compiled code: a cubin or a shared object.
 * The file is not trusted.
 */
#ifndef SPC_COMPILER_ELF_FILE_H
#define SPC_COMPILER_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct spc__elf {
    const unsigned char *data;
    size_t bytes;
    Elf64_Ehdr header;
} spc__elf;

/* Returns false if the bytes are not a 64-bit ELF file. */
bool spc__elf_open(spc__elf *out, const void *code, size_t bytes);

/* Reads section `i`. Returns false if it does not exist or exceeds the file. */
bool spc__elf_section(Elf64_Shdr *out, const spc__elf *file, unsigned i);
bool spc__elf_find(Elf64_Shdr *out, const spc__elf *file, const char *name);
const char *spc__elf_name(const spc__elf *file, const Elf64_Shdr *section);

/* Reads program header `i`. Returns false if it does not exist or exceeds the
 * file. */
bool spc__elf_segment(Elf64_Phdr *out, const spc__elf *file, unsigned i);

/* Returns a terminated text of a string table, or NULL. */
const char *spc__elf_string(const spc__elf *file, unsigned table, uint64_t at);

#endif
