// SPDX-License-Identifier: Apache-2.0
// Typed hyperparameters. A program declares a struct with its defaults and binds each member:
//
//   struct Options { double learning_rate = 1e-4; bool in_tokens = false; };
//   Options options;
//   Hyperparameters declared("masked-lm");
//   declared.number("learning_rate", &options.learning_rate, {.above = 0}, "peak learning rate");
//   declared.flag("in_tokens", &options.in_tokens, "batch_size counts tokens, not samples");
//   declared.read(contract.hyperparameters);   // throws one Failure that lists every problem
//
// The declaration is also the documentation: describe() is what docs/reference is generated from.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace alg {

struct Range {
    double at_least = -std::numeric_limits<double>::infinity();
    double at_most = std::numeric_limits<double>::infinity();
    std::optional<double> above;  ///< exclusive lower bound
    std::optional<double> below;  ///< exclusive upper bound
};

class Hyperparameters {
public:
    explicit Hyperparameters(std::string program);

    // Each binds `name` to `*target`, whose value is the default. `target` outlives this object.
    void integer(const std::string& name, std::int64_t* target, Range range,
                 const std::string& help);
    void number(const std::string& name, double* target, Range range, const std::string& help);
    /// true/false/1/0/yes/no/on/off in any case.
    void flag(const std::string& name, bool* target, const std::string& help);
    void text(const std::string& name, std::string* target, const std::string& help);
    void choice(const std::string& name, std::string* target, std::vector<std::string> choices,
                const std::string& help);
    /// Accepted for the original's sake and without effect here; `why` is documented.
    void ignored(const std::string& name, const std::string& why);
    /// Another spelling of a declared name.
    void alias(const std::string& other, const std::string& name);

    /// Sets the targets. Throws one Failure listing all problems: unknown names with the nearest
    /// declared ones, values of the wrong type, values out of range. Nothing is set when it throws.
    void read(const std::map<std::string, std::string>& given);

    struct Row {
        std::string name, type, standard, allowed, help;
        std::string alias_of;
        bool ignored = false;
    };
    std::vector<Row> describe() const;
    /// All names read() accepts, with aliases and ignored ones.
    std::vector<std::string> names() const;
    /// Every value in force, as text, for the file stored with the model.
    std::map<std::string, std::string> values() const;
    /// One line per hyperparameter, for a terminal.
    std::string help() const;
    /// describe() as JSON: a list of objects.
    std::string to_json() const;

private:
    using Target = std::variant<std::monostate, std::int64_t*, double*, bool*, std::string*>;
    struct Parameter {
        Row row;
        Target target;  ///< nothing: ignored
        Range range;
        std::vector<std::string> choices;
    };
    using Value = std::variant<std::monostate, std::int64_t, double, bool, std::string>;

    Parameter& add(const std::string& name, const std::string& type, Target target,
                   const std::string& help);
    const Parameter* find(const std::string& name) const;
    static std::string parse(const Parameter& parameter, const std::string& text, Value& value);
    std::string unknown(const std::string& name) const;

    std::string program_;
    std::vector<Parameter> parameters_;
    std::vector<std::pair<std::string, std::string>> aliases_;  ///< other name -> declared name
};

/// Answers `--help` (text) and `--describe` (JSON) on stdout; true when there was one of them and
/// the program is done.
bool answer_help(int argc, const char* const* argv, const Hyperparameters& declared);

/// Closest names by edit distance, best first; at most `count`.
std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known,
                                 std::size_t count);

}  // namespace alg
