package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a script that completes commands, flags and file names.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown below the flags.
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

func bashCompletion(w io.Writer, app *kong.Application) {
	var names []string
	cases := ""
	for _, n := range commands(app) {
		names = append(names, n.Name)
		cases += fmt.Sprintf("    %s) flags=%q ;;\n", n.Name, strings.Join(flagsOf(n), " "))
	}
	fmt.Fprintf(w, `_onnxmem() {
  local word=${COMP_WORDS[COMP_CWORD]} flags=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W %q -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
%s  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}
complete -o filenames -F _onnxmem onnxmem
`, strings.Join(names, " "), cases)
}

func fishCompletion(w io.Writer, app *kong.Application) {
	for _, n := range commands(app) {
		fmt.Fprintf(w, "complete -c onnxmem -n __fish_use_subcommand -a %s -d %q\n", n.Name, n.Help)
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				fmt.Fprintf(w, "complete -c onnxmem -n '__fish_seen_subcommand_from %s' -l %s -d %q\n", n.Name, f.Name, f.Help)
			}
		}
	}
}
