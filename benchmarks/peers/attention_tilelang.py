"""Attention forward in TileLang 0.1.15: the peer of `specs/attention/attention_direct.tk`, shown in docs/compare.md."""

import tilelang.language as T


def attention(batch, heads, length, dim, rows=128, keys=128, threads=256):
    shape, scale = (batch, heads, length, dim), 1.44269504 / dim**0.5
    whole_rows = T.GemmWarpPolicy.FullRow

    @T.prim_func
    def attend(
        Q: T.Tensor(shape, "bfloat16"),
        K: T.Tensor(shape, "bfloat16"),
        V: T.Tensor(shape, "bfloat16"),
        Out: T.Tensor(shape, "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(length, rows), heads, batch, threads=threads) as (x, h, b):
            q = T.alloc_shared((rows, dim), "bfloat16")
            k = T.alloc_shared((keys, dim), "bfloat16")
            v = T.alloc_shared((keys, dim), "bfloat16")
            s = T.alloc_fragment((rows, keys), "float32")
            p = T.alloc_fragment((rows, keys), "bfloat16")
            o = T.alloc_fragment((rows, dim), "float32")
            m = T.alloc_fragment((rows,), "float32")
            n = T.alloc_fragment((rows,), "float32")
            r = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(Q[b, h, x * rows : (x + 1) * rows, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(m, -T.infinity("float32"))
            for j in T.Pipelined(T.ceildiv(length, keys), num_stages=2):
                T.copy(K[b, h, j * keys : (j + 1) * keys, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=whole_rows)
                T.copy(m, n)
                T.reduce_max(s, n, dim=1, clear=False)
                for i in T.Parallel(rows):
                    r[i] = T.exp2((m[i] - n[i]) * scale)
                for i, c in T.Parallel(rows, keys):
                    s[i, c] = T.exp2((s[i, c] - n[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * r[i] + part[i]
                for i, c in T.Parallel(rows, dim):
                    o[i, c] *= r[i]
                T.copy(s, p)
                T.copy(V[b, h, j * keys : (j + 1) * keys, :], v)
                T.gemm(p, v, o, policy=whole_rows)
                T.copy(n, m)
            for i, c in T.Parallel(rows, dim):
                o[i, c] /= total[i]
            T.copy(o, Out[b, h, x * rows : (x + 1) * rows, :])

    return attend
