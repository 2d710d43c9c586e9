/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statics.c - finds static memory of compiled code that persists between
 * launches.
 *
 * In a cubin this is the global memory. In a shared object it is every section
 * that is writable while the code runs, whatever its name. Sections that the
 * loader makes read-only after relocation, as a program header lists them, do
 * not count. For thread-local sections such a lock covers only the initial
 * image, so they do count. Code from our own templates has no such memory:
 * hostcc.c keeps the linker from adding any and has tables of addresses locked.
 */
#include "compiler/artefact.h"
#include "compiler/elf_file.h"
#include <string.h>

/* The smallest page that a loader locks. */
enum { PAGE = 4096 };

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* ---- symbols ------------------------------------------------------------- */

typedef struct symbols {
    int count;
    size_t bytes;
} symbols;

/* Counts the symbols of section `i` for which `counts` returns true. */
static symbols symbols_of(const spc__elf *file, unsigned i,
                          bool counts(const char *name, uint64_t bytes))
{
    Elf64_Shdr table;
    symbols found = {0};

    if (!spc__elf_find(&table, file, ".symtab") || table.sh_type == SHT_NOBITS)
        return found;
    for (uint64_t n = 1; n < table.sh_size / sizeof(Elf64_Sym); n++) {
        Elf64_Sym symbol;
        memcpy(&symbol, file->data + table.sh_offset + n * sizeof(symbol),
               sizeof(symbol));
        const char *name = spc__elf_string(file, table.sh_link, symbol.st_name);
        if (symbol.st_shndx != i || name == NULL ||
            !counts(name, symbol.st_size))
            continue;
        found.count++;
        found.bytes += (size_t)symbol.st_size;
    }
    return found;
}

/* ---- cubins -------------------------------------------------------------- */

/* True for a byte of the compiler's own atomics, which is never read. */
static bool is_compilers(const char *name, uint64_t bytes)
{
    return bytes == 1 && begins(name, "_ZN26__nv_atomic_triv_cp_helper");
}

static size_t global_bytes(const spc__elf *file, unsigned i,
                           const Elf64_Shdr *section)
{
    if (!begins(spc__elf_name(file, section), ".nv.global"))
        return 0;
    size_t compilers = symbols_of(file, i, is_compilers).bytes;
    return section->sh_size > compilers ? (size_t)section->sh_size - compilers
                                        : 0;
}

/* ---- shared objects ------------------------------------------------------ */

/* In a sanitizer build, the sanitizer adds static memory to the code, so
 * nothing can be concluded. */
static bool is_sanitizers(const char *name, uint64_t bytes)
{
    (void)bytes;
#ifdef SPC_SANITIZE
    return begins(name, "__asan_init") || begins(name, "__tsan_init");
#else
    (void)name;
    return false;
#endif
}

/* The whole pages of addresses that the loader locks. */
typedef struct locked {
    uint64_t first, end;
} locked;

/* Finds the range that a program header (PT_GNU_RELRO) names. */
static locked find_locked(const spc__elf *file)
{
    Elf64_Phdr header;

    for (unsigned i = 0; i < file->header.e_phnum; i++)
        if (spc__elf_segment(&header, file, i) && header.p_type == PT_GNU_RELRO)
            /* The loader rounds the end down to whole pages. The rest stays
             * writable. */
            return (locked){header.p_vaddr,
                            (header.p_vaddr + header.p_memsz) / PAGE * PAGE};
    return (locked){0, 0};
}

static size_t writable_bytes(const Elf64_Shdr *section, const locked *by)
{
    uint64_t first = section->sh_addr, size = section->sh_size;
    bool is_locked =
        first >= by->first && first <= by->end && size <= by->end - first;

    if (!(section->sh_flags & SHF_ALLOC) || !(section->sh_flags & SHF_WRITE) ||
        (is_locked && !(section->sh_flags & SHF_TLS)))
        return 0;
    return (size_t)size;
}

/* ---- both ---------------------------------------------------------------- */

/* Adds without overflow, since sizes in the file may be arbitrary. */
static size_t plus(size_t sum, size_t more)
{
    const size_t most = SIZE_MAX / 2;

    return sum > most || more > most - sum ? most : sum + more;
}

size_t spc__code_statics(const void *code, size_t bytes)
{
    spc__elf file;
    Elf64_Shdr section;
    size_t statics = 0;
    locked loader;

    if (!spc__elf_open(&file, code, bytes) ||
        symbols_of(&file, SHN_UNDEF, is_sanitizers).count > 0)
        return 0;
    loader = find_locked(&file);
    for (unsigned i = 1; i < file.header.e_shnum; i++) {
        if (!spc__elf_section(&section, &file, i))
            continue;
        if (file.header.e_machine != EM_CUDA)
            statics = plus(statics, writable_bytes(&section, &loader));
        else
            statics = plus(statics, global_bytes(&file, i, &section));
    }
    return statics;
}
