// SPDX-License-Identifier: Apache-2.0
// Which face a request is for, decided from its head alone (and a form's Action from its body).
// Every service shares one host and port, so the clues are taken in order of how much they can be
// trusted to mean one thing: target header, CBOR path, our own path, form, credential scope, host
// name; what is left is S3.
#pragma once

#include "api/render.h"
#include "http/http.h"

#include <string>
#include <string_view>

namespace ty::api {

struct Route {
    enum class Face { admin, agent, aws };
    Face face = Face::aws;
    std::string service;  ///< signing name: "sagemaker", "s3", "monitoring", …
    Protocol protocol = Protocol::rest_xml;
    std::string operation;   ///< empty for S3, and for forms until add_form()
    std::string bucket;      ///< virtual-host S3: belongs in front of the path
    std::string region;      ///< from scope or host; may be empty
    bool reads_body = true;  ///< whole body before the face is called (all but S3)
};

/// `own_host` is the host of the daemon's endpoint, for "<bucket>.<own host>".
Route find_route(const http::Request& request, std::string_view own_host);
/// Operation and service of a form: Action and Version decide, the scope where Version is unknown.
void add_form(Route& route, std::string_view form);

/// What an error document of this request mentions.
ErrorContext error_context(const http::Request& request, const Route& route,
                           std::string request_id);

}  // namespace ty::api
