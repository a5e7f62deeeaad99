/* kernels/wgmma.cuh - the warpgroup matrix instructions that attend.cu uses.
 *
 * Tiles in shared memory: rows of 128 bytes (64 bf16), the 16-byte pieces of a
 * row in the order piece ^ (row % 8), 1,024-byte aligned: what the descriptors
 * call the 128-byte swizzle (PTX ISA, "Shared memory matrix layout").
 */
#ifndef PL_KERNELS_WGMMA_CUH
#define PL_KERNELS_WGMMA_CUH

#include <stdint.h>

/* Byte of element (row, column) of a tile of rows of 64 bf16. */
__device__ inline uint32_t pl_swizzled(int row, int piece)
{
    return (uint32_t)(row * 128 + ((piece ^ (row & 7)) * 16));
}

/* leading: bytes from one 64-element column block to the next, where the tile
 * is read across rows; stride: bytes from 8 rows to the next 8. */
__device__ inline uint64_t pl_descriptor(uint32_t address, uint32_t leading,
                                         uint32_t stride)
{
    return (uint64_t)((address & 0x3FFFF) >> 4) |
           (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
           UINT64_C(1) << 62;
}

__device__ inline void pl_wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void pl_wgmma_end()
{
    asm volatile("wgmma.commit_group.sync.aligned;\n"
                 "wgmma.wait_group.sync.aligned 0;" ::
                     : "memory");
}

/* Ordinary stores to shared memory become visible to the matrix units. */
__device__ inline void pl_wgmma_publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define PL_R8(d, i)                                                            \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]),                \
        "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PL_R32(d, i)                                                           \
    PL_R8(d, i), PL_R8(d, i + 8), PL_R8(d, i + 16), PL_R8(d, i + 24)

/* d [64][64] (+)= a [64][16] b [64][16]^T; both in shared memory, row by row.
 */
__device__ inline void pl_wgmma_64x64(float (&d)[32], uint64_t a, uint64_t b,
                                      int accumulate)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}\n"
        : PL_R32(d, 0)
        : "l"(a), "l"(b), "r"(accumulate));
}

/* d [64][256] += a [64][16] b [16][256]; a in registers, b in shared memory as
 * 16 rows of four blocks of 64 columns. */
__device__ inline void pl_wgmma_64x256(float (&d)[128], const uint32_t (&a)[4],
                                       uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,"
        "%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,"
        "%123,%124,%125,%126,%127}, "
        "{%128,%129,%130,%131}, %132, 1, 1, 1, 1;\n"
        : PL_R32(d, 0), PL_R32(d, 32), PL_R32(d, 64), PL_R32(d, 96)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#endif /* PL_KERNELS_WGMMA_CUH */
