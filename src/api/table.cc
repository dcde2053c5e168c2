// SPDX-License-Identifier: Apache-2.0
// See table.h.
#include "api/table.h"

#include "api/route.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api {

namespace {

template <typename Row>
const Row& find_row(std::string_view service, std::string_view operation,
                    std::span<const Row> rows) {
    const auto found = std::ranges::find(rows, operation, &Row::name);
    if (found != rows.end()) return *found;
    if (operation.empty())
        throw_error(Code::invalid, "UnknownOperation", "the request to {} names no operation",
                    service);
    std::string served;
    for (const Row& row : rows) served += (served.empty() ? "" : ", ") + std::string(row.name);
    throw_error(Code::unsupported, "",
                "the operation {} of {} is not implemented by Trainyard; it has {}",
                to_valid_utf8(operation.substr(0, 80)), service, served);
}

ErrorContext context_of(const Call& call, std::string_view service) {
    Route route;
    route.service = service;
    return error_context(call.request, route, call.caller.request_id);
}

}  // namespace

http::Response serve_query_table(Call& call, std::string_view service, Protocol protocol,
                                 std::span<const QueryRow> rows) {
    try {
        const Form form(call.body);
        return find_row(service, call.operation, rows).handle(call, form);
    } catch (const Error& error) {
        return render_error(protocol, service, error, context_of(call, service));
    }
}

http::Response serve_json_table(Call& call, std::string_view service,
                                std::span<const JsonRow> rows) {
    try {
        return json_reply(Protocol::json_1_1, find_row(service, call.operation, rows).handle(call));
    } catch (const Error& error) {
        return render_error(Protocol::json_1_1, service, error, context_of(call, service));
    }
}

}  // namespace ty::api
