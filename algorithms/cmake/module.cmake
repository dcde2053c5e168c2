# alg_module(<name> SOURCES a.cc… [TORCH] [DEPS …] [TESTS a_test.cc…])
#   One folder = one static library alg_<name> + one doctest binary. Without TORCH the module may not
#   include LibTorch; its tests are then built with the address and undefined-behaviour sanitizers.
# alg_programs(): one program per folder that has a train.cc.
function(alg_module name)
    cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS;TESTS" ${ARGN})
    if(NOT ARG_SOURCES)  # headers only
        add_library(alg_${name} INTERFACE)
        target_link_libraries(alg_${name} INTERFACE ${ARG_DEPS})
        return()
    endif()
    add_library(alg_${name} STATIC ${ARG_SOURCES})
    target_include_directories(alg_${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(alg_${name} PUBLIC ${ARG_DEPS} Threads::Threads PRIVATE alg_warnings)
    if(ARG_TORCH)
        target_link_libraries(alg_${name} PUBLIC alg_torch)
    endif()
    if(NOT ALG_TESTS OR NOT ARG_TESTS)
        return()
    endif()
    add_executable(${name}_test ${ARG_TESTS} ${CMAKE_SOURCE_DIR}/../tests/support/doctest_main.cc)
    target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/.. SYSTEM ${ALG_DOCTEST_INCLUDE})
    if(ARG_TORCH)
        target_link_libraries(${name}_test PRIVATE alg_${name} alg_warnings)
    else()
        # The module's sources once more, under the sanitizers.
        target_sources(${name}_test PRIVATE ${ARG_SOURCES})
        target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
        target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} Threads::Threads alg_warnings)
        target_compile_options(${name}_test PRIVATE -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined)
        target_link_options(${name}_test PRIVATE -fsanitize=address,undefined)
    endif()
    alg_add_test(algorithms_${name}_test unit 120 $<TARGET_FILE:${name}_test>)
endfunction()

# A test of this project that the main project's ctest runs, too: alg_add_test(name label timeout command…)
function(alg_add_test name label timeout)
    add_test(NAME ${name} COMMAND ${ARGN})
    string(REPLACE ";" "\" \"" command "${ARGN}")
    set_property(GLOBAL APPEND_STRING PROPERTY ALG_TEST_LINES
        "add_test(\"${name}\" \"${command}\")\nset_tests_properties(\"${name}\" PROPERTIES LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77 WORKING_DIRECTORY \"${CMAKE_SOURCE_DIR}/..\")\n")
endfunction()

function(alg_write_tests)
    get_property(lines GLOBAL PROPERTY ALG_TEST_LINES)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/trainyard_tests.cmake CONTENT "${lines}")
endfunction()

function(alg_programs)
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/*/train.cc)
    get_filename_component(torch_lib ${TORCH_INSTALL_PREFIX}/lib ABSOLUTE)
    # All a program needs besides the system's libraries; wheels for CUDA find NVIDIA's beside torch.
    set(libraries "\"${torch_lib}\"")
    get_filename_component(nvidia ${TORCH_INSTALL_PREFIX}/../nvidia ABSOLUTE)
    if(EXISTS ${nvidia})
        string(APPEND libraries ", \"${nvidia}\"")
    endif()
    foreach(path ${found})
        get_filename_component(folder ${path} DIRECTORY)
        get_filename_component(program ${folder} NAME)
        add_subdirectory(${folder})
        set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${ALG_OUTPUT}
                                                    BUILD_RPATH ${torch_lib})
        # What the platform needs to know to run it as an image.
        file(GENERATE OUTPUT ${ALG_OUTPUT}/${program}.json CONTENT
             "{\"image\": \"trainyard/${program}\", \"program\": \"${program}\", \"libraries\": [${libraries}], \"torch\": \"${Torch_VERSION}\"}\n")
    endforeach()
endfunction()
