#include "launcher/completion.h"

#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "launcher/command_line/message_help.h"
#include "launcher/command_line/raw_flags.h"
#include "launcher/verbs/verbs.h"

namespace ddprun {
namespace {

// The part of the help that fits beside a name.
std::string Brief(const FlagRow& row) {
  std::string text = row.help.substr(0, row.help.find_first_of(";:("));
  text = text.substr(0, text.find(". "));
  text.erase(text.find_last_not_of(' ') + 1);
  return text.empty() ? row.name : text;
}

std::string VerbWords() {
  return Joined(VerbNames(), " ");
}

// Spellings of all flags that take a value, for a shell's case.
std::string Valued(const std::string& separator) {
  std::vector<std::string> names;
  for (const FlagRow& row : FlagTable()) {
    if (!row.form.empty()) {
      names.push_back("--" + row.name);
      for (const std::string& alias : row.aliases) {
        names.push_back("--" + alias);
      }
      if (!row.short_name.empty()) {
        names.push_back("-" + row.short_name);
      }
    }
  }
  return Joined(names, separator);
}

// Everything is read from COMP_LINE: bash's own words are split at = and : too.
constexpr const char* kBash =
    R"(# bash completion for @: source it, or put it into bash-completion's directory.
_@() {
  local line=${COMP_LINE:0:COMP_POINT} cur='' flag='' word program='' i=1
  local -a words=()
  COMPREPLY=()
  read -ra words <<<"$line"
  if [[ $line != *[[:space:]] ]]; then
    cur=${words[-1]}
    unset 'words[-1]'
  fi
  while ((i < ${#words[@]})) && [[ -z $program ]]; do
    word=${words[i]}
    [[ $word != -* ]] || word=${word//_/-}
    flag=''
    case $word in
      --) program=${words[i + 1]:-none} ;;
      --*=*) ;;
      %valued%)
        flag=$word
        ((++i))
        ;;
      -*) ;;
      *) program=$word ;;
    esac
    ((++i))
  done
  ((i > ${#words[@]})) || flag=''
  if [[ -n $program && $program != none ]]; then
    %verbs%
    compopt -o default
    return
  fi
  if [[ -z $flag && $cur == --*=* ]]; then
    flag=${cur%%=*}
    flag=${flag//_/-}
    cur=${cur#*=}
  fi
  case $flag in
    '') ;;
%values%
    *) return ;;
  esac
  if [[ $cur == -* && -z $program ]]; then
    local IFS=$'\n'
    compopt -o nospace
    COMPREPLY=($(compgen -W '%flags%' -- "${cur//_/-}"))
  else
    compopt -o filenames -o default
    COMPREPLY=($(compgen -W '%verb_names%' -- "$cur") $(compgen -c -- "$cur"))
  fi
}
complete -F _@ @
)";

// The flags of a verb are those of its help.
constexpr const char* kBashVerbs = R"sh(case $program in
      completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- "$cur")) ;;
      example) COMPREPLY=($(compgen -W 'ddp elastic fsdp lightning' -- "$cur")) ;;
      help) COMPREPLY=($(compgen -W '%verb_names% exit-codes messages %topics%' -- "$cur")) ;;
    esac
    [[ $program != @(completion|example|help) ]] || return
    if [[ $cur == -* && ' %verb_names% ' == *" $program "* ]]; then
      [[ $program != check ]] || program=run
      COMPREPLY=($(compgen -W "$("${words[0]}" "$program" --help 2>/dev/null |
        sed -nE 's/^ *(-.,)? ?(--[a-z-]+).*/\2/p' | sort -u)" -- "$cur"))
      return
    fi)sh";

std::string Bash(const std::string& name, bool verbs) {
  std::string values;
  std::vector<std::string> flags;
  for (const FlagRow& row : FlagTable()) {
    const std::string dashed = row.name.empty() ? "-" + row.short_name : "--" + row.name;
    flags.push_back(dashed + (row.form.empty() ? " " : "="));
    const std::string names =
        dashed + (row.short_name.empty() || row.name.empty() ? "" : " | -" + row.short_name);
    if (row.form == "DIR" || row.form == "FILE") {
      const std::string action = row.form == "DIR" ? "-d" : "-f";
      values += "    " + names + ")\n      compopt -o filenames\n      COMPREPLY=($(compgen " +
                action + " -- \"$cur\"))\n      return\n      ;;\n";
    } else if (!row.choices.empty()) {
      values += "    " + names + ")\n      COMPREPLY=($(compgen -W '" + Joined(row.choices, " ") +
                "' -- \"$cur\"))\n      return\n      ;;\n";
    }
  }
  values.pop_back();
  std::string script = kBash;
  ReplaceAll(script, "%valued%", Valued(" | "));
  ReplaceAll(script, "%values%", values);
  ReplaceAll(script, "%flags%", Joined(flags, "\n"));
  ReplaceAll(script, "%verbs%", verbs ? kBashVerbs : ":");
  ReplaceAll(script, "%topics%", Joined(Topics(), " "));
  ReplaceAll(script, "%verb_names%", verbs ? VerbWords() : "");
  ReplaceAll(script, "_@", "_" + name);
  ReplaceAll(script, "for @:", "for " + name + ":");
  ReplaceAll(script, " @\n", " " + name + "\n");
  return script;
}

// Inside '...' of zsh's _arguments and of fish.
std::string Escaped(std::string text, const std::string& escaped) {
  for (const char c : escaped) {
    ReplaceAll(text, std::string(1, c), std::string("\\") + c);
  }
  ReplaceAll(text, "'", "'\\''");
  return text;
}

std::string Zsh(const std::string& name, bool verbs) {
  std::string script = "#compdef " + name + "\n_arguments -s -S \\\n";
  for (const FlagRow& row : FlagTable()) {
    const std::string help = "[" + Escaped(Brief(row), "[]:") + "]";
    std::string action;
    if (!row.form.empty()) {
      action = ":" + Escaped(row.form, ":[]") + ":";
      action += row.form == "DIR"     ? "_files -/"
                : row.form == "FILE"  ? "_files"
                : row.choices.empty() ? " "
                                      : "(" + Joined(row.choices, " ") + ")";
    }
    const std::string equals = row.form.empty() ? "" : "=";
    if (row.name.empty()) {
      script += "  '-" + row.short_name + help + action + "' \\\n";
    } else if (row.short_name.empty()) {
      script += "  '--" + row.name + equals + help + action + "' \\\n";
    } else {
      const std::string sign = row.form.empty() ? "" : "+";
      script += "  '(-" + row.short_name + " --" + row.name + ")'{-" + row.short_name + sign +
                ",--" + row.name + equals + "}'" + help + action + "' \\\n";
    }
  }
  const std::string words = verbs ? std::string("\"verbs:verb:(") + VerbWords() + ")\" " : "";
  return script + "  '(-)1:program:{_alternative " + words +
         "\"commands:command:_command_names -e\" \"files:file:_files\"}' \\\n"
         "  '*::argument:_normal'\n";
}

constexpr const char* kFish =
    R"(# fish completion for @: put it into ~/.config/fish/completions/@.fish
function __@_before_program
    set -l words (commandline -opc)
    set -e words[1]
    set -l skip 0
    for word in $words
        if test $skip = 1
            set skip 0
            continue
        end
        switch $word
            case %valued%
                set skip 1
            case '-*'
            case '*'
                return 1
        end
    end
    return 0
end
)";

std::string Fish(const std::string& name, bool verbs) {
  std::string script = kFish;
  ReplaceAll(script, "@", name);
  ReplaceAll(script, "%valued%", Valued(" "));
  const std::string command = "complete -c " + name + " -n __" + name + "_before_program";
  for (const FlagRow& row : FlagTable()) {
    script += command;
    script += row.short_name.empty() ? "" : " -s " + row.short_name;
    script += row.name.empty() ? "" : " -l " + row.name;
    if (row.form == "DIR" || row.form == "FILE") {
      script += " -r";
    } else if (!row.form.empty()) {
      script += " -x";
      script += row.choices.empty() ? "" : " -a '" + Joined(row.choices, " ") + "'";
    }
    script += " -d '" + Escaped(Brief(row), "") + "'\n";
  }
  if (verbs) {
    script += command + " -a '" + VerbWords() + "'\n";
    script += "complete -c " + name +
              " -n '__fish_seen_subcommand_from completion' -x -a 'bash zsh fish'\n";
  }
  return script;
}

}  // namespace

Result<std::string> CompletionScript(const std::string& shell, const std::string& name) {
  const bool verbs = name == "ddprun";
  if (shell == "bash") {
    return Bash(name, verbs);
  }
  if (shell == "zsh") {
    return Zsh(name, verbs);
  }
  if (shell == "fish") {
    return Fish(name, verbs);
  }
  return Invalid("there are completions for bash, zsh and fish, not for", InOneLine(shell));
}

std::string CompletionHelp() {
  return R"(Usage: ddprun completion bash|zsh|fish

Prints a script that completes ddprun's flags, their values, and programs:
  bash   source <(ddprun completion bash)
  zsh    ddprun completion zsh > a directory in $fpath, as _ddprun
  fish   ddprun completion fish > ~/.config/fish/completions/ddprun.fish
)";
}

}  // namespace ddprun
