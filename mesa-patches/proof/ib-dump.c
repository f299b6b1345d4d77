/* Preloaded in front of Mesa's amdgpu drm-shim: appends every command buffer that the process submits to a file, word
 * for word, so that two drivers can be compared byte by byte.
 *
 * The packet counter of this repository says how many packets of which kind there are. That two builds emit the same
 * bytes is a stronger statement, and needs the bytes. Secondary buffers are followed through INDIRECT_BUFFER packets.
 * What cannot be read is written as a line that says so, so that it can't pass for equal by being left out on one side.
 *
 *   ZINC_BARRIER_IB_DUMP   the file
 *
 * Only what RADV and the shim of Mesa 25 do is handled: one process, buffers that the driver maps itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <libdrm/amdgpu_drm.h>
#include <libdrm/drm.h>

enum { MAX = 1 << 16, DEPTH = 4 };

struct bo {
   uint32_t handle;
   uint64_t size, mmap_offset;
   void *cpu;
};

struct range {
   uint64_t va, size, bo_offset;
   uint32_t handle;
};

static struct bo bos[MAX];
static struct range ranges[MAX];
static unsigned bo_count, range_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static int device = -1;

static struct bo *bo_of(uint32_t handle)
{
   for (unsigned i = bo_count; i-- > 0;)
      if (bos[i].handle == handle)
         return &bos[i];
   return NULL;
}

static const uint32_t *cpu_of(uint64_t va, uint64_t bytes)
{
   for (unsigned i = range_count; i-- > 0;) {
      struct range *r = &ranges[i];
      if (va < r->va || va + bytes > r->va + r->size)
         continue;
      struct bo *bo = bo_of(r->handle);
      if (bo && !bo->cpu && bo->mmap_offset) {
         /* A buffer that the driver has unmapped again. */
         void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
         void *p = real(NULL, bo->size, PROT_READ, MAP_SHARED, device, bo->mmap_offset);
         bo->cpu = p == MAP_FAILED ? NULL : p;
      }
      return bo && bo->cpu ? (const void *)((char *)bo->cpu + r->bo_offset + (va - r->va)) : NULL;
   }
   return NULL;
}

static void dump(uint64_t va, uint64_t bytes, int depth)
{
   const uint32_t *words = cpu_of(va, bytes);
   uint64_t count = bytes / 4;

   fprintf(out, "ib depth %d words %llu%s\n", depth, (unsigned long long)count, words ? "" : " UNREADABLE");
   if (!words)
      return;
   for (uint64_t i = 0; i < count; i++)
      fprintf(out, "%08x\n", words[i]);

   /* Type 3: opcode in bits 8 to 15, words behind the header less one in bits 16 to 29. */
   for (uint64_t i = 0; i < count;) {
      uint32_t head = words[i];
      uint64_t length = head >> 30 == 3 ? ((head >> 16) & 0x3fff) + 2 : 1;
      if (head >> 30 == 3 && length == 0x3fff + 2)
         length = 1; /* a one-word NOP */
      if (head >> 30 == 3 && ((head >> 8) & 0xff) == 0x3f && i + 3 < count && depth < DEPTH) {
         /* 48 bits of an address that is sign-extended. */
         uint64_t target = words[i + 1] | (uint64_t)(words[i + 2] & 0xffff) << 32;
         target = (uint64_t)((int64_t)(target << 16) >> 16);
         dump(target, (words[i + 3] & 0xfffff) * 4ull, depth + 1);
      }
      i += length;
   }
}

static void submitted(struct drm_amdgpu_cs_in *in)
{
   const uint64_t *chunks = (const uint64_t *)(uintptr_t)in->chunks;
   for (uint32_t i = 0; i < in->num_chunks; i++) {
      const struct drm_amdgpu_cs_chunk *chunk = (const void *)(uintptr_t)chunks[i];
      if (chunk->chunk_id != AMDGPU_CHUNK_ID_IB)
         continue;
      const struct drm_amdgpu_cs_chunk_ib *ib = (const void *)(uintptr_t)chunk->chunk_data;
      fprintf(out, "submit ip %u flags %x\n", ib->ip_type, ib->flags);
      dump(ib->va_start, ib->ib_bytes, 0);
   }
   fflush(out);
}

/* The call's number alone: libraries disagree about the direction bits of some calls. */
static int is(unsigned long request, unsigned command)
{
   return _IOC_TYPE(request) == DRM_IOCTL_BASE && _IOC_NR(request) == DRM_COMMAND_BASE + command;
}

__attribute__((constructor)) static void begin(void)
{
   const char *path = getenv("ZINC_BARRIER_IB_DUMP");
   out = path && path[0] ? fopen(path, "w") : NULL;
   if (path && path[0] && !out) {
      perror(path);
      _exit(1);
   }
}

int ioctl(int fd, unsigned long request, ...)
{
   static int (*real)(int, unsigned long, ...);
   va_list list;
   va_start(list, request);
   void *arg = va_arg(list, void *);
   va_end(list);
   if (!real)
      real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
   if (!out)
      return real(fd, request, arg);

   pthread_mutex_lock(&lock);
   uint64_t wanted = 0;
   if (is(request, DRM_AMDGPU_CS))
      submitted(&((union drm_amdgpu_cs *)arg)->in);
   if (is(request, DRM_AMDGPU_GEM_CREATE))
      wanted = ((union drm_amdgpu_gem_create *)arg)->in.bo_size;
   if (is(request, DRM_AMDGPU_GEM_MMAP))
      wanted = ((union drm_amdgpu_gem_mmap *)arg)->in.handle;
   pthread_mutex_unlock(&lock);

   int result = real(fd, request, arg);

   pthread_mutex_lock(&lock);
   if (result == 0 && is(request, DRM_AMDGPU_GEM_CREATE) && bo_count < MAX) {
      bos[bo_count++] = (struct bo){.handle = ((union drm_amdgpu_gem_create *)arg)->out.handle, .size = wanted};
      device = fd;
   }
   if (result == 0 && is(request, DRM_AMDGPU_GEM_MMAP)) {
      struct bo *bo = bo_of(wanted);
      if (bo)
         bo->mmap_offset = ((union drm_amdgpu_gem_mmap *)arg)->out.addr_ptr;
   }
   if (result == 0 && is(request, DRM_AMDGPU_GEM_VA)) {
      const struct drm_amdgpu_gem_va *va = arg;
      int maps = va->operation == AMDGPU_VA_OP_MAP || va->operation == AMDGPU_VA_OP_REPLACE;
      if (maps && range_count < MAX)
         ranges[range_count++] = (struct range){va->va_address, va->map_size, va->offset_in_bo, va->handle};
   }
   if (result == 0 && request == DRM_IOCTL_GEM_CLOSE) {
      struct bo *bo = bo_of(((struct drm_gem_close *)arg)->handle);
      if (bo)
         *bo = (struct bo){0};
   }
   pthread_mutex_unlock(&lock);
   return result;
}

static void mapped(void *cpu, int fd, off_t offset)
{
   if (cpu == MAP_FAILED || fd != device || !offset)
      return;
   pthread_mutex_lock(&lock);
   for (unsigned i = bo_count; i-- > 0;)
      if (bos[i].handle && bos[i].mmap_offset == (uint64_t)offset) {
         bos[i].cpu = cpu;
         break;
      }
   pthread_mutex_unlock(&lock);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
   void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
   void *cpu = real(at, size, protection, flags, fd, offset);
   if (out)
      mapped(cpu, fd, offset);
   return cpu;
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
   void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap64");
   void *cpu = real(at, size, protection, flags, fd, offset);
   if (out)
      mapped(cpu, fd, offset);
   return cpu;
}

int munmap(void *at, size_t size)
{
   int (*real)(void *, size_t) = dlsym(RTLD_NEXT, "munmap");
   if (out) {
      pthread_mutex_lock(&lock);
      for (unsigned i = 0; i < bo_count; i++)
         if (bos[i].cpu == at)
            bos[i].cpu = NULL;
      pthread_mutex_unlock(&lock);
   }
   return real(at, size);
}
