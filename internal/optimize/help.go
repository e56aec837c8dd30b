package optimize

import (
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// Help has --help leave out the flags that are tagged as seldom, so that it fits a
// screen; --help-all in args, which becomes --help, shows all.
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
		left := 0
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				if f.Tag != nil && f.Tag.Has("seldom") && all < 0 {
					f.Hidden = true
					left++
				}
			}
		}
		if err := kong.DefaultHelpPrinter(o, ctx); err != nil || left == 0 {
			return err
		}
		_, err := fmt.Fprintf(ctx.Stdout, "\n%d more flags, seldom needed: %s --help-all\n", left, n.FullPath())
		return err
	})
}

// WrongLine is what is said of a command line that err is about.
func WrongLine(name string, err error) string {
	path := name
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		path = selected(parse.Context).FullPath()
	}
	return fmt.Sprintf("%v (see %s --help)", err, path)
}

// selected is the command that is meant, as far as that is known.
func selected(ctx *kong.Context) *kong.Node {
	if n := ctx.Selected(); n != nil {
		return n
	}
	for i := len(ctx.Path) - 1; i >= 0; i-- { // an argument is missing
		if c := ctx.Path[i].Command; c != nil {
			return c
		}
	}
	return ctx.Model.Node
}
