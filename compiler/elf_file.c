/* SPDX-License-Identifier: Apache-2.0 */
/* elf_file.c - finds the sections of compiled code. */
#include "compiler/elf_file.h"

#include <string.h>

bool spc__elf_open(spc__elf *out, const void *code, size_t bytes)
{
    *out = (spc__elf){.data = code, .bytes = bytes};
    if (code == NULL || bytes < sizeof(out->header))
        return false;
    memcpy(&out->header, code, sizeof(out->header));
    return memcmp(out->header.e_ident, ELFMAG, SELFMAG) == 0 &&
           out->header.e_ident[EI_CLASS] == ELFCLASS64 &&
           out->header.e_shentsize == sizeof(Elf64_Shdr);
}

static bool in_file(const spc__elf *file, uint64_t offset, uint64_t bytes)
{
    /* Avoids a sum, which could wrap around. */
    return offset <= file->bytes && bytes <= file->bytes - offset;
}

bool spc__elf_section(Elf64_Shdr *out, const spc__elf *file, unsigned i)
{
    uint64_t offset = file->header.e_shoff + (uint64_t)i * sizeof(*out);

    if (i >= file->header.e_shnum || file->header.e_shoff > file->bytes ||
        !in_file(file, offset, sizeof(*out)))
        return false;
    memcpy(out, file->data + offset, sizeof(*out));
    return out->sh_type == SHT_NOBITS ||
           in_file(file, out->sh_offset, out->sh_size);
}

bool spc__elf_segment(Elf64_Phdr *out, const spc__elf *file, unsigned i)
{
    uint64_t offset = file->header.e_phoff + (uint64_t)i * sizeof(*out);

    if (i >= file->header.e_phnum || file->header.e_phoff > file->bytes ||
        file->header.e_phentsize != sizeof(*out) ||
        !in_file(file, offset, sizeof(*out)))
        return false;
    memcpy(out, file->data + offset, sizeof(*out));
    return true;
}

const char *spc__elf_string(const spc__elf *file, unsigned table, uint64_t at)
{
    Elf64_Shdr section;

    if (!spc__elf_section(&section, file, table) ||
        section.sh_type == SHT_NOBITS || at >= section.sh_size)
        return NULL;
    const char *text = (const char *)file->data + section.sh_offset + at;
    /* The strings of an untrusted file may lack their end. */
    return memchr(text, '\0', section.sh_size - at) != NULL ? text : NULL;
}

const char *spc__elf_name(const spc__elf *file, const Elf64_Shdr *section)
{
    const char *name =
        spc__elf_string(file, file->header.e_shstrndx, section->sh_name);
    return name != NULL ? name : "";
}

bool spc__elf_find(Elf64_Shdr *out, const spc__elf *file, const char *name)
{
    for (unsigned i = 0; i < file->header.e_shnum; i++)
        if (spc__elf_section(out, file, i) &&
            strcmp(spc__elf_name(file, out), name) == 0)
            return true;
    return false;
}
