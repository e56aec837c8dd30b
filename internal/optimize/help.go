package optimize

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// Groups are the groups of flags, by the tag group, in the order in which help shows them.
var Groups = []kong.Group{
	{Key: "input", Title: "Input"},
	{Key: "model", Title: "Model"},
	{Key: "dimensions", Title: "Dimensions"},
	{Key: "memory", Title: "Memory"},
	{Key: "training", Title: "Training"},
	{Key: "search", Title: "Search"},
	{Key: "machine", Title: "Machine"},
	{Key: "devices", Title: "Devices"},
	{Key: "checks", Title: "Checks"},
	{Key: "program", Title: "Programs for solvers"},
	{Key: "output", Title: "Output"},
}

const (
	helpLines = 45 // the most lines of --help
	helpWidth = 80 // of every line
	flagWidth = 29 // of flags; what is longer has its text in the next line
)

// Help returns an option that prints help with the flags in [Groups]. --help has a line for
// each flag that is not tagged as seldom, with the first sentence of its text, and, as far as
// 45 lines permit, what is to be said about the command and its examples. --help-all in args, which becomes --help, has all flags
// and whole texts. For a program with several commands, kong lists these.
func Help(args []string) (rest []string, option kong.Option) {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	rest = slices.Clone(args)
	all := slices.Index(rest[:end], "--help-all")
	if all >= 0 {
		rest[all] = "--help"
	}
	return rest, kong.Help(func(o kong.HelpOptions, ctx *kong.Context) error {
		n := selected(ctx)
		if len(n.Children) > 0 {
			return kong.DefaultHelpPrinter(o, ctx)
		}
		_, err := fmt.Fprintln(ctx.Stdout, strings.Join(help(ctx.Model.Name, n, all >= 0), "\n"))
		return err
	})
}

// help returns the lines of help for a command.
func help(program string, n *kong.Node, all bool) []string {
	usage := n.Summary()
	if n.Parent != nil {
		usage = " " + usage
	}
	top := append([]string{"Usage: " + program + usage, ""}, wrap(n.Help, helpWidth)...)
	about, examples := details(n.Detail)
	var args [][2]string
	for _, p := range n.Positional {
		args = append(args, [2]string{p.Summary(), p.Help})
	}
	var below []string
	if len(args) > 0 {
		below = append([]string{""}, columns(args, widthOf(args), all)...)
	}
	flags, left := grouped(n, all)
	below = append(append(below, ""), flags...)
	if !all {
		below = append(below, "", fmt.Sprintf("More: --help-all (whole texts, %d more flags), --full-names, --version", left))
		room := helpLines - len(top) - len(below)
		if needed := len(about) + 2 + min(2, len(examples)); needed > room {
			about = nil
		}
		if room -= len(about) + 2; room < len(examples) {
			examples = examples[:max(0, room)]
		}
	}
	lines := append(top, about...)
	if end := len(below) - 2; !all { // the last two lines stand behind the examples
		lines, below = append(lines, below[:end]...), below[end:]
	} else {
		lines, below = append(lines, below...), nil
	}
	if len(examples) > 0 {
		lines = append(append(lines, "", "Examples:"), examples...)
	}
	return append(lines, below...)
}

// details divides the details of a command into what is to be said about it, in lines, and
// the lines of its examples.
func details(text string) (about, examples []string) {
	text, list, _ := strings.Cut(text, "Examples:\n")
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if paragraph != "" {
			about = append(append(about, ""), wrap(paragraph, helpWidth)...)
		}
	}
	if list != "" {
		examples = strings.Split(strings.TrimRight(list, "\n"), "\n")
	}
	return about, examples
}

// grouped returns the lines for the flags of a command, and how many seldom ones it leaves
// out. Those of no group come last, and only with all.
func grouped(n *kong.Node, all bool) (lines []string, left int) {
	other := kong.Group{Title: "Other"}
	rows := map[string][][2]string{}
	var every [][2]string
	for _, list := range n.AllFlags(true) {
		for _, f := range list {
			key := other.Key
			if f.Group != nil {
				key = f.Group.Key
			}
			if !all && f.Tag != nil && f.Tag.Has("seldom") {
				left++
			} else if all || key != other.Key {
				row := [2]string{flagForm(f), f.Help}
				rows[key], every = append(rows[key], row), append(every, row)
			}
		}
	}
	for _, g := range append(slices.Clone(Groups), other) {
		if len(rows[g.Key]) == 0 {
			continue
		}
		if all && len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(append(lines, g.Title+":"), columns(rows[g.Key], widthOf(every), all)...)
	}
	return lines, left
}

// flagForm is a flag as one writes it.
func flagForm(f *kong.Flag) string {
	form := "--" + f.Name
	if f.Short != 0 {
		form = "-" + string(f.Short) + ", " + form
	}
	switch {
	case f.IsBool() && f.Tag != nil && f.Tag.Negatable != "":
		return "--[no-]" + f.Name
	case f.IsBool():
		return form
	case f.Enum != "" && f.PlaceHolder == "":
		return form + "=" + strings.Trim(strings.ReplaceAll(f.Enum, ",", "|"), "|")
	case f.PlaceHolder != "":
		return form + "=" + f.PlaceHolder
	}
	return form + "=" + f.FormatPlaceHolder()
}

// widthOf is the width of the first column of rows.
func widthOf(rows [][2]string) (width int) {
	for _, r := range rows {
		width = max(width, min(utf8.RuneCountInString(r[0]), flagWidth))
	}
	return width
}

// columns returns lines with the two columns of rows, the first of that width or, in a line
// of its own, wider. Without all, a row is a line with the first sentence of its text.
func columns(rows [][2]string, width int, all bool) (lines []string) {
	for _, r := range rows {
		text := []string{firstSentence(r[1])}
		if all {
			text = wrap(r[1], helpWidth-width-4)
		}
		first := fmt.Sprintf("  %-*s", width, r[0])
		if all && utf8.RuneCountInString(r[0]) > width {
			lines = append(lines, first)
			first = strings.Repeat(" ", width+2)
		}
		for _, t := range text {
			lines = append(lines, strings.TrimRight(first+"  "+t, " "))
			first = strings.Repeat(" ", width+2)
		}
	}
	return lines
}

// firstSentence is the text up to the first full stop that a blank follows.
func firstSentence(text string) string {
	first, _, more := strings.Cut(text, ". ")
	if more {
		first += "."
	}
	return first
}

// wrap divides a text into lines of at most width runes, unless a word is longer.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// WrongLine is the message for a command line that causes err.
func WrongLine(name string, err error) string {
	path := name
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		path = selected(parse.Context).FullPath()
	}
	return fmt.Sprintf("%v (see %s --help)", err, path)
}

// selected is the command on the command line, as far as it was parsed.
func selected(ctx *kong.Context) *kong.Node {
	if n := ctx.Selected(); n != nil {
		return n
	}
	for i := len(ctx.Path) - 1; i >= 0; i-- { // if an argument is missing, the command is further up
		if c := ctx.Path[i].Command; c != nil {
			return c
		}
	}
	return ctx.Model.Node
}
