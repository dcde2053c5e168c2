// SPDX-License-Identifier: Apache-2.0
// Prints docs/reference/compatibility.md from the tables of the api module (make generate).
#include "api/sagemaker/fields.h"

#include <cstdio>

int main() {
    const std::string page = ty::api::sagemaker::compatibility_page();
    return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
