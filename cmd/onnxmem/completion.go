package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/internal/optimize"
)

// completionCmd prints a script that completes commands, flags and file names.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the text below the flags.
func (completionCmd) Help() string {
	return `Examples:
  source <(onnxmem completion bash)
  onnxmem completion fish > ~/.config/fish/completions/onnxmem.fish`
}

// Run prints the script.
func (c *completionCmd) Run(e *env) error {
	if c.Shell == "fish" {
		fishCompletion(e.stdout, e.app)
		return nil
	}
	if c.Shell == "zsh" {
		fmt.Fprintln(e.stdout, "autoload -U +X bashcompinit && bashcompinit")
	}
	bashCompletion(e.stdout, e.app)
	return nil
}

// flagsOf lists a command's flags as they are typed.
func flagsOf(n *kong.Node) []string {
	var flags []string
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			flags = append(flags, "--"+f.Name)
		}
	}
	return flags
}

func commands(app *kong.Application) []*kong.Node {
	var list []*kong.Node
	for _, n := range app.Children {
		if !n.Hidden {
			list = append(list, n)
		}
	}
	return list
}

// valuesOf lists the values of a flag of a command; nothing if any value is
// allowed.
func valuesOf(n *kong.Node, f *kong.Flag) []string {
	names := ""
	switch {
	case f.Enum != "":
		names = f.Enum
	case f.Name == "schedule", f.Name == "strategy" && n.Name == "order":
		names = optimize.Vars()["schedules"]
	case f.Name == "placement", f.Name == "strategy":
		names = optimize.Vars()["placements"]
	default:
		return nil
	}
	return strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
}

func bashCompletion(w io.Writer, app *kong.Application) {
	var names []string
	cases, values := "", ""
	for _, n := range commands(app) {
		names = append(names, n.Name)
		cases += fmt.Sprintf("    %s) flags=%q ;;\n", n.Name, strings.Join(flagsOf(n), " "))
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				if v := valuesOf(n, f); v != nil {
					values += fmt.Sprintf("    \"%s --%s\") values=%q ;;\n", n.Name, f.Name, strings.Join(v, " "))
				}
			}
		}
	}
	fmt.Fprintf(w, `_onnxmem() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flags="" values=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W %q -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
%s  esac
  case "${COMP_WORDS[1]} $before" in
%s  esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
    return
  fi
  case $word in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}
complete -o filenames -F _onnxmem onnxmem
`, strings.Join(names, " "), cases, values)
}

func fishCompletion(w io.Writer, app *kong.Application) {
	for _, n := range commands(app) {
		fmt.Fprintf(w, "complete -c onnxmem -n __fish_use_subcommand -a %s -d %q\n", n.Name, n.Help)
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				takes := ""
				if v := valuesOf(n, f); v != nil {
					takes = fmt.Sprintf(" -x -a %q", strings.Join(v, " "))
				}
				fmt.Fprintf(w, "complete -c onnxmem -n '__fish_seen_subcommand_from %s' -l %s%s -d %q\n", n.Name, f.Name, takes, f.Help)
			}
		}
	}
}
