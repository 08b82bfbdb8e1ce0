/* What check_spills is tested with: one kernel that needs more registers than it may have, and one that does not. */
constexpr int values = 128;

__global__ void __launch_bounds__(1024) attend_much(float *x) /* 64 registers a thread */
{
    float v[values];
#pragma unroll
    for (int i = 0; i < values; i++)
        v[i] = x[i * 1024 + static_cast<int>(threadIdx.x)];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < values; i++)
        x[i * 1024 + static_cast<int>(threadIdx.x)] = v[values - 1 - i];
}

__global__ void attend_little(float *x)
{
    x[threadIdx.x] += 1;
}
