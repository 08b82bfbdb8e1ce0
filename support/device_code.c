/* See device_code.h. NVIDIA documents neither the container nor the attributes of a kernel (.nv.info); both have been the
 * same for a decade. What is relied on is checked, and a file that looks otherwise is refused. */
#include "device_code.h"

#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONTAINER_MAGIC = (int)0xba55ed50,
    CONTAINER_HEADER = 16,
    ENTRY_HEADER = 64, /* at least */
    KIND_PTX = 1,
    KIND_CUBIN = 2,
    ENTRY_POINT = 0x10, /* in st_other: the function is a kernel */
    VALUES = 4,         /* format of an attribute with values; the others have two bytes */
    STACK_BYTES = 0x12, /* attributes: symbol, value */
    REGISTERS = 0x2f,
};

typedef struct span {
    const unsigned char *bytes;
    size_t size;
} span;

/* One ELF file, of the host or of a GPU. */
typedef struct elf {
    span file;
    size_t sections, table; /* number of section headers, and where they are */
    span names;
    const char *arch; /* of a cubin */
} elf;

static int fail(device_code *code, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(device_code *code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(code->error, sizeof code->error, format, arguments);
    va_end(arguments);
    return -1;
}

/* Bytes [offset, offset + size) of a span; empty if it does not have them all. */
static span part(span whole, uint64_t offset, uint64_t size)
{
    if (offset > whole.size || size > whole.size - offset)
        return (span){0};
    return (span){whole.bytes + offset, (size_t)size};
}

/* Copies what a span begins with; 0 if it is shorter. */
static int take(void *to, size_t size, span from)
{
    if (from.size < size)
        return 0;
    memcpy(to, from.bytes, size);
    return 1;
}

static const char *text_at(span strings, size_t offset)
{
    return offset < strings.size && memchr(strings.bytes + offset, 0, strings.size - offset)
               ? (const char *)strings.bytes + offset
               : "";
}

static int grow(device_code *code, void **items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return 0;
    const size_t more = *room ? 2 * *room : 64;
    void *larger = realloc(*items, more * size);
    if (!larger)
        return fail(code, "out of memory");
    *items = larger;
    *room = more;
    return 0;
}

/* ---- ELF ---- */

static span contents(const elf *e, const Elf64_Shdr *header)
{
    return header->sh_type == SHT_NOBITS ? (span){0} : part(e->file, header->sh_offset, header->sh_size);
}

static int section_at(const elf *e, size_t index, Elf64_Shdr *header)
{
    return index < e->sections &&
           take(header, sizeof *header, part(e->file, e->table + index * sizeof *header, sizeof *header));
}

static int open_elf(device_code *code, span file, int machine, elf *e)
{
    Elf64_Ehdr header;
    Elf64_Shdr names;
    if (!take(&header, sizeof header, file) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || (machine && header.e_machine != machine) ||
        header.e_shentsize != sizeof(Elf64_Shdr))
        return fail(code, "not the kind of ELF file that was expected");
    *e = (elf){.file = file, .sections = header.e_shnum, .table = header.e_shoff};
    if (!section_at(e, header.e_shstrndx, &names))
        return fail(code, "an ELF file without section names");
    e->names = contents(e, &names);
    return 0;
}

/* The section of a name: its header in `header`; 0 if there is none. */
static int find_section(const elf *e, const char *name, Elf64_Shdr *header)
{
    for (size_t i = 0; section_at(e, i, header); i++)
        if (strcmp(text_at(e->names, header->sh_name), name) == 0)
            return 1;
    return 0;
}

/* ---- Cubins ---- */

/* ptxas leaves a note of texts: its version, then its options. */
static int read_note(device_code *code, const elf *e, char arch[16])
{
    static const char option[] = "-arch ", version[] = "Cuda compilation tools, ";
    Elf64_Shdr header;
    const span note = find_section(e, ".note.nv.tkinfo", &header) ? contents(e, &header) : (span){0};
    arch[0] = '\0';
    for (size_t at = 0; at < note.size; at++) {
        const char *text = text_at(note, at);
        if (strncmp(text, option, strlen(option)) == 0)
            snprintf(arch, 16, "%.*s", (int)strcspn(text + strlen(option), " "), text + strlen(option));
        if (strncmp(text, version, strlen(version)) == 0)
            snprintf(code->compiler, sizeof code->compiler, "%s", text);
    }
    return arch[0] ? 0 : fail(code, "a cubin that does not say for which architecture it is");
}

/* The value of an attribute for a symbol; -1 if it is not there. */
static int attribute(const elf *e, uint32_t symbol, int which)
{
    Elf64_Shdr header;
    span info = find_section(e, ".nv.info", &header) ? contents(e, &header) : (span){0};
    uint8_t head[4];
    while (take(head, sizeof head, info)) {
        const size_t size = head[0] == VALUES ? (size_t)(head[2] | head[3] << 8) : 0;
        uint32_t values[2];
        if (head[1] == which && size == sizeof values && take(values, size, part(info, sizeof head, size)) &&
            values[0] == symbol)
            return (int)values[1];
        info = part(info, sizeof head + size, info.size - sizeof head - size);
    }
    return -1;
}

static int add_kernel(device_code *code, const elf *e, uint32_t index, const char *name, size_t code_bytes)
{
    const device_kernel kernel = {.name = name,
                                  .registers = attribute(e, index, REGISTERS),
                                  .stack_bytes = attribute(e, index, STACK_BYTES),
                                  .code_bytes = code_bytes};
    if (kernel.registers < 0 || kernel.stack_bytes < 0)
        return fail(code, "%s: no registers or stack size is stated", name);
    if (grow(code, (void **)&code->kernels, code->kernel_count, &code->kernel_room, sizeof kernel) != 0)
        return -1;
    code->kernels[code->kernel_count] = kernel;
    strcpy(code->kernels[code->kernel_count++].arch, e->arch);
    return 0;
}

static int read_kernels(device_code *code, const elf *e)
{
    Elf64_Shdr table, strings, body;
    if (!find_section(e, ".symtab", &table) || !section_at(e, table.sh_link, &strings))
        return fail(code, "a cubin without symbols");
    const span symbols = contents(e, &table), names = contents(e, &strings);
    Elf64_Sym symbol;
    for (uint32_t i = 0; take(&symbol, sizeof symbol, part(symbols, i * sizeof symbol, sizeof symbol)); i++)
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_other & ENTRY_POINT &&
            section_at(e, symbol.st_shndx, &body) &&
            add_kernel(code, e, i, text_at(names, symbol.st_name), body.sh_size) != 0)
            return -1;
    return 0;
}

static int read_sections(device_code *code, const elf *e)
{
    Elf64_Shdr header;
    for (size_t i = 0; section_at(e, i, &header); i++) {
        if (header.sh_type != SHT_PROGBITS || !(header.sh_flags & SHF_ALLOC))
            continue;
        if (grow(code, (void **)&code->sections, code->section_count, &code->section_room, sizeof *code->sections) != 0)
            return -1;
        device_section *section = &code->sections[code->section_count++];
        const span bytes = contents(e, &header);
        sb_sha256 hash;
        strcpy(section->arch, e->arch);
        sb_sha256_begin(&hash);
        sb_sha256_update(&hash, bytes.bytes, bytes.size);
        sb_sha256_end(&hash, section->hash);
    }
    return 0;
}

static int read_cubin(device_code *code, span file)
{
    char arch[16];
    elf e;
    if (open_elf(code, file, EM_CUDA, &e) != 0 || read_note(code, &e, arch) != 0)
        return -1;
    e.arch = arch;
    return read_kernels(code, &e) != 0 ? -1 : read_sections(code, &e);
}

/* ---- Containers ---- */

/* Header: kind (2 bytes), version (2), size of the header (4), size of the file (8), size if it is compressed (4), ... */
static int read_container(device_code *code, span entries)
{
    while (entries.size > 0) {
        uint16_t kind;
        uint32_t header, packed;
        uint64_t size;
        if (entries.size < ENTRY_HEADER)
            return fail(code, "a container of machine code ends within an entry");
        memcpy(&kind, entries.bytes, sizeof kind);
        memcpy(&header, entries.bytes + 4, sizeof header);
        memcpy(&size, entries.bytes + 8, sizeof size);
        memcpy(&packed, entries.bytes + 16, sizeof packed);
        const span file = part(entries, header, size);
        if ((kind != KIND_PTX && kind != KIND_CUBIN) || header < ENTRY_HEADER || !file.bytes)
            return fail(code, "an entry of kind %d in a container of machine code", kind);
        if (kind == KIND_CUBIN && packed)
            return fail(code, "the machine code is compressed; build with --compress-mode=none");
        if (kind == KIND_CUBIN && read_cubin(code, file) != 0)
            return -1;
        entries = part(entries, header + size, entries.size - header - size);
    }
    return 0;
}

static int read_containers(device_code *code, span rest)
{
    while (rest.size > 0) {
        uint32_t magic, version;
        uint64_t size;
        if (rest.size < CONTAINER_HEADER)
            return fail(code, "%zu bytes after the last container of machine code", rest.size);
        memcpy(&magic, rest.bytes, sizeof magic);
        memcpy(&version, rest.bytes + 4, sizeof version);
        memcpy(&size, rest.bytes + 8, sizeof size);
        if (magic == 0) { /* between two objects */
            rest = part(rest, 8, rest.size - 8);
            continue;
        }
        if (magic != (uint32_t)CONTAINER_MAGIC || version != (1 | CONTAINER_HEADER << 16))
            return fail(code, "a container of machine code begins with %08x %08x", magic, version);
        const span entries = part(rest, CONTAINER_HEADER, size);
        if (entries.size != size)
            return fail(code, "a container of machine code is cut short");
        if (read_container(code, entries) != 0)
            return -1;
        rest = part(rest, CONTAINER_HEADER + size, rest.size - CONTAINER_HEADER - size);
    }
    return 0;
}

/* ---- */

static int read_file(device_code *code, const char *path)
{
    FILE *stream = fopen(path, "rb");
    long size = -1;
    if (stream && fseek(stream, 0, SEEK_END) == 0)
        size = ftell(stream);
    if (size >= 0 && (code->file = malloc((size_t)size + 1)) && fseek(stream, 0, SEEK_SET) == 0)
        code->size = fread(code->file, 1, (size_t)size, stream);
    if (stream)
        fclose(stream);
    return size >= 0 && code->size == (size_t)size ? 0 : -1;
}

int device_code_read(device_code *code, const char *path)
{
    Elf64_Shdr header;
    elf e;
    *code = (device_code){0};
    if (read_file(code, path) != 0)
        return fail(code, "cannot be read");
    if (open_elf(code, (span){code->file, code->size}, 0, &e) != 0)
        return -1;
    if (!find_section(&e, ".nv_fatbin", &header))
        return fail(code, "has no machine code for a GPU");
    return read_containers(code, contents(&e, &header));
}

void device_code_release(device_code *code)
{
    free(code->file);
    free(code->kernels);
    free(code->sections);
}

const char *device_code_arch(const device_code *code, const char *arch)
{
    static const char prefix[] = "sm_";
    const size_t skipped = strlen(prefix);
    if (strncmp(arch, prefix, skipped) != 0)
        return NULL;
    const long device = strtol(arch + skipped, NULL, 10);
    const char *best = NULL;
    long of_best = 0;
    for (size_t i = 0; i < code->kernel_count; i++) {
        const long candidate = strtol(code->kernels[i].arch + skipped, NULL, 10);
        if (candidate / 10 == device / 10 && candidate <= device && candidate > of_best) {
            best = code->kernels[i].arch;
            of_best = candidate;
        }
    }
    return best;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

int device_code_hash(const device_code *code, const char *arch, char hash[SB_SHA256_HEX_SIZE])
{
    char(*hashes)[SB_SHA256_HEX_SIZE] = malloc((code->section_count + 1) * sizeof *hashes);
    size_t count = 0;
    sb_sha256 all;
    if (!hashes)
        return -1;
    for (size_t i = 0; i < code->section_count; i++)
        if (strcmp(code->sections[i].arch, arch) == 0)
            memcpy(hashes[count++], code->sections[i].hash, sizeof *hashes);
    qsort(hashes, count, sizeof *hashes, compare_text);
    sb_sha256_begin(&all);
    sb_sha256_update(&all, hashes, count * sizeof *hashes);
    sb_sha256_end(&all, hash);
    free(hashes);
    return count > 0 ? 0 : -1;
}
