// SPDX-License-Identifier: Apache-2.0
// The only file that includes toml++.
#include "daemon/config.h"

#include "base/error.h"
#include "base/text.h"
#include "engine/engine.h"

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <algorithm>
#include <functional>

namespace ty::daemon {

namespace {

/// Collects every problem of the file instead of stopping at the first.
class Reader {
public:
    explicit Reader(std::string file) : file_(std::move(file)) {}

    using Setter = std::function<void(const toml::node&)>;
    using Keys = std::vector<std::pair<std::string, Setter>>;

    void table(const toml::table& table, const std::string& prefix, const Keys& keys) {
        std::vector<std::string> known;
        for (const auto& [name, setter] : keys) known.push_back(name);
        for (const auto& [name, node] : table) {
            const auto found = std::ranges::find(known, std::string(name.str()));
            if (found == known.end()) {
                problem(node, prefix + std::string(name.str()),
                        "is not a known key; the nearest is " +
                            join(nearest(name.str(), known, 1), ""));
            } else {
                keys[std::size_t(found - known.begin())].second(node);
            }
        }
    }

    template <typename T>
    void value(const toml::node& node, const std::string& key, T& out) {
        if (const auto read = node.value<T>()) {
            out = *read;
        } else {
            problem(
                node, key,
                std::is_same_v<T, bool> ? "must be true or false" : "must be a string in quotes");
        }
    }

    /// A whole number in [low, high].
    long long integer(const toml::node& node, const std::string& key, long long low,
                      long long high) {
        const auto read = node.is_integer() ? node.value<std::int64_t>() : std::nullopt;
        if (read && *read >= low && *read <= high) return *read;
        problem(node, key, format("must be a whole number from {} to {}", low, high));
        return low;
    }

    /// A number from 0 to a million.
    double amount(const toml::node& node, const std::string& key) {
        const auto read = node.is_number() ? node.value<double>() : std::nullopt;
        if (read && *read >= 0 && *read <= 1e6) return *read;
        problem(node, key, "must be a number from 0 to 1000000");
        return 0;
    }

    void strings(const toml::node& node, const std::string& key, std::vector<std::string>& out) {
        const toml::array* array = node.as_array();
        if (array == nullptr) return problem(node, key, "must be a list of strings");
        for (const toml::node& item : *array) {
            std::string text;
            value(item, key, text);
            out.push_back(std::move(text));
        }
    }

    void pairs(const toml::node& node, const std::string& key,
               const std::function<void(std::string, std::string)>& add) {
        const toml::table* table = node.as_table();
        if (table == nullptr) return problem(node, key, "must be a table of strings");
        for (const auto& [name, item] : *table) {
            std::string text;
            value(item, key + "." + std::string(name.str()), text);
            add(std::string(name.str()), std::move(text));
        }
    }

    void problem(const toml::node& node, const std::string& key, std::string text) {
        problems_.push_back(
            {format("{}:{}: {}", file_, node.source().begin.line, key), std::move(text)});
    }

    void finish() const {
        if (!problems_.empty())
            throw Error(Code::invalid, "BadConfiguration", "the configuration is not usable",
                        problems_);
    }

private:
    std::string file_;
    std::vector<Problem> problems_;
};

images::Definition read_environment(Reader& reader, const toml::table& table) {
    images::Definition out;
    const std::string prefix = "environments.";
    const auto text = [&](std::string& field, const char* key) {
        return Reader::Setter(
            [&, key](const toml::node& node) { reader.value(node, prefix + key, field); });
    };
    const auto list = [&](std::vector<std::string>& field, const char* key) {
        return Reader::Setter(
            [&, key](const toml::node& node) { reader.strings(node, prefix + key, field); });
    };
    reader.table(
        table, prefix,
        {{"name", text(out.name, "name")},
         {"match", list(out.match, "match")},
         {"python", text(out.python, "python")},
         {"requires_modules", list(out.requires_modules, "requires_modules")},
         {"readable", list(out.readable, "readable")},
         {"path", list(out.path, "path")},
         {"entrypoint", list(out.entrypoint, "entrypoint")},
         {"code", text(out.code, "code")},
         {"toolkit",
          [&](const toml::node& node) { reader.value(node, prefix + "toolkit", out.toolkit); }},
         {"launcher",
          [&](const toml::node& node) { reader.value(node, prefix + "launcher", out.launcher); }},
         {"variables", [&](const toml::node& node) {
              reader.pairs(node, prefix + "variables", [&](std::string name, std::string value) {
                  out.variables.emplace_back(std::move(name), std::move(value));
              });
          }}});
    if (out.name.empty()) reader.problem(table, prefix + "name", "is missing");
    if (out.match.empty())
        reader.problem(table, prefix + "match", "is missing: which image URIs does it stand for?");
    return out;
}

api::Price read_price(Reader& reader, const toml::node& node, const std::string& key) {
    api::Price price;
    const toml::table* table = node.as_table();
    if (table == nullptr) {
        reader.problem(node, key, "must be a table such as { on_demand = 3.825, spot = 1.1475 }");
        return price;
    }
    bool has_spot = false;
    const auto amount = [&](const char* name, double& into) {
        return Reader::Setter([&reader, &into, key, name](const toml::node& value) {
            into = reader.amount(value, key + "." + name);
        });
    };
    reader.table(*table, key + ".",
                 {{"on_demand", amount("on_demand", price.on_demand)},
                  {"spot", [&](const toml::node& value) {
                       has_spot = true;
                       amount("spot", price.spot)(value);
                   }}});
    if (!(price.on_demand > 0))
        reader.problem(node, key + ".on_demand", "is missing or zero; give the price of one hour");
    if (!has_spot) price.spot = price.on_demand;
    if (price.spot > price.on_demand)
        reader.problem(node, key + ".spot", "is above on_demand; are the two exchanged?");
    return price;
}

void read_prices(Reader& reader, const toml::node& node, Config& config) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return reader.problem(node, "prices", "must be a table");
    const std::vector<std::string> types = engine::instance_type_names();
    for (const auto& [name, item] : *table) {
        const std::string type(name.str());
        const std::string key = "prices." + type;
        if (std::ranges::find(types, type) == types.end())
            reader.problem(item, key,
                           "is no instance type; the nearest is " +
                               join(nearest(type, types, 1), "") +
                               " (types are written in quotes: \"ml.m5.xlarge\")");
        else
            config.prices[type] = read_price(reader, item, key);
    }
}

void read_checkpoints(Reader& reader, const toml::node& node, Config& config) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return reader.problem(node, "checkpoints", "must be a table");
    const auto text = [&](std::string& field, const char* key) {
        return Reader::Setter(
            [&reader, &field, key](const toml::node& value) { reader.value(value, key, field); });
    };
    api::Settings::Google& google = config.google;
    reader.table(*table, "checkpoints.",
                 {{"google_endpoint", text(google.endpoint, "checkpoints.google_endpoint")},
                  {"google_access_key",
                   text(google.credentials.access_key, "checkpoints.google_access_key")},
                  {"google_secret_key",
                   text(google.credentials.secret_key, "checkpoints.google_secret_key")}});
    if (!google.endpoint.starts_with("http://") || google.credentials.access_key.empty() ||
        google.credentials.secret_key.empty())
        reader.problem(node, "checkpoints",
                       "needs google_endpoint, google_access_key and google_secret_key (an HMAC "
                       "key of the bucket's project); agents speak plain http, so the endpoint is "
                       "a gateway that adds TLS, such as \"http://127.0.0.1:8080\"");
}

void read_top(Reader& reader, const toml::table& table, Config& config) {
    const auto text = [&](std::string& field, const char* key) {
        return Reader::Setter([&, key](const toml::node& node) { reader.value(node, key, field); });
    };
    reader.table(
        table, "",
        {{"listen", text(config.listen, "listen")},
         {"port",
          [&](const toml::node& node) {
              config.port = std::uint16_t(reader.integer(node, "port", 0, 65535));
          }},
         {"account",
          [&](const toml::node& node) {
              reader.value(node, "account", config.account);
              if (config.account.size() != 12 || !parse_int(config.account))
                  reader.problem(node, "account", "must be twelve digits in quotes");
          }},
         {"region", text(config.region, "region")},
         {"role", text(config.role, "role")},
         {"max_running_jobs",
          [&](const toml::node& node) {
              config.max_running_jobs =
                  std::size_t(reader.integer(node, "max_running_jobs", 1, 10000));
          }},
         {"stop_grace_seconds",
          [&](const toml::node& node) {
              config.stop_grace = seconds(reader.integer(node, "stop_grace_seconds", 0, 86400));
          }},
         {"interpreters",
          [&](const toml::node& node) {
              reader.strings(node, "interpreters", config.interpreters);
          }},
         {"algorithms",
          [&](const toml::node& node) {
              std::string folder;
              reader.value(node, "algorithms", folder);
              config.algorithms = folder;
              if (!config.algorithms.is_absolute())
                  reader.problem(node, "algorithms", "must be the full path of a folder");
          }},
         {"instance_map",
          [&](const toml::node& node) {
              reader.pairs(node, "instance_map", [&](std::string type, std::string target) {
                  if (target != "cpu")
                      reader.problem(node, "instance_map." + type, "must be \"cpu\"");
                  config.instance_map[type] = target;
              });
          }},
         {"other_hosts",
          [&](const toml::node& node) {
              std::string choice;
              reader.value(node, "other_hosts", choice);
              if (choice != "tunnel" && choice != "refuse")
                  reader.problem(node, "other_hosts", "must be \"tunnel\" or \"refuse\"");
              config.other_hosts = choice == "refuse" ? OtherHosts::refuse : OtherHosts::tunnel;
          }},
         {"currency",
          [&](const toml::node& node) {
              reader.value(node, "currency", config.currency);
              if (config.currency.empty() || config.currency.size() > 8)
                  reader.problem(node, "currency", "must be a short name such as \"USD\"");
          }},
         {"checkpoints", [&](const toml::node& node) { read_checkpoints(reader, node, config); }},
         {"prices", [&](const toml::node& node) { read_prices(reader, node, config); }},
         {"environments", [&](const toml::node& node) {
              const toml::array* array = node.as_array();
              if (array == nullptr)
                  return reader.problem(node, "environments",
                                        "must be written as [[environments]]");
              for (const toml::node& item : *array)
                  if (const toml::table* row = item.as_table())
                      config.environments.push_back(read_environment(reader, *row));
          }}});
}

}  // namespace

Config parse_config(const sys::fs::path& home, std::string_view text, const std::string& name) {
    Config config;
    config.home = home;
    try {
        const toml::table table = toml::parse(text, name);
        Reader reader(name);
        read_top(reader, table, config);
        reader.finish();
    } catch (const toml::parse_error& error) {
        throw_error(Code::invalid, "BadConfiguration", "{}:{}: {}", name, error.source().begin.line,
                    error.description());
    }
    return config;
}

Config read_config(const sys::fs::path& home, const sys::fs::path& path, bool required) {
    std::error_code ignored;
    if (!required && !sys::fs::exists(path, ignored)) {
        Config config;
        config.home = home;
        return config;
    }
    return parse_config(home, sys::read_file(path), path.string());
}

}  // namespace ty::daemon
