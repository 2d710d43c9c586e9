/*
 * statics.c - memory of compiled code that lasts from launch to launch.
 *
 * In a cubin that is its global memory. A shared object has more to write to:
 * tables of addresses, which the loader fills and then locks, and what the
 * linker puts in on its own, a byte and an address. What the code has itself
 * shows as symbols, or as sections that are larger than that.
 */
#include "artefact.h"
#include "elf_file.h"
#include <string.h>

/* Bytes of a section that may be the linker's. */
enum { LINKERS = 8 };

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* ---- symbols ------------------------------------------------------------- */

typedef struct symbols {
    int count;
    size_t bytes;
} symbols;

/* Those of section `i` of which `counts` says so. */
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

/* What the compiler's own atomics leave there, and nobody reads. */
static bool is_compilers(const char *name, uint64_t bytes)
{
    return bytes == 1 && begins(name, "_ZN26__nv_atomic_triv_cp_helper");
}

static size_t global_bytes(const spc__elf *file, unsigned i,
                           const Elf64_Shdr *section)
{
    if (!begins(spc__elf_name(file, section), ".nv.global"))
        return 0;
    return (size_t)section->sh_size - symbols_of(file, i, is_compilers).bytes;
}

/* ---- shared objects ------------------------------------------------------ */

/* Is it the loader's, which locks it? */
static bool is_locked(const char *name)
{
    static const char *const names[] = {
        ".init_array", ".fini_array",  ".preinit_array", ".dynamic",
        ".got",        ".data.rel.ro", ".tm_clone_table"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (begins(name, names[i]))
            return true;
    return false;
}

/* The byte in which the linker's own code notes that it has run. */
static bool is_linkers(const char *name, uint64_t bytes)
{
    return bytes == 1 && begins(name, "completed.");
}

static bool is_own(const char *name, uint64_t bytes)
{
    (void)bytes;
    return strcmp(name, "__dso_handle") != 0;
}

/* A sanitizer, with which this is built, gives code that it looks at static
 * memory of its own: nothing can be told then. */
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

static size_t section_bytes(const spc__elf *file, unsigned i,
                            const Elf64_Shdr *section)
{
    size_t size = (size_t)section->sh_size;

    if (!(section->sh_flags & SHF_ALLOC) || !(section->sh_flags & SHF_WRITE) ||
        is_locked(spc__elf_name(file, section)))
        return 0;
    size_t own = symbols_of(file, i, is_own).bytes;
    if (section->sh_type == SHT_NOBITS &&
        symbols_of(file, i, is_linkers).count > 0)
        own--;
    size = size > LINKERS ? size - LINKERS : 0;
    return own > size ? own : size;
}

/* ---- either -------------------------------------------------------------- */

size_t spc__code_statics(const void *code, size_t bytes)
{
    spc__elf file;
    Elf64_Shdr section;
    size_t statics = 0;

    if (!spc__elf_open(&file, code, bytes) ||
        symbols_of(&file, SHN_UNDEF, is_sanitizers).count > 0)
        return 0;
    for (unsigned i = 1; i < file.header.e_shnum; i++) {
        if (!spc__elf_section(&section, &file, i))
            continue;
        if (file.header.e_machine != EM_CUDA)
            statics += section_bytes(&file, i, &section);
        else
            statics += global_bytes(&file, i, &section);
    }
    return statics;
}
