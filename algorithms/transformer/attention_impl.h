// SPDX-License-Identifier: Apache-2.0
// Attention of one head of one sequence, with scores that stay in the cache: part of
// vector_kernels_impl.h, inside its namespace.
//
// Queries are taken kBlock at a time. Keys and values are copied once per head, values and keys
// padded to whole registers, so that one small matrix product with vectors along columns does
// everything. Forward stores log-sum-exp of each query; backward makes the probabilities again.

constexpr std::int64_t kBlock = 48;
constexpr std::int64_t kRows = 6;                           // of a register tile
constexpr std::int64_t kVectors = ALG_WIDTH == 16 ? 4 : 2;  // of a register tile

ALG_INLINE std::int64_t padded(std::int64_t n) {
    return (n + 31) / 32 * 32;
}

// c[M, N] (+)= a[M, K] b[K, N]; a(m, k) = a[m * row + k * column]; N: whole registers.
struct Product {
    const float* a;
    std::int64_t row, column;
    const float* b;
    std::int64_t b_pitch;
    float* c;
    std::int64_t c_pitch;
    std::int64_t m, n, k;
    bool add;
};

template <int rows, int vectors>
ALG_INLINE void tile(const Product& p, std::int64_t m, std::int64_t n) {
    Vector sum[rows][vectors];
    float* const c = p.c + m * p.c_pitch + n;
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < vectors; ++j) {
            sum[i][j] =
                p.add ? *reinterpret_cast<const Vector*>(c + i * p.c_pitch + j * kWidth) : Vector{};
        }
    }
    const float* a = p.a + m * p.row;
    const float* b = p.b + n;
    for (std::int64_t k = 0; k < p.k; ++k, a += p.column, b += p.b_pitch) {
        Vector right[vectors];
        for (int j = 0; j < vectors; ++j) {
            right[j] = *reinterpret_cast<const Vector*>(b + j * kWidth);
        }
        for (int i = 0; i < rows; ++i) {
            const float left = a[i * p.row];
            for (int j = 0; j < vectors; ++j) {
                sum[i][j] += left * right[j];
            }
        }
    }
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < vectors; ++j) {
            *reinterpret_cast<Vector*>(c + i * p.c_pitch + j * kWidth) = sum[i][j];
        }
    }
}

template <int vectors>
void columns_of(const Product& p, std::int64_t n) {
    std::int64_t m = 0;
    for (; m + kRows <= p.m; m += kRows) {
        tile<kRows, vectors>(p, m, n);
    }
    switch (p.m - m) {
        case 5:
            tile<5, vectors>(p, m, n);
            break;
        case 4:
            tile<4, vectors>(p, m, n);
            break;
        case 3:
            tile<3, vectors>(p, m, n);
            break;
        case 2:
            tile<2, vectors>(p, m, n);
            break;
        case 1:
            tile<1, vectors>(p, m, n);
            break;
    }
}

void multiply(const Product& p) {
    std::int64_t n = 0;
    for (; n + kVectors * kWidth <= p.n; n += kVectors * kWidth) {
        columns_of<kVectors>(p, n);
    }
    switch ((p.n - n) / kWidth) {
        case 3:
            columns_of<3>(p, n);
            break;
        case 2:
            columns_of<2>(p, n);
            break;
        case 1:
            columns_of<1>(p, n);
            break;
    }
}

// Where things lie in the scratch memory.
struct Scratch {
    std::int64_t pitch, width;  // of scores; of values
    float *keys_t, *values;     // [size, pitch], [length, width]
    float *scores, *rows;       // [kBlock, pitch], [kBlock, width]
    float *keys, *values_t, *weights, *d_rows, *d_keys, *d_values;  // backward
};

ALG_INLINE std::int64_t scratch_floats(std::int64_t longest, std::int64_t size, bool backward) {
    const std::int64_t pitch = padded(longest);
    const std::int64_t width = padded(size);
    const std::int64_t forward = size * pitch + longest * width + kBlock * (pitch + width);
    return backward ? 2 * forward + 2 * longest * width + pitch : forward + pitch;
}

std::int64_t attention_scratch(const Attention& a, bool backward) {
    return scratch_floats(a.longest, a.size, backward);
}

ALG_INLINE Scratch divide(float* at, std::int64_t length, std::int64_t size, bool backward) {
    Scratch s{};
    s.pitch = padded(length);
    s.width = padded(size);
    const auto take = [&](std::int64_t floats) {
        float* const taken = at;
        at += floats;
        return taken;
    };
    s.keys_t = take(size * s.pitch);
    s.values = take(length * s.width);
    s.scores = take(kBlock * s.pitch);
    s.rows = take(kBlock * s.width);
    if (backward) {
        s.values_t = take(size * s.pitch);
        s.keys = take(length * s.width);
        s.weights = take(kBlock * s.pitch);
        s.d_rows = take(kBlock * s.width);
        s.d_keys = take(length * s.width);
        s.d_values = take(length * s.width);
    }
    return s;
}

// [rows, size] of a strided matrix, with zeros up to `width`.
ALG_INLINE void copy_rows(float* to, std::int64_t width, const float* from, std::int64_t stride,
                          std::int64_t rows, std::int64_t size) {
    for (std::int64_t r = 0; r < rows; ++r, to += width, from += stride) {
        for (std::int64_t i = 0; i < size; ++i) {
            to[i] = from[i];
        }
        for (std::int64_t i = size; i < width; ++i) {
            to[i] = 0;
        }
    }
}

// [size, pitch] of a strided [rows, size] matrix, with zeros up to `pitch`.
ALG_INLINE void transpose_rows(float* to, std::int64_t pitch, const float* from,
                               std::int64_t stride, std::int64_t rows, std::int64_t size) {
    for (std::int64_t block = 0; block < pitch; block += 16) {
        const std::int64_t real = rows - block < 16 ? rows - block : 16;
        for (std::int64_t i = 0; i < size; ++i) {
            float* const line = to + i * pitch + block;
            for (std::int64_t r = 0; r < real; ++r) {
                line[r] = from[(block + r) * stride + i];
            }
            for (std::int64_t r = real < 0 ? 0 : real; r < 16; ++r) {
                line[r] = 0;
            }
        }
    }
}

struct Place {
    std::int64_t first, length, stride, hidden, head;  // stride: of qkv's rows
    const float* q;
};

ALG_INLINE Place place_of(const Attention& a, std::int64_t sequence, std::int64_t head) {
    const std::int64_t first = a.offsets[sequence];
    const std::int64_t hidden = a.heads * a.size;
    return {first, a.offsets[sequence + 1] - first,           3 * hidden, hidden,
            head,  a.qkv + first * 3 * hidden + head * a.size};
}

// Keys that query i sees come first? For all and causal: [0, result); dense ones are masked apart.
ALG_INLINE std::int64_t seen(const Attention& a, const Place& p, std::int64_t query) {
    return a.causal ? query + 1 : p.length;
}

ALG_INLINE const bool* dense_row(const Attention& a, std::int64_t sequence, std::int64_t query) {
    return a.dense == nullptr ? nullptr : a.dense + sequence * a.dense_sequence + query * a.longest;
}

ALG_INLINE std::uint64_t first_number(const Attention& a, const Place& p, std::int64_t query) {
    return static_cast<std::uint64_t>(((p.first + query) * a.heads + p.head) * padded(a.longest));
}

// exp(factor * scores - shift) where seen, 0 elsewhere; returns the sum.
ALG_INLINE float exponentials(float* scores, float factor, float shift, std::int64_t n,
                              const bool* dense) {
    float sum = 0;
    if (dense != nullptr) {
        for (std::int64_t j = 0; j < n; ++j) {
            scores[j] = dense[j] ? fast_exp(scores[j] * factor - shift) : 0.0F;
            sum += scores[j];
        }
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < n; ++j) {
        scores[j] = fast_exp(scores[j] * factor - shift);
        sum += scores[j];
    }
    return sum;
}

ALG_INLINE float largest_seen(const float* scores, std::int64_t n, const bool* dense) {
    if (dense == nullptr) {
        return largest_of(scores, n);
    }
    float largest = -__builtin_inff();
    for (std::int64_t j = 0; j < n; ++j) {
        largest = dense[j] && scores[j] > largest ? scores[j] : largest;
    }
    return largest;
}

void attention(const Attention& a, float* memory, std::int64_t sequence, std::int64_t head) {
    const Place p = place_of(a, sequence, head);
    const Scratch s = divide(memory, p.length, a.size, false);
    float* const factors = s.rows + kBlock * s.width;
    transpose_rows(s.keys_t, s.pitch, p.q + p.hidden, p.stride, p.length, a.size);
    copy_rows(s.values, s.width, p.q + 2 * p.hidden, p.stride, p.length, a.size);
    for (std::int64_t begin = 0; begin < p.length; begin += kBlock) {
        const std::int64_t rows = p.length - begin < kBlock ? p.length - begin : kBlock;
        multiply({p.q + begin * p.stride, p.stride, 1, s.keys_t, s.pitch, s.scores, s.pitch, rows,
                  s.pitch, a.size, false});
        for (std::int64_t i = 0; i < rows; ++i) {
            const std::int64_t query = begin + i;
            const std::int64_t n = seen(a, p, query);
            const bool* dense = dense_row(a, sequence, query);
            float* const row = s.scores + i * s.pitch;
            const float shift = largest_seen(row, n, dense) * a.factor;
            const bool blind = shift == -__builtin_inff();
            const float sum = blind ? 0 : exponentials(row, a.factor, shift, n, dense);
            // A query that sees nothing: exp(… - infinity) is zero in the backward pass, too.
            a.logsum[(p.first + query) * a.heads + head] =
                blind ? __builtin_inff() : shift + __builtin_logf(sum);
            const float share = blind ? 0 : 1.0F / sum;
            if (blind) {
                for (std::int64_t j = 0; j < n; ++j) {
                    row[j] = 0;
                }
            } else if (a.keep.active()) {
                fill_keep(factors, a.keep, first_number(a, p, query), n);
#pragma omp simd
                for (std::int64_t j = 0; j < n; ++j) {
                    row[j] *= share * factors[j];
                }
            } else {
#pragma omp simd
                for (std::int64_t j = 0; j < n; ++j) {
                    row[j] *= share;
                }
            }
            for (std::int64_t j = n; j < p.length; ++j) {
                row[j] = 0;
            }
        }
        multiply({s.scores, s.pitch, 1, s.values, s.width, s.rows, s.width, rows, s.width, p.length,
                  false});
        for (std::int64_t i = 0; i < rows; ++i) {
            float* const out = a.out + (p.first + begin + i) * p.hidden + head * a.size;
            for (std::int64_t d = 0; d < a.size; ++d) {
                out[d] = s.rows[i * s.width + d];
            }
        }
    }
}

// Rows of the block: probabilities (scores -> weights, after dropout) and the gradient of scores
// (d_weights -> in place).
ALG_INLINE void score_gradient(const Attention& a, const Place& p, std::int64_t sequence,
                               std::int64_t query, float* weights, float* gradient, float delta,
                               float* factors) {
    const std::int64_t n = seen(a, p, query);
    const float logsum = a.logsum[(p.first + query) * a.heads + p.head];
    if (logsum == __builtin_inff()) {
        for (std::int64_t j = 0; j < p.length; ++j) {
            weights[j] = 0;
            gradient[j] = 0;
        }
        return;
    }
    exponentials(weights, a.factor, logsum, n, dense_row(a, sequence, query));
    const float factor = a.factor;
    if (a.keep.active()) {
        fill_keep(factors, a.keep, first_number(a, p, query), n);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) {
            gradient[j] = weights[j] * (gradient[j] * factors[j] - delta) * factor;
            weights[j] *= factors[j];
        }
    } else {
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) {
            gradient[j] = weights[j] * (gradient[j] - delta) * factor;
        }
    }
    for (std::int64_t j = n; j < p.length; ++j) {
        weights[j] = 0;
        gradient[j] = 0;
    }
}

ALG_INLINE void put_rows(float* to, std::int64_t stride, const float* from, std::int64_t width,
                         std::int64_t rows, std::int64_t size) {
    for (std::int64_t r = 0; r < rows; ++r, to += stride, from += width) {
        for (std::int64_t i = 0; i < size; ++i) {
            to[i] = from[i];
        }
    }
}

void attention_backward(const AttentionBackward& b, float* memory, std::int64_t sequence,
                        std::int64_t head) {
    const Attention& a = b.forward;
    const Place p = place_of(a, sequence, head);
    const Scratch s = divide(memory, p.length, a.size, true);
    float* const factors = s.d_values + p.length * s.width;
    transpose_rows(s.keys_t, s.pitch, p.q + p.hidden, p.stride, p.length, a.size);
    transpose_rows(s.values_t, s.pitch, p.q + 2 * p.hidden, p.stride, p.length, a.size);
    copy_rows(s.keys, s.width, p.q + p.hidden, p.stride, p.length, a.size);
    float* const dq = b.dqkv + p.first * p.stride + head * a.size;
    for (std::int64_t begin = 0; begin < p.length; begin += kBlock) {
        const std::int64_t rows = p.length - begin < kBlock ? p.length - begin : kBlock;
        const float* out = a.out + (p.first + begin) * p.hidden + head * a.size;
        copy_rows(s.rows, s.width, p.q + begin * p.stride, p.stride, rows, a.size);
        copy_rows(s.d_rows, s.width, b.grad + (out - a.out), p.hidden, rows, a.size);
        multiply({s.rows, s.width, 1, s.keys_t, s.pitch, s.weights, s.pitch, rows, s.pitch, a.size,
                  false});
        multiply({s.d_rows, s.width, 1, s.values_t, s.pitch, s.scores, s.pitch, rows, s.pitch,
                  a.size, false});
        for (std::int64_t i = 0; i < rows; ++i) {
            float delta = 0;
#pragma omp simd reduction(+ : delta)
            for (std::int64_t d = 0; d < a.size; ++d) {
                delta += s.d_rows[i * s.width + d] * out[i * p.hidden + d];
            }
            score_gradient(a, p, sequence, begin + i, s.weights + i * s.pitch,
                           s.scores + i * s.pitch, delta, factors);
        }
        const bool add = begin > 0;
        multiply({s.weights, 1, s.pitch, s.d_rows, s.width, s.d_values, s.width, p.length, s.width,
                  rows, add});
        multiply({s.scores, 1, s.pitch, s.rows, s.width, s.d_keys, s.width, p.length, s.width, rows,
                  add});
        multiply({s.scores, s.pitch, 1, s.keys, s.width, s.rows, s.width, rows, s.width, p.length,
                  false});
        put_rows(dq + begin * p.stride, p.stride, s.rows, s.width, rows, a.size);
    }
    put_rows(dq + p.hidden, p.stride, s.d_keys, s.width, p.length, a.size);
    put_rows(dq + 2 * p.hidden, p.stride, s.d_values, s.width, p.length, a.size);
}
