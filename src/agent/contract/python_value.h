// SPDX-License-Identifier: Apache-2.0
// A JSON value as Python sees it: the training toolkit decodes hyperparameters with json.loads and
// hands them on as str(value) or json.dumps(value). Both spellings are part of the contract, down
// to the digits of a float, so this reader keeps what a generic JSON library would round or refuse
// (integers of any length, NaN, repeated members).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::agent {

class PythonValue {
public:
    enum class Kind { none, boolean, integer, real, text, list, dict };

    PythonValue() = default;
    static PythonValue of_text(std::string text);
    static PythonValue of_bool(bool value);
    static PythonValue of_int(long long value);
    static PythonValue of_list(std::vector<PythonValue> items);
    static PythonValue of_texts(const std::vector<std::string>& items);
    static PythonValue of_dict(std::vector<std::pair<std::string, PythonValue>> members);

    /// json.loads(text); nullopt where Python would raise. Depth is bounded at 200.
    static std::optional<PythonValue> parse(std::string_view text);
    /// What the toolkit makes of a hyperparameter: json.loads, or the raw text when that fails.
    static PythonValue decode(std::string_view text);

    Kind kind() const { return kind_; }
    const std::string& text() const { return text_; }
    const std::vector<PythonValue>& items() const { return items_; }
    const std::vector<std::pair<std::string, PythonValue>>& members() const { return members_; }
    /// Members are kept in order; an existing name is replaced.
    void set(std::string name, PythonValue value);

    /// str(value): text as it is, True, None, "[1, 'a']".
    std::string str() const;
    /// repr(value): as str() but text is quoted.
    std::string repr() const;
    /// json.dumps(value, sort_keys=True, separators=(",", ":")): ASCII only.
    std::string json() const;

private:
    friend class PythonParser;
    Kind kind_ = Kind::none;
    bool flag_ = false;
    double real_ = 0;
    std::string text_;  ///< text, or the digits of an integer
    std::vector<PythonValue> items_;
    std::vector<std::pair<std::string, PythonValue>> members_;
};

/// repr(float): the shortest digits that read back, in Python's choice of notation.
std::string python_float(double value);

}  // namespace ty::agent
