# Every third-party library, all from Debian packages (tools/packages.txt installs them).
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(PUGIXML REQUIRED IMPORTED_TARGET pugixml)
find_path(TY_BOOST_INCLUDE boost/beast/core.hpp REQUIRED)
find_path(TY_DOCTEST_INCLUDE doctest/doctest.h REQUIRED)
# The agent carries its digests and archive reader inside, so that it runs on any glibc host.
find_library(TY_CRYPTO_STATIC libcrypto.a REQUIRED)
find_library(TY_ARCHIVE_STATIC libarchive.a REQUIRED)
find_library(TY_ZLIB_STATIC libz.a REQUIRED)
