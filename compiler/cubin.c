/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cubin.c - reads a kernel's resources from the ELF file that ptxas wrote.
 *
 * Every kernel K has a section .text.K. The section .nv.info holds records of
 * (format, attribute, size, payload). Two attributes matter here; their payload
 * is a symbol's number and a value. Static shared memory is the size of
 * .nv.shared.K, minus the bytes that the system reserves. The file is not
 * trusted, because SPC_NVRTC may name any library.
 */
#include "base/error.h"
#include "compiler/artefact.h"
#include "compiler/backend.h"
#include "compiler/elf_file.h"
#include <stdio.h>
#include <string.h>

enum {
    FORMAT_SIZED = 4, /* the record has a payload of `size` bytes */
    INFO_FRAME_SIZE = 0x11,
    INFO_REGISTERS = 0x2f,
    RESERVED_BYTES = 1024, /* of shared memory, used by the system from sm_90
                            * on */
};

typedef struct kernel {
    const char *name;
    uint32_t symbol;
    int64_t registers;
    int64_t frame_bytes;
    int64_t shared_bytes;
    int64_t code_bytes;
} kernel;

/* Returns the number of the symbol `name`, or 0. */
static uint32_t find_symbol(const spc__elf *file, const char *name)
{
    Elf64_Shdr table;

    if (!spc__elf_find(&table, file, ".symtab") || table.sh_type == SHT_NOBITS)
        return 0;
    for (uint64_t i = 1; i < table.sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        /* The value may be unaligned, so it is copied and not cast. */
        memcpy(&symbol, file->data + table.sh_offset + i * sizeof(symbol),
               sizeof(symbol));
        const char *found =
            spc__elf_string(file, table.sh_link, symbol.st_name);
        if (found != NULL && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            strcmp(found, name) == 0)
            return (uint32_t)i;
    }
    return 0;
}

/* Takes a record of (symbol, value) if the symbol is the kernel's. */
static void apply_record(kernel *k, int attribute, const unsigned char *payload)
{
    uint32_t words[2];

    memcpy(words, payload, sizeof(words));
    if (words[0] != k->symbol)
        return;
    if (attribute == INFO_REGISTERS)
        k->registers = words[1];
    else if (attribute == INFO_FRAME_SIZE)
        k->frame_bytes = words[1];
}

/* Reads registers and stack frame of the kernel from .nv.info. */
static void read_info(const spc__elf *file, kernel *k)
{
    Elf64_Shdr section;

    if (!spc__elf_find(&section, file, ".nv.info") ||
        section.sh_type == SHT_NOBITS)
        return;
    const unsigned char *p = file->data + section.sh_offset;
    const unsigned char *end = p + section.sh_size;
    while (end - p >= 4) {
        /* In the other formats these two bytes are the value. */
        size_t bytes = p[0] == FORMAT_SIZED ? p[2] | (size_t)p[3] << 8 : 0;
        if ((size_t)(end - p - 4) < bytes)
            return;
        if (bytes >= 8)
            apply_record(k, p[1], p + 4);
        p += 4 + bytes;
    }
}

/* Returns the compute capability, as in sm_90. CUDA 13 moved the field. */
static unsigned arch_of(const spc__elf *file)
{
    unsigned flags = file->header.e_flags;
    return file->header.e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 & 0xff
                                                    : flags & 0xff;
}

/* Returns the kernel's static shared memory without the bytes that the system
 * reserves. */
static int64_t shared_bytes(const spc__elf *file, const char *kernel_name)
{
    Elf64_Shdr section;
    char name[512];

    int length = snprintf(name, sizeof(name), ".nv.shared.%s", kernel_name);
    if (length >= (int)sizeof(name) || !spc__elf_find(&section, file, name))
        return 0;
    int64_t bytes = (int64_t)section.sh_size;
    return arch_of(file) >= 90 && bytes >= RESERVED_BYTES
               ? bytes - RESERVED_BYTES
               : bytes;
}

static void read_kernel(const spc__elf *file, const Elf64_Shdr *text,
                        kernel *out)
{
    out->name = spc__elf_name(file, text) + strlen(".text.");
    out->symbol = find_symbol(file, out->name);
    out->code_bytes = (int64_t)text->sh_size;
    read_info(file, out);
    out->shared_bytes = shared_bytes(file, out->name);
}

static bool is_cubin(spc__elf *file, const void *code, size_t bytes)
{
    return spc__elf_open(file, code, bytes) &&
           file->header.e_machine == EM_CUDA;
}

spc_status spc__cubin_report(spc__attrs *out, char *name, size_t size,
                             const void *code, size_t bytes, spc_error *error)
{
    spc__elf file;
    kernel best = {0};

    out->count = 0;
    if (!is_cubin(&file, code, bytes))
        return spc__fail(error, SPC_EFORMAT, "%zu bytes are not a cubin",
                         bytes);
    for (unsigned i = 0; i < file.header.e_shnum; i++) {
        Elf64_Shdr text;
        kernel k = {0};
        if (!spc__elf_section(&text, &file, i) ||
            strncmp(spc__elf_name(&file, &text), ".text.", 6) != 0)
            continue;
        read_kernel(&file, &text, &k);
        bool is_conv = strcmp(k.name, "spc_conv") == 0;
        /* A module of maps has several kernels and no spc_conv. The kernel with
         * the most registers represents it. */
        if (best.name == NULL || is_conv || k.registers > best.registers)
            best = k;
        if (is_conv)
            break;
    }
    if (best.name == NULL)
        return spc__fail(error, SPC_EFORMAT, "a cubin without a kernel");
    spc__attrs_set_number(out, "registers", best.registers);
    spc__attrs_set_number(out, "local_bytes", best.frame_bytes);
    spc__attrs_set_number(out, "static_shared_bytes", best.shared_bytes);
    spc__attrs_set_number(out, "code_bytes", best.code_bytes);
    snprintf(name, size, "%s", best.name);
    return SPC_OK;
}

/* True if all sections lie within the file and at least one is a kernel's. */
static bool is_whole(const spc__elf *file)
{
    bool has_kernel = false;

    for (unsigned i = 1; i < file->header.e_shnum; i++) {
        Elf64_Shdr section;
        if (!spc__elf_section(&section, file, i))
            return false;
        has_kernel |= section.sh_type == SHT_PROGBITS &&
                      strncmp(spc__elf_name(file, &section), ".text.", 6) == 0;
    }
    return has_kernel;
}

spc_status spc__cubin_check(const void *code, size_t bytes, int capability,
                            spc_error *error)
{
    spc__elf file;

    if (!is_cubin(&file, code, bytes))
        return spc__fail(error, SPC_EFORMAT, "%zu bytes are not code for a GPU",
                         bytes);
    int built = (int)arch_of(&file);
    /* Code runs on later devices of the same major number only. */
    if (built / 10 != capability / 10 || built > capability)
        return spc__fail(error, SPC_EFORMAT,
                         "it is code for sm_%d, which a GPU of capability "
                         "%d.%d does not run",
                         built, capability / 10, capability % 10);
    if (!is_whole(&file))
        return spc__fail(
            error, SPC_EFORMAT,
            "damaged code for a GPU: parts of it are outside its %zu bytes",
            bytes);
    return SPC_OK;
}
