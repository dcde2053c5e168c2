# ty_plugins(<variable> <folder> [GLOB pattern]): the stems of the files found there, sorted.
# The only glob in the build: a new API operation, CLI verb or engine is found by its file name.
function(ty_plugins variable folder)
    cmake_parse_arguments(ARG "" "GLOB" "" ${ARGN})
    if(NOT ARG_GLOB)
        set(ARG_GLOB "*.cc")
    endif()
    file(GLOB found CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/${folder}
         ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${ARG_GLOB})
    list(FILTER found EXCLUDE REGEX "_test\\.cc$")
    list(SORT found)
    set(stems "")
    foreach(file ${found})
        get_filename_component(stem ${file} NAME_WE)
        list(APPEND stems ${stem})
    endforeach()
    set(${variable} ${stems} PARENT_SCOPE)
endfunction()
