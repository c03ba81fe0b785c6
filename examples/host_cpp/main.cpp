// main.cpp - attention from C++20: what is taken is given back, memory is a std::span, errors are exceptions.
//
//     make && ./host_cpp
//
// The header that tilec makes is C; the classes here are what a C++ program puts around it, some 60 lines.
// One sequence of 200 tokens, 2 heads; the result is compared with the same sums on the CPU.
#include "attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int tokens = 200, heads = 2, dim = 64;

// A call of the driver, or of the header, that failed.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void check(CUresult result, const char *what, const char *message = "")
{
    if (result != CUDA_SUCCESS)
        throw Error(std::string(what) + ": error " + std::to_string(static_cast<int>(result)) + " " + message);
}

// The first GPU, whose context is current in this thread.
class Context {
public:
    Context()
    {
        CUcontext context;
        check(cuInit(0), "cuInit");
        check(cuDeviceGet(&device, 0), "cuDeviceGet");
        check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
        check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    }
    ~Context() { cuDevicePrimaryCtxRelease(device); }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

private:
    CUdevice device = 0;
};

// Memory of the GPU for so many T.
template <class T> class Buffer {
public:
    explicit Buffer(std::size_t count) : n(count) { check(cuMemAlloc(&data, n * sizeof(T)), "cuMemAlloc"); }
    explicit Buffer(std::span<const T> from) : Buffer(from.size())
    {
        check(cuMemcpyHtoD(data, from.data(), from.size_bytes()), "cuMemcpyHtoD");
    }
    ~Buffer() { cuMemFree(data); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    void read(std::span<T> to) const { check(cuMemcpyDtoH(to.data(), data, to.size_bytes()), "cuMemcpyDtoH"); }
    void clear() const { check(cuMemsetD8(data, 0, n * sizeof(T)), "cuMemsetD8"); }
    CUdeviceptr address() const { return data; }

private:
    std::size_t n;
    CUdeviceptr data = 0;
};

// The kernels of the header, loaded.
class Attention {
public:
    Attention()
    {
        char message[4096] = "";
        check(attention_load(&module, nullptr, message, sizeof message), "attention_load", message);
    }
    ~Attention() { attention_unload(&module); }
    Attention(const Attention &) = delete;
    Attention &operator=(const Attention &) = delete;

    void operator()(attention_args args, CUstream stream = nullptr) const
    {
        char message[4096] = "";
#ifdef ATTENTION_HAS_SCRATCH_TILE_COUNTER // zeros, of this call alone: each launch leaves them zero
        std::size_t bytes = attention_bytes_tile_counter(&module, &args);
        Buffer<unsigned char> counter(bytes > 0 ? bytes : 1); // 0: the code for this GPU takes none
        counter.clear();
        args.scratch_tile_counter = counter.address();
#endif
        check(attention_check(&args, message, sizeof message), "attention", message);
        check(attention_launch(&module, &args, stream), "attention");
        check(cuCtxSynchronize(), "attention");
    }

private:
    attention_module module{};
};

std::uint16_t to_bf16(float x)
{
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double from_bf16(std::uint16_t half)
{
    const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return static_cast<double>(x);
}

std::size_t at(int token, int head, int column)
{
    return (static_cast<std::size_t>(token) * heads + static_cast<std::size_t>(head)) * dim +
           static_cast<std::size_t>(column);
}

// The largest difference of `o` from causal attention in double.
double worst_error(std::span<const std::uint16_t> q, std::span<const std::uint16_t> k,
                   std::span<const std::uint16_t> v, std::span<const std::uint16_t> o)
{
    double worst = 0;
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < tokens; i++) {
            double sum = 0, row[dim] = {};
            for (int j = 0; j <= i; j++) {
                double score = 0;
                for (int d = 0; d < dim; d++)
                    score += from_bf16(q[at(i, h, d)]) * from_bf16(k[at(j, h, d)]);
                score = std::exp(score / std::sqrt(dim));
                sum += score;
                for (int d = 0; d < dim; d++)
                    row[d] += score * from_bf16(v[at(j, h, d)]);
            }
            for (int d = 0; d < dim; d++) {
                const double error = std::fabs(from_bf16(o[at(i, h, d)]) - row[d] / sum);
                if (!(error <= worst)) // also when it is not a number
                    worst = error;
            }
        }
    return worst;
}

int run()
{
    constexpr std::size_t elements = std::size_t{tokens} * heads * dim;
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<std::uint16_t> q(elements), k(elements), v(elements), o(elements);
    for (auto *values : {&q, &k, &v})
        std::generate(values->begin(), values->end(), [&] { return to_bf16(uniform(random)); });

    const Context context;
    const Attention attention;
    const Buffer<std::uint16_t> on_q{std::span<const std::uint16_t>(q)}, on_k{std::span<const std::uint16_t>(k)},
        on_v{std::span<const std::uint16_t>(v)}, on_o(elements);
    const Buffer<float> on_l(std::size_t{heads} * tokens);
    const auto view = [&](const Buffer<std::uint16_t> &of) {
        return tilec_view4{of.address(), {1, tokens, heads, dim}, {elements, heads * dim, dim, 1}};
    };

    attention_args args{};
    args.Q = view(on_q), args.K = view(on_k), args.V = view(on_v), args.O = view(on_o);
    args.L = {on_l.address(), {1, heads, tokens}, {heads * tokens, tokens, 1}};
    args.scale = 1.0F / std::sqrt(static_cast<float>(dim));
    attention(args);
    on_o.read(o);
    const double worst = worst_error(q, k, v, o);
    std::printf("%d tokens, %d heads: largest error %.5f\n", tokens, heads, worst);

    args.K.shape[1] = tokens - 1; // one key more in V than in K
    try {
        attention(args);
        return 1;
    } catch (const Error &error) {
        std::printf("refused: %s\n", error.what());
    }
    return worst < 0.02 ? 0 : 1; // bf16 keeps 8 bits of a value below 1, and p is rounded to it
}

} // namespace

int main()
try {
    return run();
} catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
}
