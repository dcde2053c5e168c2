# The warnings every target of ours is compiled with; errors unless TY_WERROR is switched off.
option(TY_WERROR "Warnings are errors" ON)
add_library(ty_warnings INTERFACE)
target_compile_options(ty_warnings INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow
                                             -Wswitch-enum -Wno-missing-field-initializers)
if(TY_WERROR)
    # g++ 12 sees uninitialised reads in optimised std::optional code that are none.
    target_compile_options(ty_warnings INTERFACE -Werror -Wno-error=maybe-uninitialized)
endif()
