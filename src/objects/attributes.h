// SPDX-License-Identifier: Apache-2.0
// Attributes and text maps as the JSON kept in their column. Private to objects.
#pragma once

#include "objects/objects.h"

namespace ty::objects {

using TextMap = std::map<std::string, std::string>;

std::string to_column(const Attributes& attributes);
Attributes attributes_from_column(const std::string& text);
std::string to_column(const TextMap& map);
TextMap map_from_column(const std::string& text);

}  // namespace ty::objects
