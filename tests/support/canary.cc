// SPDX-License-Identifier: Apache-2.0
// Does what the sanitizers must catch. The test fails when they let it pass.
#include <climits>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "overflow") == 0) {
        volatile int big = INT_MAX;
        big = big + argc;
        return 0;
    }
    volatile char* block = static_cast<volatile char*>(std::malloc(4));
    block[4] = 1;  // one past the end
    std::free(const_cast<char*>(block));
    return 0;
}
