# LibTorch from the wheel that Python scripts train with; the rest from Debian packages.
find_package(Threads REQUIRED)
# The wheel keeps kineto inside libtorch_cpu, and LibTorch's own script warns that it is not beside it.
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
find_package(Torch REQUIRED)
unset(CMAKE_MESSAGE_LOG_LEVEL)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-cpp)
find_path(ALG_DOCTEST_INCLUDE doctest/doctest.h REQUIRED)
# Gloo inside LibTorch is complete, but the wheel leaves its headers out.
find_path(ALG_GLOO_INCLUDE gloo/context.h REQUIRED)

add_library(alg_torch INTERFACE)
target_include_directories(alg_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(alg_torch INTERFACE ${TORCH_LIBRARIES})
target_compile_definitions(alg_torch INTERFACE USE_C10D_GLOO)
# Without it at::parallel_for is a plain loop in our code. The runtime is the libgomp.so.1 beside
# LibTorch: one name, loaded once, one pool of threads.
target_compile_options(alg_torch INTERFACE -fopenmp)
target_link_options(alg_torch INTERFACE -fopenmp)

# As in the main project. LibTorch's headers are system headers.
add_library(alg_warnings INTERFACE)
target_compile_options(alg_warnings INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow
                                              -Wswitch-enum -Wno-missing-field-initializers -Werror
                                              -Wno-error=maybe-uninitialized)
